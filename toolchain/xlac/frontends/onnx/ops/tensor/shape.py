"""Shape manipulation: Reshape, Transpose, Concat, Split, Slice, Tile, … (ONNX operator sets 1 to
25).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlac.frontends.limits import check_parts, check_size
from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.graph.ragged import carried
from xlac.frontends.onnx.graph.values import Coded, Ragged, Value
from xlac.frontends.onnx.registry import operator
from xlac.ir.dims import Dim, volume
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError, normal_axis
from xlac.ops import build
from xlac_sdk.support.counts import number_of


def view(name: str, since: int = 1) -> Callable[[Callable[[OperatorCall, Node], Node]], None]:
    """Registers an operator that only moves the elements of its first input, so that they may also
    be codes.

    The input may be ragged if its data-dependent axes stay whole.
    """

    def register(builder: Callable[[OperatorCall, Node], Node]) -> None:
        @operator(name, since=since)
        def moved(call: OperatorCall) -> Value:
            given = call.given(0)
            if isinstance(given, Ragged):
                return carried(
                    given, lambda node: builder(call, node), name in ("Reshape", "Flatten")
                )
            x = call.coded(0)
            return (
                Coded(builder(call, x.node), x.format) if isinstance(x, Coded) else builder(call, x)
            )

    return register


@operator("Identity")
def identity(call: OperatorCall) -> Value:
    """The input, of any kind."""
    value = call.given(0)
    return call[0] if value is None else value


@view("Reshape")
def reshape(call: OperatorCall, x: Node) -> Node:
    """A size of 0 copies the input's, unless `allowzero`; a size of -1 is inferred."""
    wanted = call.dims(1) if call.given(1) is not None else tuple(call.attr("shape"))
    keep = not call.attr("allowzero", 0)
    shape: list[Dim] = []
    for axis, size in enumerate(wanted):
        if keep and size == 0 and axis >= x.type.rank:
            call.fail(f"shape {list(wanted)} copies axis {axis}, which {x.type} does not have")
        shape.append(x.shape[axis] if keep and size == 0 else size)
    if shape.count(-1) == 1 and volume([s for s in shape if s != -1]) == 0:  # type: ignore[arg-type]
        shape[shape.index(-1)] = 0
    return build.reshape(x, shape)


@view("Flatten")
def flatten(call: OperatorCall, x: Node) -> Node:
    """A matrix, whose rows are the axes before `axis`."""
    axis = call.attr("axis", 1)
    axis = axis + x.type.rank if axis < 0 else axis
    if not 0 <= axis <= x.type.rank:
        call.fail(f"axis {call.attr('axis', 1)} is out of range for {x.type}")
    return build.reshape(x, [volume(x.shape[:axis]), volume(x.shape[axis:])])


@view("Transpose")
def transpose(call: OperatorCall, x: Node) -> Node:
    """Axes in the order of `perm`; reversed by default."""
    return build.transpose(x, call.attr("perm", None))


@view("Squeeze")
def squeeze(call: OperatorCall, x: Node) -> Node:
    """Removes axes of size 1: those named by attribute or, since 13, by input; by default all."""
    axes = call.ints(1, "axes")
    return build.apply1("squeeze", x, axis=axes)


@view("Unsqueeze")
def unsqueeze(call: OperatorCall, x: Node) -> Node:
    """Inserts axes of size 1, named by attribute or, since 13, by input."""
    axes = call.ints(1, "axes")
    return build.apply1("unsqueeze", x, axis=axes)


@operator("Concat")
def concat(call: OperatorCall) -> Value:
    """Tensors joined along an axis; until operator set 4 axis 1 is the default."""
    xs = [call.coded(n) for n in range(len(call))]
    axis = call.attr("axis", 1)
    if isinstance(xs[0], Coded):
        return Coded(build.concat([x.node for x in xs if isinstance(x, Coded)], axis), xs[0].format)
    return build.concat(list(call), axis)


