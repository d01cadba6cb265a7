"""Exports operations that make and move elements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xlac.exporters.stablehlo.literals import ints
from xlac.exporters.stablehlo.writer import SsaValue, StableHloWriter, rule
from xlac.exporters.unsaid import Unsaid
from xlac.ir.dims import Dim, Shape, Sym
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction.cumulative import Cumulative
from xlac.ops.tensor.leaf import Param
from xlac.ops.tensor.scatter import Scatter
from xlac_sdk.dtypes import DType
from xlac_sdk.programs.host_calls import PYTHON

I64 = DType.I64


@rule("iota")
def iota(w: StableHloWriter, node: Node) -> SsaValue:
    """iota along the operation's axis."""
    op: Any = node.op
    given = f"iota_dimension = {op.axis} : i64"
    if is_open(node.shape):
        return w.op("dynamic_iota", [w.sizes.vector(node.shape)], node.type, given)
    return w.op("iota", [], node.type, given)


@rule("rng_bits")
def rng_bits(w: StableHloWriter, node: Node, state: SsaValue) -> list[SsaValue]:
    """rng_bit_generator, whose algorithms are ours."""
    op: Any = node.op
    if any(is_open(t.shape) for t in node.results):
        raise Unsaid("StableHLO has no generator of random bits of an open size")
    name = {"threefry": "THREE_FRY", "philox": "PHILOX"}[op.algorithm]
    return w.many(
        "rng_bit_generator",
        [state],
        node.results,
        f"rng_algorithm = #stablehlo<rng_algorithm {name}>",
    )


@rule("reshape")
def reshape(w: StableHloWriter, node: Node, x: SsaValue) -> SsaValue:
    """reshape to the shape of the node."""
    return reshaped(w, x, node.shape)


def is_open(sizes: Iterable[Dim]) -> bool:
    """Whether one of the sizes is open."""
    return any(isinstance(n, Sym) for n in sizes)


def reshaped(w: StableHloWriter, x: SsaValue, shape: Shape) -> SsaValue:
    """x in another shape."""
    type = x.type.with_shape(shape)
    if is_open(shape):
        return w.op("dynamic_reshape", [x, w.sizes.vector(shape)], type)
    return w.op("reshape", [x], type)


@rule("broadcast")
def broadcast(w: StableHloWriter, node: Node, x: SsaValue) -> SsaValue:
    """broadcast_in_dim; `axes` has the same meaning."""
    op: Any = node.op
    return spread(w, x, node.type, op.axes)


def spread(w: StableHloWriter, x: SsaValue, type: Type, axes: Sequence[int]) -> SsaValue:
    """x broadcast to a type, in which its axes become `axes`."""
    given = f"broadcast_dimensions = {ints(axes)}"
    if is_open(type.shape):
        return w.op("dynamic_broadcast_in_dim", [x, w.sizes.vector(type.shape)], type, given)
    return w.op("broadcast_in_dim", [x], type, given)


@rule("transpose")
def transpose(w: StableHloWriter, node: Node, x: SsaValue) -> SsaValue:
    """transpose; `perm` has the same meaning."""
    op: Any = node.op
    return w.op("transpose", [x], node.type, f"permutation = {ints(op.perm)}")


@rule("slice")
def cut(w: StableHloWriter, node: Node, x: SsaValue) -> SsaValue:
    """slice; one with a negative step is a slice of the reversed tensor."""
    op: Any = node.op
    back = [a for a, step in enumerate(op.steps) if step < 0]
    if back:
        x = w.op("reverse", [x], x.type, f"dimensions = {ints(back)}")
    starts, stops = list(op.starts), list(op.stops)
    for a in back:
        last = x.type.shape[a] - 1
        starts[a], stops[a] = last - starts[a], last - stops[a]
    return sliced(w, x, starts, stops, [abs(step) for step in op.steps], node.type)


def sliced(
    w: StableHloWriter,
    x: SsaValue,
    starts: Sequence[Dim],
    stops: Sequence[Dim],
    steps: Sequence[int],
    type: Type,
) -> SsaValue:
    """Every `steps[a]`-th element of each axis, a part of the given type."""
    ends = [
        max(start, stop) if isinstance(start, int) and isinstance(stop, int) else stop
        for start, stop in zip(starts, stops, strict=True)
    ]
    if is_open((*starts, *ends)):
        return w.op("real_dynamic_slice", [x, *map(w.sizes.vector, (starts, ends, steps))], type)
    given = f"start_indices = {ints(starts)}, limit_indices = {ints(ends)}, strides = {ints(steps)}"
    return w.op("slice", [x], type, given)


def position(w: StableHloWriter, start: SsaValue) -> SsaValue:
    """A start as i64: a u64 beyond it becomes the largest i64, which is clamped equally."""
    if start.type.dtype is I64:
        return start
    if start.type.dtype is DType.U64:
        start = w.op("minimum", [start, w.constant(2**63 - 1, DType.U64)], start.type)
    return w.op("convert", [start], Type(I64))


