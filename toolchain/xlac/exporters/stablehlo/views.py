"""Exports operations that make and move elements."""

from __future__ import annotations

from typing import Any

from xlac.exporters.stablehlo.literals import ints
from xlac.exporters.stablehlo.writer import SsaValue, StableHloWriter, rule
from xlac.exporters.unsaid import Unsaid
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.reduction.cumulative import Cumulative
from xlac.ops.tensor.scatter import Scatter
from xlac_sdk.dtypes import DType

I64 = DType.I64


@rule("iota")
def iota(w: StableHloWriter, node: Node) -> SsaValue:
    """iota along the operation's axis."""
    op: Any = node.op
    return w.op("iota", [], node.type, f"iota_dimension = {op.axis} : i64")


@rule("rng_bits")
def rng_bits(w: StableHloWriter, node: Node, state: SsaValue) -> list[SsaValue]:
    """rng_bit_generator, whose algorithms are ours."""
    op: Any = node.op
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
    return w.op("reshape", [x], node.type)


@rule("broadcast")
def broadcast(w: StableHloWriter, node: Node, x: SsaValue) -> SsaValue:
    """broadcast_in_dim; `axes` has the same meaning."""
    op: Any = node.op
    return w.op("broadcast_in_dim", [x], node.type, f"broadcast_dimensions = {ints(op.axes)}")


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
        last = int(str(x.type.shape[a])) - 1
        starts[a], stops[a] = last - starts[a], last - stops[a]
    steps = [abs(step) for step in op.steps]
    stops = [max(start, stop) for start, stop in zip(starts, stops, strict=True)]
    given = (
        f"start_indices = {ints(starts)}, limit_indices = {ints(stops)}, strides = {ints(steps)}"
    )
    return w.op("slice", [x], node.type, given)


@rule("pad")
def pad(w: StableHloWriter, node: Node, x: SsaValue, value: SsaValue) -> SsaValue:
    """pad; `low`, `high` and `interior` have the same meaning."""
    op: Any = node.op
    given = (
        f"edge_padding_low = {ints(op.low)}, edge_padding_high = {ints(op.high)}, interior_padding "
        f"= {ints(op.interior)}"
    )
    return w.op("pad", [x, value], node.type, given)


@rule("concat")
def concat(w: StableHloWriter, node: Node, *xs: SsaValue) -> SsaValue:
    """concatenate along the operation's axis."""
    op: Any = node.op
    return w.op("concatenate", xs, node.type, f"dimension = {op.axis} : i64")


@rule("dim_size")
def dim_size(w: StableHloWriter, node: Node, x: SsaValue) -> SsaValue:
    """A constant, as sizes are fixed."""
    op: Any = node.op
    return w.constant(int(str(x.type.shape[op.axis])), DType.I32)


@rule("compact")
def compact(w: StableHloWriter, node: Node, mask: SsaValue) -> list[SsaValue]:
    """Each true element is scattered to the position given by the number of those before it;
    elements beyond the bound are dropped.
    """
    op: Any = node.op
    source = node.inputs[0]
    flat = build.reshape(source, (-1,))
    size = int(str(flat.shape[0]))
    counted = (
        Node.of(Cumulative(0, "add"), build.cast(flat, I64)) if size else build.full(0, (1,), I64)
    )
    if size == 0:
        count, places = build.constant(0, I64), build.full(0, (op.bound,), I64)
    else:
        count = build.reshape(build.cut(counted, 0, size - 1, size), ())
        spot = build.select(flat, build.sub(counted, 1), build.full(op.bound, (size,), I64))
        into = Scatter(
            inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0,),
            index_vector_dim=1,
            combine="assign",
        )
        rest = build.full(size, (op.bound,), I64)
        places = (
            Node.of(into, rest, build.reshape(spot, (size, 1)), build.iota((size,), 0))
            if op.bound
            else rest
        )
    return [w.subgraph(places, {source: mask}), w.subgraph(count, {source: mask})]


@rule("custom_call")
def custom_call(w: StableHloWriter, node: Node, *xs: SsaValue) -> list[SsaValue]:
    """custom_call by name; attributes are rejected, as readers have no common form for them."""
    op: Any = node.op
    if op.attributes:
        raise Unsaid("its attributes have no form that every reader of StableHLO knows")
    from xlac.spec.text.write import quoted

    return w.many("custom_call", xs, node.results, f"call_target_name = {quoted(op.name)}")
