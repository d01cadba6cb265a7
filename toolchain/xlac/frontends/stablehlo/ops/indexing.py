"""Gather, scatter and slices at data-dependent positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlac.frontends.stablehlo.regions import monoid, replaced
from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.frontends.stablehlo.values import TypedTensor, nodes_of, numbers, rebuilt, stored
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.tensor.dynamic_slice import DynSlice, DynUpdate
from xlac.ops.tensor.gather import Gather
from xlac.ops.tensor.index import along_vector, clamped_starts
from xlac.ops.tensor.scatter import Scatter
from xlac_sdk.dtypes import DType


def starts_of(site: OperationSite, first: int, stop: int | None = None) -> list[Node]:
    """Start indices: a scalar integer for each axis."""
    return [x.node for x in site.tensors(first, stop) if not x.element.complex]


@operation("dynamic_slice")
def dynamic_slice(site: OperationSite) -> Built:
    """A slice whose start is clamped so that the slice lies inside."""
    x, sizes = site.tensor(0), site.integers("slice_sizes")
    starts = starts_of(site, 1)
    return x.each([Node.of(DynSlice(sizes), part, *starts) for part in x.parts])


@operation("dynamic_update_slice")
def dynamic_update_slice(site: OperationSite) -> Built:
    """x with a slice replaced, whose start is clamped so that the slice lies inside."""
    x, update = site.tensor(0), site.tensor(1)
    if x.element != update.element:
        site.fail(f"the update is of {update.element.text}, the operand of {x.element.text}")
    starts = starts_of(site, 2)
    return x.each(
        [
            Node.of(DynUpdate(), part, new, *starts)
            for part, new in zip(x.parts, update.parts, strict=True)
        ]
    )


def listed(site: OperationSite, fields: dict[str, Any], name: str) -> tuple[int, ...]:
    """A field of dimension numbers that is a list; empty where it is left out."""
    field = fields.get(name, [])
    if not isinstance(field, list) or not all(isinstance(n, int) for n in field):
        site.fail(f"field '{name}' must be a list of integers")
    return tuple(field)


def number(site: OperationSite, fields: dict[str, Any], name: str) -> int:
    """A field of dimension numbers that is an integer; 0 where it is left out."""
    field = fields.get(name, 0)
    if not isinstance(field, int):
        site.fail(f"field '{name}' must be an integer")
    return field


@operation("gather")
def gather(site: OperationSite) -> Built:
    """gather; the attributes become `Gather`'s fields."""
    return gathered(site, site.integers("slice_sizes"))


def gathered(site: OperationSite, sizes: Sequence[Dim]) -> TypedTensor:
    """Slices of the given sizes, gathered from every part of the operand."""
    x, indices = site.tensor(0), site.real(1).node
    fields = site.fields("dimension_numbers")
    op = Gather(
        offset_dims=listed(site, fields, "offset_dims"),
        collapsed_slice_dims=listed(site, fields, "collapsed_slice_dims"),
        operand_batching_dims=listed(site, fields, "operand_batching_dims"),
        start_indices_batching_dims=listed(site, fields, "start_indices_batching_dims"),
        start_index_map=listed(site, fields, "start_index_map"),
        index_vector_dim=number(site, fields, "index_vector_dim"),
        slice_sizes=tuple(sizes),
    )
    return x.each([Node.of(op, part, indices) for part in x.parts])


