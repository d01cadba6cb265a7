"""Scatter: a copy of the operand, unless it is updated in place, then the updates
combined into it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from xlac.codegen.core import operands
from xlac.codegen.core.addressing import row_major
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.lowered_group import (
    BufferCopy,
    KernelLaunch,
    LoweredGroup,
    LowerPart,
    Scratch,
    Value,
)
from xlac.fusion.group import Group, Kind
from xlac.ir.graph import Node
from xlac.ops import numeric
from xlac.ops.control.control import Pick
from xlac.ops.tensor import view
from xlac.ops.tensor.scatter import Scatter
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive
FAR = 2**40  # an index far outside stays outside whatever offset the window adds


Combine = Callable[[Group, Target, str, LowerPart, Sequence[Value]], list[KernelLaunch]]
"""Builds the launches that combine a group's updates into its results, which already contain the
operands.
"""


def lower(
    group: Group, target: Target, name: str, lower_part: LowerPart, combine: Combine
) -> LoweredGroup:
    """A copy of every operand, then the launches of `combine` for the updates."""
    anchor, op = group.anchor, group.anchor.op
    assert isinstance(op, Scatter)
    count = len(anchor.results)
    outputs = {n.op.index if isinstance(n.op, Pick) else 0: n for n in group.outputs}
    results: list[Value] = [
        outputs.get(k) or Scratch(t.dtype, t.size, "result") for k, t in enumerate(anchor.results)
    ]
    launches: list[KernelLaunch] = []
    copies: list[BufferCopy] = []
    for number, (x, result) in enumerate(zip(anchor.inputs, results, strict=False)):
        if x in group.members:
            launches += _computed(
                group, x, result, target, f"{name}_copy{number or ''}", lower_part
            )
        else:
            copies.append(BufferCopy(x, result))
    xs, updates = anchor.inputs[:count], anchor.inputs[count + 1 :]
    if updates[0].type.size != 0:
        launches += combine(group, target, name, lower_part, results)
    elsewhere = set(operands.part(group, anchor.inputs[count:], frozenset()).inputs) | set(
        anchor.inputs[count:]
    )
    in_place = tuple(
        (n, xs[k]) for k, n in outputs.items() if xs[k] in group.inputs and xs[k] not in elsewhere
    )
    return LoweredGroup(tuple(launches), in_place if count == 1 else (), tuple(copies))


def _computed(
    group: Group, x: Node, result: Value, target: Target, name: str, lower_part: LowerPart
) -> tuple[KernelLaunch, ...]:
    """A kernel that computes an operand into the result's memory."""
    same = Node.of(view.Reshape(shape=x.shape), x)
    wide = Group(
        Kind.ELEMENTWISE,
        same,
        (*group.nodes, same),
        group.inputs,
        (same,),
        "copies what is scattered into",
    )
    lowered = lower_part(operands.part(wide, (same,), frozenset()), target, name)
    return tuple(
        replace(launch, arguments=tuple(result if a is same else a for a in launch.arguments))
        for launch in lowered.alone
    )


class Updates:
    """The element computation of a scatter: an update's value and its position in the result."""

    def __init__(self, elements: Elements, results: Sequence[Value]) -> None:
        anchor = elements.group.anchor
        assert isinstance(anchor.op, Scatter)
        op = anchor.op
        self.elements, self.builder, self.op = elements, elements.builder, op
        count = len(results)
        self.indices, self.updates = anchor.inputs[count], anchor.inputs[count + 1 :]
        self.shape, self.sizes = anchor.results[0].shape, self.updates[0].shape
        self.results = results
        gone = {*op.inserted_window_dims, *op.input_batching_dims}
        kept = [a for a in range(len(self.shape)) if a not in gone]
        # axis of x -> axis of updates
        self.window = dict(zip(kept, sorted(op.update_window_dims), strict=True))

    @property
    def buffers(self) -> list[Buffer]:
        """The buffers that are updated."""
        return [self.elements.parameter(r, Access.UPDATE) for r in self.results]

    def update(self, at: tuple[Expr, ...], mask: Expr | None) -> None:
        """The element, or vector, of the updates at an index."""
        place, inside = self.place(at)
        scalar = [c for c in inside if c.lanes == 1]
        masks = [c for c in inside if c.lanes > 1] + ([] if mask is None else [mask])
        builder = self.builder
        with ExitStack() as guards:
            if scalar:
                guards.enter_context(builder.when(all_of(scalar)))
            if masks:
                guards.enter_context(self.elements.masked(builder.let("mask", all_of(masks))))
            self.combine(place, [self.elements.at(u, at) for u in self.updates])

    def combine(self, place: Expr, news: Sequence[Expr]) -> None:
        """Combines new values into the result at an offset; elements or vectors."""
        if self.op.combine != "assign":
            olds = [self.builder.let("old", self.elements.load(b, place)) for b in self.buffers]
            if self.op.body is not None:
                news = self.elements.inline(self.op.body, [*olds, *news])
            else:
                news = [build.apply(numeric.COMBINE[self.op.combine], olds[0], news[0])]
        for buffer, value in zip(self.buffers, news, strict=True):
            self.elements.store_to(buffer, place, value)

    def place(self, at: tuple[Expr, ...]) -> tuple[Expr, list[Expr]]:
        """The row-major offset in x of an element of the updates, and the conditions for it to be
        inside.
        """
        where, inside = self.where(at)
        place: Expr = build.index(0)
        for entry, stride in zip(where, row_major(self.shape), strict=True):
            place = build.add(place, build.mul(entry, stride))
        return place, inside

    def where(self, at: tuple[Expr, ...]) -> tuple[list[Expr], list[Expr]]:
        """The index into x of an element of the updates, and the conditions for it to be inside."""
        op, builder = self.op, self.builder
        batch = [counter for a, counter in enumerate(at) if a not in op.update_window_dims]
        where: list[Expr] = [build.index(0)] * len(self.shape)
        for position, axis in enumerate(op.scatter_dims_to_operand_dims):
            vector = list(batch)
            if op.index_vector_dim < self.indices.type.rank:
                vector.insert(op.index_vector_dim, build.index(position))
            where[axis] = builder.let(
                "start", _start(self.elements.at(self.indices, tuple(vector)))
            )
        for own, other in zip(
            op.input_batching_dims, op.scatter_indices_batching_dims, strict=True
        ):
            where[own] = batch[other - (other > op.index_vector_dim)]
        for axis, spot in self.window.items():
            where[axis] = build.add(where[axis], at[spot])
        inside = []
        for axis in sorted(op.scatter_dims_to_operand_dims):
            inside.append(build.apply(P.LE, build.index(0), where[axis]))
            inside.append(build.apply(P.LT, where[axis], build.lift(self.shape[axis])))
        return where, inside


def _start(value: Expr) -> Expr:
    """An index from a tensor, clamped so that no offset can bring an index that is far outside back
    into range.
    """
    if value.dtype is DType.U64:
        value = build.apply(P.MIN, value, Const(FAR, DType.U64))
    wide = build.cast(value, build.INDEX)
    if value.dtype is DType.I64:
        wide = build.apply(P.MAX, build.apply(P.MIN, wide, build.index(FAR)), build.index(-FAR))
    return wide


def all_of(conditions: Sequence[Expr]) -> Expr:
    """The conjunction of conditions."""
    conjunction = conditions[0]
    for condition in conditions[1:]:
        conjunction = build.apply(P.AND, conjunction, condition)
    return conjunction
