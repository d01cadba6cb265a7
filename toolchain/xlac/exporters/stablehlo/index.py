"""Exports gathers, scatters and dynamic slices, whose attributes correspond one to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlac.exporters.stablehlo.literals import ints
from xlac.exporters.stablehlo.reductions import combination
from xlac.exporters.stablehlo.views import alike, is_open, windowed
from xlac.exporters.stablehlo.writer import SsaValue, StableHloWriter, rule
from xlac.ir.graph import Node, zeros
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.tensor.index import along_vector, clamped_starts


def numbers(**named: Any) -> str:
    """The nonempty fields of a dimension-numbers attribute."""
    fields = []
    for name, value in named.items():
        if isinstance(value, int):
            fields.append(f"{name} = {value}")
        elif value:
            fields.append(f"{name} = [{', '.join(map(str, value))}]")
    return ", ".join(fields)


@rule("gather")
def gather(w: StableHloWriter, node: Node, x: SsaValue, indices: SsaValue) -> SsaValue:
    """gather, with the same attributes."""
    op: Any = node.op
    given = numbers(
        offset_dims=sorted(op.offset_dims),
        collapsed_slice_dims=sorted(op.collapsed_slice_dims),
        operand_batching_dims=op.operand_batching_dims,
        start_indices_batching_dims=op.start_indices_batching_dims,
        start_index_map=op.start_index_map,
        index_vector_dim=op.index_vector_dim,
    )
    text = f"dimension_numbers = #stablehlo.gather<{given}>, indices_are_sorted = false"
    if is_open(op.slice_sizes):
        return w.op("dynamic_gather", [x, indices, w.sizes.vector(op.slice_sizes)], node.type, text)
    return w.op("gather", [x, indices], node.type, f"{text}, slice_sizes = {ints(op.slice_sizes)}")


@rule("scatter")
def scatter(w: StableHloWriter, node: Node, *operands: SsaValue) -> list[SsaValue]:
    """scatter. XLA drops whole windows that are partly out of range, we drop single elements: x is
    padded so that both are the same.
    """
    op: Any = node.op
    count = len(node.results)
    xs, indices, updates = node.inputs[:count], node.inputs[count], node.inputs[count + 1 :]
    mapped = op.scatter_dims_to_operand_dims
    sizes: Any = op.window_sizes(xs[0].type, updates[0].type)
    border = [sizes[a] - 1 if a in mapped else 0 for a in range(xs[0].type.rank)]
    if 0 in updates[0].shape or not any(border):
        return combined(w, op, operands, node.results)
    known = dict(zip(node.inputs, operands, strict=True))
    wide = [build.pad(x, zeros(x.type.with_shape(())), border, border) for x in xs]
    starts = clamped_starts(indices, op.index_vector_dim, ())
    moved = build.add(
        starts, along_vector(starts, op.index_vector_dim, [border[a] for a in mapped])
    )
    given = [*(w.subgraph(n, known) for n in (*wide, moved)), *operands[count + 1 :]]
    scattered = combined(w, op, given, [n.type for n in wide])
    inner = [
        build.slice_(n, border, [b + s for b, s in zip(border, x.shape, strict=True)])
        for n, x in zip(wide, xs, strict=True)
    ]
    return [w.subgraph(n, {n.inputs[0]: value}) for n, value in zip(inner, scattered, strict=True)]


def combined(
    w: StableHloWriter, op: Any, operands: Sequence[SsaValue], results: Sequence[Type]
) -> list[SsaValue]:
    """scatter with the same attributes; a named combination becomes a region."""
    given = numbers(
        update_window_dims=sorted(op.update_window_dims),
        inserted_window_dims=sorted(op.inserted_window_dims),
        input_batching_dims=op.input_batching_dims,
        scatter_indices_batching_dims=op.scatter_indices_batching_dims,
        scatter_dims_to_operand_dims=op.scatter_dims_to_operand_dims,
        index_vector_dim=op.index_vector_dim,
    )
    body = combination(w, op.combine, op.body, [Type(t.dtype) for t in results])
    unique = str(op.unique).lower()
    text = (
        f"scatter_dimension_numbers = #stablehlo.scatter<{given}>, indices_are_sorted = false, "
        f"unique_indices = {unique}"
    )
    return w.many("scatter", operands, results, text, [body])


@rule("dyn_slice")
def dyn_slice(w: StableHloWriter, node: Node, x: SsaValue, *starts: SsaValue) -> SsaValue:
    """dynamic_slice, which also clamps the slice; starts of one integer type."""
    return windowed(w, x, starts, node.shape)


@rule("dyn_update")
def dyn_update(
    w: StableHloWriter, node: Node, x: SsaValue, update: SsaValue, *starts: SsaValue
) -> SsaValue:
    """dynamic_update_slice, which also clamps the slice."""
    return w.op("dynamic_update_slice", [x, update, *alike(w, starts)], node.type)