def alike(w: StableHloWriter, starts: Sequence[SsaValue]) -> list[SsaValue]:
    """Starts of one element type."""
    mixed = len({s.type.dtype for s in starts}) > 1
    return [position(w, s) for s in starts] if mixed else [*starts]


def windowed(w: StableHloWriter, x: SsaValue, starts: Sequence[SsaValue], sizes: Shape) -> SsaValue:
    """The part of x with these sizes that begins at scalars, clamped so that it lies inside."""
    type = x.type.with_shape(sizes)
    if not is_open(sizes):
        return w.op("dynamic_slice", [x, *alike(w, starts)], type, f"slice_sizes = {ints(sizes)}")
    vector = Type(I64, (len(sizes),))
    parts = [w.op("reshape", [position(w, s)], Type(I64, (1,))) for s in starts]
    first = w.op("concatenate", parts, vector, "dimension = 0 : i64")
    last = [whole - size for whole, size in zip(x.type.shape, sizes, strict=True)]
    zeros, ends = w.sizes.vector([0] * len(sizes)), w.sizes.vector(last)
    begin = w.op("clamp", [zeros, first, ends], vector)
    end = w.op("add", [begin, w.sizes.vector(sizes)], vector)  # so that readers know the sizes
    steps = w.sizes.vector([1] * len(sizes))
    return w.op("real_dynamic_slice", [x, begin, end, steps], type)


@rule("pad")
def pad(w: StableHloWriter, node: Node, x: SsaValue, value: SsaValue) -> SsaValue:
    """pad; `low`, `high` and `interior` have the same meaning."""
    op: Any = node.op
    return padded(w, x, value, op.low, op.high, op.interior, node.type)


def padded(
    w: StableHloWriter,
    x: SsaValue,
    value: SsaValue,
    low: Sequence[Dim],
    high: Sequence[Dim],
    interior: Sequence[int],
    type: Type,
) -> SsaValue:
    """x with `value` around and between its elements."""
    if is_open((*low, *high)):
        amounts = map(w.sizes.vector, (low, high, interior))
        return w.op("dynamic_pad", [x, value, *amounts], type)
    given = (
        f"edge_padding_low = {ints(low)}, edge_padding_high = {ints(high)}, interior_padding "
        f"= {ints(interior)}"
    )
    return w.op("pad", [x, value], type, given)


@rule("concat")
def concat(w: StableHloWriter, node: Node, *xs: SsaValue) -> SsaValue:
    """concatenate along the operation's axis."""
    op: Any = node.op
    return w.op("concatenate", xs, node.type, f"dimension = {op.axis} : i64")


@rule("dim_size")
def dim_size(w: StableHloWriter, node: Node, x: SsaValue) -> SsaValue:
    """A constant, or get_dimension_size of an open size."""
    op: Any = node.op
    size = x.type.shape[op.axis]
    if isinstance(size, int):
        return w.constant(size, DType.I32)
    return w.op("get_dimension_size", [x], node.type, f"dimension = {op.axis} : i64")


@rule("compact")
def compact(w: StableHloWriter, node: Node, mask: SsaValue) -> list[SsaValue]:
    """Each true element is scattered to the position given by the number of those before it;
    elements beyond the bound are dropped.
    """
    op: Any = node.op
    source = node.inputs[0]
    flat = build.reshape(source, (-1,))
    size = flat.shape[0]
    known: dict[Node, SsaValue] = {source: mask}

    def of(number: Dim, shape: Shape) -> Node:
        """A tensor of one number, which may be an open size."""
        if isinstance(number, int):
            return build.full(number, shape, I64)
        scalar = Node.of(Param(f"size{len(known)}", Type(I64)))
        known[scalar] = w.sizes.value(number)
        return build.spread(scalar, shape, ())

    each = build.cast(flat, I64)
    places = of(size, (op.bound,))
    if size != 0 and op.bound != 0:
        spot = build.select(
            flat, build.sub(Node.of(Cumulative(0, "add"), each), 1), of(op.bound, (size,))
        )
        into = Scatter(
            inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0,),
            index_vector_dim=1,
            combine="assign",
        )
        places = Node.of(into, places, build.reshape(spot, (size, 1)), build.iota((size,), 0))
    count = build.reduce(each, "add", 0)
    return [w.subgraph(places, known), w.subgraph(count, known)]


@rule("custom_call")
def custom_call(w: StableHloWriter, node: Node, *xs: SsaValue) -> list[SsaValue]:
    """custom_call by name; attributes are rejected, as readers have no common form for them."""
    op: Any = node.op
    if op.name == PYTHON:
        raise Unsaid("it calls a Python function of this process")
    if op.attributes:
        raise Unsaid("its attributes have no form that every reader of StableHLO knows")
    if any(is_open(t.shape) for t in node.results):
        raise Unsaid("nothing says the open size of its result")
    from xlac.spec.text.write import quoted

    return w.many("custom_call", xs, node.results, f"call_target_name = {quoted(op.name)}")
