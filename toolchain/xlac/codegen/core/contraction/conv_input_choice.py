"""Chooses whether the input of a convolution is copied first, and the layout of the copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac.codegen.core import operands
from xlac.codegen.core.contraction.contraction import Edge
from xlac.codegen.core.contraction.phases import Phase, phases_of
from xlac.codegen.core.operands import OperandView
from xlac.codegen.schedules.operands import ConvInputSchedule, check_order
from xlac.codegen.schedules.schedule import Misfit
from xlac.fusion.group import Group
from xlac.ir.dims import size_hint, upper_bound, volume
from xlac.ir.graph import Node
from xlac.ops.reduction.conv import Conv

LONG = 64  # taps of a window from which a copy with transposed rows pays


@dataclass(frozen=True, slots=True)
class InputReads:
    """What the kernels of a convolution can read. `masks`: an input without a padded copy, with
    zeros outside of it, and `pays` says whether that is faster than a copy. `phases`: a dilated
    input, phase by phase. The axis with letter `beside`, if any, must be contiguous. `across`: a
    long sum whose steps are lines apart, where the batch is contiguous.
    """

    masks: bool
    pays: bool
    phases: bool
    beside: str = ""
    across: bool = False


@dataclass(frozen=True, slots=True)
class Borders:
    """The geometry of x under the windows: padding before and after each of its axes, zeros between
    its elements, and, by letter, the axes along which windows leave it.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    gaps: tuple[int, ...]
    edges: dict[str, Edge]


def borders(anchor: Node, phases: Sequence[Phase]) -> Borders:
    """The borders of x for windows in `phases`, or for the whole convolution."""
    op, x = anchor.op, anchor.inputs[0]
    assert isinstance(op, Conv)
    letters, shape = op.layout[0], x.shape
    taps = dict(zip(op.layout[1], anchor.inputs[1].shape, strict=True))
    result = dict(zip(op.layout[2], anchor.shape, strict=True))
    low, high, gaps = [0] * len(shape), [0] * len(shape), [0] * len(shape)
    edges: dict[str, Edge] = {}
    for axis, letter in enumerate(op.spatial):
        at = letters.index(letter)
        low[at], gaps[at] = op.low[axis], op.lhs_dilation[axis] - 1
        high[at] = op.high[axis]
        size, places, many = shape[at], result[letter], taps[letter]
        if phases and letter in phases[0]:
            low[at], stop = reached(letter, phases)
            gaps[at], high[at] = 0, stop - upper_bound(size)
        # no more than the windows read
        elif isinstance(size, int) and isinstance(places, int) and isinstance(many, int):
            spread = size + max(0, size - 1) * gaps[at]
            seen = (places - 1) * op.strides[axis] + (many - 1) * op.rhs_dilation[axis] + 1
            high[at] = min(op.high[axis], seen - low[at] - spread) if seen > 0 else op.high[axis]
        if low[at] > 0 or high[at] > 0:
            edges[letter] = Edge(low[at], size)
    return Borders(tuple(low), tuple(high), tuple(gaps), edges)


def reached(letter: str, phases: Sequence[Phase]) -> tuple[int, int]:
    """The start of the first window relative to x along an axis, and the end of the last one."""
    along = [p[letter] for p in phases if p[letter].taps]
    if not along:
        return 0, 0
    return -min(a.start for a in along), max(a.stop for a in along)


def choose(group: Group, reads: InputReads) -> ConvInputSchedule:
    """A padded copy if windows leave x, unless kernels mask those reads, or if x is dilated, unless
    it is convolved in phases; axes in memory order, so that whole rows are copied.
    """
    anchor, x = group.anchor, group.anchor.inputs[0]
    phases = phases_of(anchor) if reads.phases else []
    view = operands.resolve(x, group)
    apart = reads.beside == "C" and view is not None and channels_apart(anchor, view)
    if reads.masks and reads.pays and not apart:
        return ConvInputSchedule(bool(phases), None)
    around, crosses = borders(anchor, phases), _crosses(anchor, view, reads)
    whole = not (crosses or apart or _padded(around))
    if view is not None and whole and x.type.size != 0:
        return ConvInputSchedule(bool(phases), None)
    order = _memory_order(view, len(x.shape))
    if apart:
        channel = anchor.op.layout[0].index("C")  # type: ignore[attr-defined]
        order = (*(a for a in order if a != channel), channel)
    elif crosses:
        letters, spatial = anchor.op.layout[0], anchor.op.spatial  # type: ignore[attr-defined]
        order = tuple(letters.index(letter) for letter in f"NC{spatial}")
    return ConvInputSchedule(bool(phases), order)


def check(schedule: ConvInputSchedule, group: Group, reads: InputReads) -> None:
    """Raises Misfit for an input that the kernels cannot read."""
    anchor, x = group.anchor, group.anchor.inputs[0]
    op = anchor.op
    assert isinstance(op, Conv)
    phases = phases_of(anchor) if reads.phases else []
    if schedule.phases and not phases:
        raise Misfit(("phases",), "its input is not dilated, or has no phases here")
    if schedule.order is not None:
        check_order(schedule.order, len(x.shape), ("order",))
        if reads.beside and schedule.order[-1] != op.layout[0].index(reads.beside):
            axis = op.layout[0].index(reads.beside)
            raise Misfit(("order",), f"axis {axis} must be contiguous")
        return
    view = operands.resolve(x, group)
    if reads.beside == "C" and view is not None and channels_apart(anchor, view):
        raise Misfit(("order",), "its channels are not contiguous, so it must be copied")
    around = borders(anchor, phases if schedule.phases else [])
    if any(around.gaps) or (x.type.size == 0 and not reads.masks):
        raise Misfit(("order",), "its input is dilated: it must be copied, or convolved in phases")
    if around.edges and not reads.masks:
        raise Misfit(("order",), "windows leave the input, which must be copied with its padding")


def channels_apart(anchor: Node, view: OperandView) -> bool:
    """Whether the channels of x are not contiguous in memory."""
    op = anchor.op
    assert isinstance(op, Conv)
    place = op.layout[0].index("C")
    return anchor.inputs[0].shape[place] != 1 and view.strides[place] != 1


def _padded(around: Borders) -> bool:
    return bool(around.edges) or any(around.gaps)


def _crosses(anchor: Node, view: OperandView | None, reads: InputReads) -> bool:
    """Whether each product of a long sum would read a different cache line: a large window over an
    x that is not contiguous along a summed axis, as in weight gradients of channels-last
    convolutions. Then x is copied so that rows are contiguous.
    """
    op = anchor.op
    assert isinstance(op, Conv)
    if view is None or not op.spatial:
        return False
    letters = op.layout[0]
    if reads.across and view.strides[letters.index("N")] == 1:
        return False
    taps = dict(zip(op.layout[1], anchor.inputs[1].shape, strict=True))
    lines = view.strides[letters.index(op.spatial[-1])]
    channels = view.strides[letters.index("C")] if taps["I"] != 1 else 0
    many = size_hint(volume(tuple(taps[letter] for letter in op.spatial))) >= LONG
    return many and lines != 1 and channels != 1 and size_hint(taps[op.spatial[-1]]) > 1


def _memory_order(view: OperandView | None, rank: int) -> tuple[int, ...]:
    """The axes of a view by descending stride."""
    return tuple(
        sorted(range(rank), key=lambda axis: -size_hint(view.strides[axis]) if view else axis)
    )
