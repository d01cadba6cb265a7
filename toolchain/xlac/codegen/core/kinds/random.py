"""Random bits: the kernels for the bits and for the new state of their generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlac.codegen.core.elements import Elements
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.schedules.decisions import Decisions
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, divisor
from xlac.ir.graph import Node
from xlac.ops import random
from xlac.ops.control.control import Pick
from xlac.ops.tensor.leaf import RngBits
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Buffer, Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive


def lower(
    group: Group, target: Target, name: str, lower_part: LowerPart, bits: type[RandomBits]
) -> LoweredGroup:
    """A launch that writes the bits by `bits`, and a separate one for the new state, so that the
    first may run in parallel.
    """
    op = group.anchor.op
    assert isinstance(op, RngBits)
    picks = {n.op.index: n for n in group.outputs if isinstance(n.op, Pick)}
    launches = []
    if 1 in picks and 0 not in op.shape:
        elements = Elements(Builder(), group, target)
        bits(elements, op, picks[1]).write(name, lower_part.decisions)
        launches.append(elements.launch(name, cost.work(group)))
    if 0 in picks:
        elements = Elements(Builder(), group, target)
        blocks = random.layout(op.algorithm, op.shape, op.dtype).blocks
        for k, value in enumerate(random.advance(op.algorithm, blocks, _state(elements))):
            elements.store(picks[0], (build.index(k),), value)
        launches.append(elements.launch(f"{name}_state"))
    return LoweredGroup(tuple(launches))


def _state(elements: Elements) -> Callable[[int], Expr]:
    (source,) = elements.group.anchor.inputs
    return lambda k: elements.at(source, (build.index(k),))


class RandomBits:
    """Writes the kernel of the bits."""

    def __init__(self, elements: Elements, op: RngBits, pick: Node) -> None:
        self.elements, self.builder, self.target, self.op = (
            elements,
            elements.builder,
            elements.target,
            op,
        )
        self.out = elements.parameter(pick)
        self.layout = random.layout(op.algorithm, op.shape, op.dtype)

    def write(self, name: str, decisions: Decisions) -> None:
        """The loops over all results, by the schedule of the kernel of this name."""
        raise NotImplementedError

    def values(self, number: Expr) -> list[Expr]:
        """The elements of cipher blocks: one value, or vector, for each position in a block."""
        words = random.block(self.op.algorithm, number, _state(self.elements), self.builder.let)
        if self.op.dtype is DType.U64:
            words = tuple(_joined(*words[k : k + 2]) for k in range(0, len(words), 2))
        return [self.builder.let("w", build.cast(w, self.op.dtype)) for w in words]


def scalars(
    builder: Builder, out: Buffer, parts: Sequence[Expr], base: Expr, place: Expr, count: Dim
) -> None:
    """Stores one block's elements, except those past the end of the row."""
    for k, part in enumerate(parts):
        along = build.add(place, k)
        if divisor(count) % len(parts) == 0:
            builder.store(out, build.add(base, along), part)
        else:
            with builder.when(build.apply(P.LT, along, build.lift(count))):
                builder.store(out, build.add(base, along), part)


def _joined(low: Expr, high: Expr) -> Expr:
    """Combines two 32-bit words into one of 64 bits."""
    upper = build.apply(P.SHL, build.cast(high, DType.U64), Const(32, DType.U64))
    return build.apply(P.OR, build.cast(low, DType.U64), upper)
