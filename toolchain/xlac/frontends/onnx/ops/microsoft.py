"""Other operators of com.microsoft (version 1): those that ONNX adopted later, and a few of its
own.
"""

from __future__ import annotations

import numpy as np

from xlac.frontends.limits import STEPS, check_parts
from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.graph.values import Value
from xlac.frontends.onnx.ops.image.grid import grid_sample
from xlac.frontends.onnx.registry import MICROSOFT, Builder, find, operator
from xlac.ir.graph import Node, pick
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac.ops.transforms.complex_parts import parts_of, stacked
from xlac.ops.transforms.real_fft import Rfft

TAKEN_OVER = {"GatherND": 12, "Trilu": 14, "Pad": 13, "Range": 11}
"""Operators that ONNX adopted, and the operator set with the same meaning."""

operator("GridSample", domain=MICROSOFT)(grid_sample)


def _same(name: str, version: int) -> Builder:
    def builder(call: OperatorCall) -> Value | tuple[Value, ...]:
        known = find("", name, version)
        assert known is not None
        return known.builder(call)

    return builder


for _name, _version in TAKEN_OVER.items():
    operator(_name, domain=MICROSOFT)(_same(_name, _version))


@operator("ExpandDims", domain=MICROSOFT)
def expand_dims(call: OperatorCall) -> Node:
    """A new axis of length 1; the axis must be a constant."""
    (axis,) = call.ints(1) or [0]
    return build.apply1("unsqueeze", call[0], axis=axis)


@operator("Inverse", domain=MICROSOFT)
def inverse(call: OperatorCall) -> Node:
    """The inverse of square matrices, by Gauss-Jordan elimination with partial pivoting."""
    x = call[0]
    size = x.shape[-1]
    if x.type.rank < 2 or x.shape[-2] != size or not isinstance(size, int):
        raise ShapeError(f"only square matrices of known size have an inverse, got {x.type}")
    batch = x.shape[:-2]
    eye = build.constant(np.eye(size), x.type.dtype)
    wide = build.concat((x, build.broadcast_to(eye, x.shape)), x.type.rank - 1)
    row = build.reshape(build.iota((size,), 0), (size, 1))
    for column in range(check_parts(size, STEPS)):
        here = build.cut(wide, x.type.rank - 1, column, column + 1)
        below = build.compare(row, "ge", column)
        best = build.apply1(
            "argmax", build.select(below, build.apply1("abs", here), -1.0), axis=-2, keepdims=True
        )
        chosen = build.compare(build.broadcast_to(row, (*batch, size, 1)), "eq", best)
        pivot = _picked(wide, chosen)
        top = build.cut(wide, x.type.rank - 2, column, column + 1)
        wide = build.select(chosen, top, wide)  # swap the two rows
        pivot = build.div(pivot, build.cut(pivot, x.type.rank - 1, column, column + 1))
        cleared = build.sub(
            wide, build.mul(build.cut(wide, x.type.rank - 1, column, column + 1), pivot)
        )
        wide = build.select(build.compare(row, "eq", column), pivot, cleared)
    return build.cut(wide, x.type.rank - 1, size, 2 * size)


def _picked(x: Node, row: Node) -> Node:
    """The row of each matrix that a one-hot mask selects."""
    return build.reduce(build.select(row, x, build.like(0, x)), "add", x.type.rank - 2, True)


@operator("CDist", domain=MICROSOFT)
def distances(call: OperatorCall) -> Node:
    """The distances of all rows of A from all rows of B: euclidean or squared euclidean."""
    a, b, metric = call[0], call[1], call.attr("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        call.fail(f"metric is euclidean or sqeuclidean, not '{metric}'")
    gap = build.sub(build.reshape(a, (a.shape[0], 1, a.shape[1])), build.reshape(b, (1, *b.shape)))
    squared = build.reduce(build.mul(gap, gap), "add", 2)
    return build.sqrt(squared) if metric == "euclidean" else squared


@operator("ComplexMul", domain=MICROSOFT)
def complex_mul(call: OperatorCall) -> Node:
    """The product of complex numbers, with real and imaginary parts along the last axis."""
    return _complex_product(call, 1.0)


@operator("ComplexMulConj", domain=MICROSOFT)
def complex_mul_conjugate(call: OperatorCall) -> Node:
    """The product with the conjugate of the second operand."""
    return _complex_product(call, -1.0)


def _complex_product(call: OperatorCall, sign: float) -> Node:
    """The product of complex numbers (…, 2), with the second operand conjugated if the sign is
    -1.
    """
    parts = []
    for x in (call[0], call[1]):
        last = x.type.rank - 1
        parts += [build.cut(x, last, 0, 1), build.cut(x, last, 1, 2)]
    a, b, c, d = parts
    d = build.mul(d, sign)
    real = build.sub(build.mul(a, c), build.mul(b, d))
    return build.concat((real, build.add(build.mul(a, d), build.mul(b, c))), real.type.rank - 1)


@operator("Rfft", domain=MICROSOFT)
def rfft(call: OperatorCall) -> Node:
    """The one-sided spectrum of real numbers along the last axis: (…, bins, 2)."""
    x, _ = _line(call, 0)
    spectrum = Node.of(Rfft(-1), build.compute(x))
    return build.cast(stacked(pick(spectrum, 0), pick(spectrum, 1), x.type.rank), x.type.dtype)


@operator("Irfft", domain=MICROSOFT)
def irfft(call: OperatorCall) -> Node:
    """Real numbers from a one-sided spectrum (…, bins, 2)."""
    x, bins = _line(call, 1)
    real, imaginary = parts_of(build.compute(x), x.type.rank - 1)
    signal = build.apply1("irfft", real, imaginary, length=2 * (bins - 1))
    return build.cast(signal, x.type.dtype)


def _line(call: OperatorCall, after: int) -> tuple[Node, int]:
    """The input and the static size of its transformed axis, which `after` axes follow."""
    x = call[0]
    if (
        call.attr("signal_ndim", 1) != 1
        or call.attr("normalized", 0)
        or not call.attr("onesided", 1)
    ):
        call.fail("only transforms of one axis, one-sided and not normalized, are supported")
    size = x.shape[x.type.rank - 1 - after]
    if not isinstance(size, int):
        raise ShapeError(f"the transform needs to know the size of its axis, got {x.type}")
    return x, size


@operator("IsAllFinite", domain=MICROSOFT)
def is_all_finite(call: OperatorCall) -> Node:
    """Whether no element of any tensor is NaN or infinite; attributes exclude either from the
    test.
    """
    bad = "isnan" if call.attr("isnan_only", 0) else "isinf" if call.attr("isinf_only", 0) else ""
    finite: Node | None = None
    for x in call:
        good = build.apply1("isfinite", x) if not bad else build.apply1("not", build.apply1(bad, x))
        whole = build.reduce(good, "and")
        finite = whole if finite is None else build.apply1("and", finite, whole)
    if finite is None:
        call.fail("there is no tensor")
    return finite
