"""Cumulative operations along an axis, and the positions of true elements (by a running count).

A line along the axis is computed sequentially; lines along the axes after it are the lanes of
vectors, those along the axes before it are shared by threads. A kernel runs forwards or backwards
over each line with the total so far in a variable.
"""

from __future__ import annotations

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.accumulators import fixed
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.kinds.cumulative import line
from xlac.codegen.core.loop_nest import check_threads, nest, pieces_of, share
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart, Scratch, Value
from xlac.codegen.core.strip_mining import check_vectors, lanes_for, strip_mine
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.sort import CumulativeSchedule
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import Shape, divisor, size_hint, volume
from xlac.ir.graph import Node
from xlac.ops.control.control import Pick
from xlac.ops.reduction.cumulative import Cumulative
from xlac.ops.tensor.dynamic import Compact
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive
PIECE = 4  # vectors of lines in a piece of work for a thread


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """One launch."""
    elements = Elements(Builder(), group, target)
    if isinstance(group.anchor.op, Compact):
        _compact(elements)
    else:
        _lines(elements, name, lower_part.decisions)
    return LoweredGroup((elements.launch(name, cost.work(group)),))


def _choose(anchor: Node, axis: int, target: Target) -> CumulativeSchedule:
    """Vectors of lines, several in a piece of work if there are many."""
    shape = anchor.shape
    across = volume(shape[axis + 1 :])
    lanes = lanes_for(target, [anchor.type.dtype], across)
    piece = PIECE if size_hint(across) >= PIECE * lanes else 1
    threads = share(
        target, _loops(shape, axis, lanes * piece), size_hint(shape[axis]) * lanes * piece
    )
    return CumulativeSchedule(lanes, piece, threads)


def _loops(shape: Shape, axis: int, block: int) -> list[Run]:
    """The loops around lines: over the axes before, and over pieces of adjacent lines."""
    before = [Run(n, (a,)) for a, n in enumerate(shape[:axis])]
    return [*before, pieces_of(volume(shape[axis + 1 :]), block)]


def _lines(elements: Elements, name: str, decisions: Decisions) -> None:
    anchor, builder, target = elements.group.anchor, elements.builder, elements.target
    op = anchor.op
    assert isinstance(op, Cumulative)
    (x,) = anchor.inputs
    shape, axis = anchor.shape, op.axis
    across = volume(shape[axis + 1 :])

    def check(schedule: CumulativeSchedule) -> None:
        check_vectors(schedule.lanes, 1, False, target)
        check_threads(schedule.threads, axis + 1)

    schedule = decisions.settle(name, _choose(anchor, axis, target), check)
    lanes, block = schedule.lanes, schedule.lanes * schedule.piece
    loops = _loops(shape, axis, block)
    with nest(builder, loops, schedule.threads) as counters:
        before = tuple(counters[run] for run in loops[:-1])
        start = build.mul(counters[loops[-1]], block)
        if divisor(across) % block == 0:
            for k in range(block // lanes):
                line(
                    elements, op, x, before, build.ramp(build.add(start, k * lanes), 1, lanes), None
                )
            return
        stop = builder.let("stop", build.apply(P.MIN, build.add(start, block), build.lift(across)))

        def strip(bases: object, wide: int, mask: Expr | None) -> None:
            assert isinstance(bases, list)
            for base in bases:
                line(elements, op, x, before, build.ramp(base, 1, wide), mask)

        strip_mine(builder, target, start, build.sub(stop, start), lanes, 1, strip)


def _compact(elements: Elements) -> None:
    """One pass that counts and stores each position of a true element, then one that fills the
    remainder.
    """
    group, builder = elements.group, elements.builder
    anchor = group.anchor
    (mask,) = anchor.inputs
    shape = mask.shape
    size = volume(shape)
    picks: dict[int, Value] = {n.op.index: n for n in group.outputs if isinstance(n.op, Pick)}
    (bound,) = anchor.results[0].shape
    positions = elements.parameter(picks.get(0) or Scratch(DType.I64, bound), Access.WRITE)
    position = builder.variable("found", build.index(0))
    with builder.loop("i", 0, size) as i:
        inside: list[Expr] = []
        rest = i
        for extent in reversed(shape):
            inside.append(build.mod(rest, extent))
            rest = build.div(rest, extent)
        value = elements.at(mask, tuple(reversed(inside)))
        here = fixed(elements, position)
        with builder.when(value):
            with builder.when(build.apply(P.LT, here, build.lift(bound))):
                builder.store(positions, here, i)
            builder.assign(position, build.add(here, 1))
    count = fixed(elements, position)
    if bound != 0:
        first = builder.let("first", build.apply(P.MIN, count, build.lift(bound)))
        with builder.loop("i", first, bound) as i:
            builder.store(positions, i, build.lift(size))
    if 1 in picks:
        builder.store(elements.parameter(picks[1]), 0, count)
