"""Tensors with data-dependent sizes: how element-wise operators and views handle them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from xlac.frontends.known import DataDependent
from xlac.frontends.onnx.graph.values import Ragged, Value
from xlac.ir.dims import Dim, symbol, symbols, volume
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build

if TYPE_CHECKING:
    from xlac.frontends.onnx.graph.call import OperatorCall
    from xlac.frontends.onnx.registry import Builder


def lifted(builder: Builder, call: OperatorCall) -> tuple[Value, ...]:
    """Applies an element-wise operator to inputs of which some are ragged: it computes the padded
    tensors, and the results keep the counts of valid entries.
    """
    plain = tuple(i.node if isinstance(i, Ragged) else i for i in call.inputs)
    returned = builder(replace(call, inputs=plain))
    results = returned if isinstance(returned, tuple) else (returned,)
    return tuple(_again(r, call.inputs) if isinstance(r, Node) else r for r in results)


def _again(result: Node, inputs: Sequence[Value | None]) -> Value:
    """The result with the counts of the inputs, whose axes are aligned from the last."""
    counts: dict[int, Node] = {}
    for value in inputs:
        if not isinstance(value, Ragged):
            continue
        for axis, count in value.counts:
            spot = result.type.rank - value.node.type.rank + axis
            if spot < 0:
                raise DataDependent("the result has no axis with the data-dependent size")
            if counts.setdefault(spot, count) is not count:
                raise DataDependent(f"two data-dependent sizes are combined along axis {spot}")
    for value in inputs:
        shape = value.shape if isinstance(value, Node) else ()
        for axis, size in enumerate(shape, result.type.rank - len(shape)):
            if axis in counts and size != 1:
                raise DataDependent(f"axis {axis} meets {size}, and its size is data-dependent")
    return Ragged(result, tuple(sorted(counts.items(), key=lambda entry: entry[0])))


def count_of(value: Value | None, axis: int) -> Node | None:
    """The number of valid entries along an axis with a data-dependent size, as an i64 scalar; None
    for other axes.
    """
    return dict(value.counts).get(axis) if isinstance(value, Ragged) else None


def carried(value: Ragged, make: Callable[[Node], Node], row_major: bool) -> Ragged:
    """Applies a view to a ragged tensor if every data-dependent axis stays whole; else raises
    DataDependent.

    The axis' new position is found from the shape that the view gives when the size is a symbol.
    `row_major` says that the view may regroup elements; then the number of elements before the axis
    must be unchanged.
    """
    shape: list[Dim] = list(value.node.shape)
    marks = {axis: symbol(f"size of axis {axis}") for axis, _ in value.counts}
    for axis, mark in marks.items():
        shape[axis] = mark
    try:
        seen = make(build.param("probe", value.node.type.dtype, tuple(shape))).shape
    except (ShapeError, ValueError) as error:
        raise DataDependent(f"the view needs a data-dependent size: {error}") from None
    counts = []
    for axis, count in value.counts:
        own = symbols(marks[axis])
        places = [place for place, size in enumerate(seen) if symbols(size) & own]
        if (
            len(places) != 1
            or seen[places[0]] != marks[axis]
            or (row_major and volume(seen[: places[0]]) != volume(tuple(shape[:axis])))
        ):
            raise DataDependent(f"axis {axis}, whose size is data-dependent, is changed")
        counts.append((places[0], count))
    return Ragged(make(value.node), tuple(sorted(counts, key=lambda entry: entry[0])))