@operation("scatter")
def scatter(site: OperationSite) -> Built:
    """scatter: a region combines updates with the existing elements."""
    count = (len(site.operands) - 1) // 2
    if len(site.operands) != 2 * count + 1 or not count:
        site.fail("takes tensors, indices and as many updates")
    xs, indices, updates = site.tensors(0, count), site.real(count).node, site.tensors(count + 1)
    fields = site.fields("scatter_dimension_numbers")
    axes: dict[str, Any] = {
        "update_window_dims": listed(site, fields, "update_window_dims"),
        "inserted_window_dims": listed(site, fields, "inserted_window_dims"),
        "input_batching_dims": listed(site, fields, "input_batching_dims"),
        "scatter_indices_batching_dims": listed(site, fields, "scatter_indices_batching_dims"),
        "scatter_dims_to_operand_dims": listed(site, fields, "scatter_dims_to_operand_dims"),
        "index_vector_dim": number(site, fields, "index_vector_dim"),
        "unique": site.flag("unique_indices"),
    }
    kept = inside_whole(Scatter(**axes), xs[0].parts[0].type, indices, updates[0].parts[0].type)
    return scattered(site, 0, xs, kept, updates, axes)


def inside_whole(op: Scatter, x: Type, indices: Node, updates: Type) -> Node:
    """Indices in which a window that is partly out of bounds is moved out entirely: XLA drops such
    a window whole, our operation only its elements that are out of bounds.
    """
    op.infer(x, indices.type, updates)
    mapped, vector = op.scatter_dims_to_operand_dims, op.index_vector_dim
    sizes = op.window_sizes(x, updates)
    if 0 in updates.shape or all(sizes[axis] == 1 for axis in mapped):
        return indices
    starts = clamped_starts(indices, vector, ())
    last = clamped_starts(starts, vector, [x.shape[a] - sizes[a] for a in mapped])
    inside = build.compare(starts, "eq", last)
    if vector < indices.type.rank:
        others = [a for a in range(indices.type.rank) if a != vector]
        inside = build.spread(build.reduce(inside, "and", vector), indices.shape, others)
    beyond = along_vector(starts, vector, [x.shape[a] for a in mapped])
    return build.select(inside, starts, beyond)


def scattered(
    site: OperationSite,
    region: int,
    xs: Sequence[TypedTensor],
    indices: Node,
    updates: Sequence[TypedTensor],
    axes: dict[str, Any],
) -> list[TypedTensor]:
    """Scatter with a region: by a named combination part by part, or with the region as body on all
    parts together.
    """
    body = site.closed(region)
    if replaced(body) and all(x.element == u.element for x, u in zip(xs, updates, strict=True)):
        op = Scatter(combine="assign", **axes)
        return [
            x.each([Node.of(op, p, indices, u) for p, u in zip(x.parts, update.parts, strict=True)])
            for x, update in zip(xs, updates, strict=True)
        ]
    combine = monoid(body)
    (first, *more), update = xs, updates[0]
    if (
        combine in ("add", "mul", "max", "min")
        and not more
        and not first.element.complex
        and first.element.dtype is not DType.BOOL
    ):
        scatter = Node.of(
            Scatter(combine=combine, **axes), numbers(first), indices, numbers(update)
        )
        return [stored(scatter, first.element)]
    node = Node.of(
        Scatter(combine="body", body=body, **axes), *nodes_of(xs), indices, *nodes_of(updates)
    )
    results = list(build.results(node))
    return [rebuilt(x, results) for x in xs]  # type: ignore[misc]  # a tensor is rebuilt as one


@operation("torch_index_select")
def torch_index_select(site: OperationSite) -> Built:
    """Slices of x along an axis; leading axes of the indices may be batch axes shared with x."""
    x, indices = site.tensor(0), site.real(1).node
    axis, batch = site.axis("dim", len(x.shape)), site.integer("batch_dims", 0)
    rank, count = len(x.shape), indices.type.rank
    kept = rank - 1
    op = Gather(
        offset_dims=tuple(a if a < axis else a + count - batch for a in range(batch, kept))
        if batch
        else (*range(axis), *range(axis + count, kept + count)),
        collapsed_slice_dims=(axis,),
        operand_batching_dims=tuple(range(batch)),
        start_indices_batching_dims=tuple(range(batch)),
        start_index_map=(axis,),
        index_vector_dim=count,
        slice_sizes=tuple(1 if a == axis or a < batch else size for a, size in enumerate(x.shape)),
    )
    return x.each([Node.of(op, part, indices) for part in x.parts])