@operator("Split")
def split(call: OperatorCall) -> tuple[Value, ...]:
    """Parts of the given sizes, or equal ones, of which the last may be smaller (since operator set
    18).
    """
    value = call.coded(0)
    x = value.node if isinstance(value, Coded) else value
    axis = normal_axis(call.attr("axis", 0), x.type.rank)
    sizes: list[Dim] | None = (
        list(call.dims(1)) if call.given(1) is not None else call.attr("split", None)
    )
    if sizes is None:
        parts = check_parts(call.attr("num_outputs", len(call.outputs)))
        if parts < 1 or parts != len(call.outputs):
            call.fail(f"num_outputs is {parts} for {number_of(len(call.outputs), 'output')}")
        extent = x.shape[axis]
        if isinstance(extent, int):
            each = -(-extent // parts)
            sizes = [max(0, min(each, extent - each * n)) for n in range(parts)]
        else:
            sizes = [extent // parts] * parts
    if len(sizes) != len(call.outputs):
        have = number_of(len(call.outputs), "output")
        call.fail(f"{have} for {number_of(len(sizes), 'part')}")
    pieces, start = [], 0
    for size in sizes:
        pieces.append(build.cut(x, axis, start, start + size))
        start = start + size  # type: ignore[assignment]
    if start != x.shape[axis]:
        call.fail(f"parts of {sizes} do not make up axis {axis} of {x.type}")
    return tuple(Coded(part, value.format) if isinstance(value, Coded) else part for part in pieces)


@view("Slice")
def slice_attributes(call: OperatorCall, x: Node) -> Node:
    """Before operator set 10, where bounds are attributes."""
    starts, ends = call.attr("starts"), call.attr("ends")
    return cut(x, starts, ends, [1] * len(starts), call.attr("axes", list(range(len(starts)))))


@view("Slice", since=10)
def slice_inputs(call: OperatorCall, x: Node) -> Node:
    """Since operator set 10, where bounds, axes and steps are inputs."""
    starts, ends = call.dims(1), call.dims(2)
    axes = call.ints(3, default=list(range(len(starts))))
    steps = call.ints(4, default=[1] * len(starts))
    return cut(x, starts, ends, steps or [], axes or [])


def cut(
    x: Node, starts: Sequence[Dim], ends: Sequence[Dim], steps: Sequence[int], axes: Sequence[int]
) -> Node:
    """A slice of x with Python's rules for bounds; axes that are not named stay whole."""
    if not len(starts) == len(ends) == len(steps) == len(axes):
        raise ShapeError(
            f"{len(starts)} starts, {len(ends)} ends, {len(steps)} steps and {len(axes)} axes do "
            "not fit"
        )
    first: list[Dim] = [0] * x.type.rank
    last, by = list(x.shape), [1] * x.type.rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        spot = normal_axis(axis, x.type.rank)
        first[spot], last[spot], by[spot] = build.python_slice(start, end, step, x.shape[spot])
    return build.slice_(x, first, last, by)


@view("Expand", since=8)
def expand(call: OperatorCall, x: Node) -> Node:
    """Broadcast in both directions: an axis of the shape that is 1 keeps the size of x."""
    shape = build.broadcast_shapes([x.shape, call.dims(1)])
    check_size(shape, x.type.dtype.nbytes)
    return build.broadcast_to(x, shape)


@view("Tile", since=6)
def tile(call: OperatorCall, x: Node) -> Node:
    """Repeated along every axis."""
    repeats = call.ints(1) or []
    if len(repeats) != x.type.rank:
        call.fail(f"{len(repeats)} repeats do not fit {x.type}")
    check_size(
        [size * count for size, count in zip(x.shape, repeats, strict=True)], x.type.dtype.nbytes
    )
    return build.apply1("tile", x, repeats=repeats) if repeats else x


def blocks(call: OperatorCall) -> tuple[int, str]:
    """The block size, and the order of a block's elements within the channels."""
    size, mode = call.attr("blocksize"), call.attr("mode", "DCR")
    if mode not in ("DCR", "CRD") or size < 1:
        call.fail(f"blocks of {size} in mode '{mode}': the modes are DCR and CRD")
    return size, mode


@view("SpaceToDepth")
def space_to_depth(call: OperatorCall, x: Node) -> Node:
    """Blocks of pixels become channels, pixels of a block before channels."""
    n, c, h, w = x.shape
    b, mode = blocks(call)
    apart = build.reshape(x, [n, c, h // b, b, w // b, b])
    perm = [0, 3, 5, 1, 2, 4] if mode == "DCR" else [0, 1, 3, 5, 2, 4]
    return build.reshape(build.transpose(apart, perm), [n, c * b * b, h // b, w // b])


@view("DepthToSpace")
def depth_to_space(call: OperatorCall, x: Node) -> Node:
    """The inverse of `space_to_depth`; `mode` says whether a block's pixels come before its
    channels (DCR).
    """
    n, c, h, w = x.shape
    b, mode = blocks(call)
    if mode == "DCR":
        spread = build.transpose(
            build.reshape(x, [n, b, b, c // (b * b), h, w]), [0, 3, 4, 1, 5, 2]
        )
    else:
        spread = build.transpose(
            build.reshape(x, [n, c // (b * b), b, b, h, w]), [0, 1, 4, 2, 5, 3]
        )
    return build.reshape(spread, [n, c // (b * b), h * b, w * b])


@operator("ReverseSequence", since=10)
def reverse_sequence(call: OperatorCall) -> Node:
    """Reverses the first `sequence_lens` elements of each batch entry."""
    x, lengths = call[0], call[1]
    time, batch = call.attr("time_axis", 0), call.attr("batch_axis", 1)
    if {time, batch} != {0, 1}:
        call.fail(f"time_axis {time} and batch_axis {batch} must be 0 and 1")
    at = build.iota(x.shape, time)
    count = build.along(lengths, batch, x.type.rank, x.shape)
    there = build.select(build.compare(at, "lt", count), build.sub(build.sub(count, 1), at), at)
    return build.apply1("take_along_axis", x, there, axis=time)


@operator("Trilu", since=14)
def trilu(call: OperatorCall) -> Node:
    """One triangle of each matrix, zeros elsewhere."""
    x = call[0]
    k = int(call.value(1).reshape(())) if call.given(1) is not None else 0
    limit = 1 << 40
    return build.apply1(
        "triu" if call.attr("upper", 1) else "tril", x, k=max(-limit, min(limit, k))
    )
