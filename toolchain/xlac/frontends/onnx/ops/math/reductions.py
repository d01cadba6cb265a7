"""Reductions: Reduce*, ArgMax, ArgMin, CumSum, CumProd (ONNX operator sets 1 to 28)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType


def _summed(x: Node, axes: Sequence[int]) -> Node:
    return build.reduce(x, "add", axes)


def _mean(x: Node, axes: Sequence[int]) -> Node:
    return (
        build.apply1("mean", x, axis=list(axes)) if x.type.dtype.is_float else _whole_mean(x, axes)
    )


def _whole_mean(x: Node, axes: Sequence[int]) -> Node:
    count = 1
    for axis in axes:
        size = x.shape[axis]
        assert isinstance(size, int)
        count *= size
    return build.div(_summed(x, axes), build.constant(count, x.type.dtype))


def _extreme(combine: str, truth: str) -> Callable[[Node, Sequence[int]], Node]:
    def reduced(x: Node, axes: Sequence[int]) -> Node:
        return build.reduce(x, truth if x.type.dtype is DType.BOOL else combine, axes)

    return reduced


def _through(before: str, after: str) -> Callable[[Node, Sequence[int]], Node]:
    """A reduction before(x) -> sum -> after; integers keep their type, 16-bit floats are rounded
    once.
    """

    def reduced(x: Node, axes: Sequence[int]) -> Node:
        dtype = x.type.dtype
        wide = build.compute(x) if dtype.is_float or not after else build.cast(x, DType.F64)
        total = _summed(build.apply1(before, wide) if before else wide, axes)
        return build.cast(build.apply1(after, total) if after else total, dtype)

    return reduced


def _log_sum_exp(x: Node, axes: Sequence[int]) -> Node:
    wide = x if x.type.dtype.is_float else build.cast(x, DType.F64)
    return build.cast(build.apply1("logsumexp", wide, axis=list(axes)), x.type.dtype)


_REDUCTIONS: dict[str, Callable[[Node, Sequence[int]], Node]] = {
    "ReduceSum": _summed, "ReduceMean": _mean, "ReduceMax": _extreme("max", "or"),
    "ReduceMin": _extreme("min", "and"), "ReduceProd": _extreme("mul", "and"),
    "ReduceL1": _through("abs", ""), "ReduceL2": _through("square", "sqrt"),
    "ReduceSumSquare": _through("square", ""), "ReduceLogSum": _through("", "log"),
    "ReduceLogSumExp": _log_sum_exp,
}  # fmt: skip


def _register(name: str, reduced: Callable[[Node, Sequence[int]], Node]) -> None:
    @operator(name)
    def reduction(call: OperatorCall) -> Node:
        """`axes` is an attribute, and an input since operator set 13 (sum) or 18."""
        x = call[0]
        axes = call.ints(1, "axes")
        if not axes and call.attr("noop_with_empty_axes", 0):
            return _single(reduced, x)
        chosen = build.axes_of(axes or None, x.type.rank)
        result = reduced(x, chosen) if chosen else _single(reduced, x)
        return build.restore(result, x.shape, chosen) if call.attr("keepdims", 1) else result


def _single(reduced: Callable[[Node, Sequence[int]], Node], x: Node) -> Node:
    """The reduction applied to single elements, for an empty list of axes."""
    return reduced(build.reshape(x, [*x.shape, 1]), (x.type.rank,))


for _name, _reduced in _REDUCTIONS.items():
    _register(_name, _reduced)


def _best(name: str, mnemonic: str) -> None:
    @operator(name)
    def best(call: OperatorCall) -> Node:
        x = call[0]
        (axis,) = build.axes_of(call.attr("axis", 0), x.type.rank)
        if call.attr("select_last_index", 0):
            mirrored = build.apply1(mnemonic, build.apply1("flip", x, axis=axis), axis=axis)
            size = build.cast(build.apply1("dim_size", x, axis=axis), DType.I64)
            place = build.sub(build.sub(size, 1), mirrored)
        else:
            place = build.apply1(mnemonic, x, axis=axis)
        place = build.cast(place, DType.I64)
        return build.restore(place, x.shape, (axis,)) if call.attr("keepdims", 1) else place


_best("ArgMax", "argmax")
_best("ArgMin", "argmin")


def _running(name: str, since: int, mnemonic: str) -> None:
    @operator(name, since=since)
    def running(call: OperatorCall) -> Node:
        x = call[0]
        (axis,) = build.axes_of(int(call.value(1).reshape(())), x.type.rank)
        return build.apply1(
            mnemonic,
            x,
            axis=axis,
            exclusive=bool(call.attr("exclusive", 0)),
            reverse=bool(call.attr("reverse", 0)),
        )


_running("CumSum", 11, "cumsum")
_running("CumProd", 26, "cumprod")
