"""Chooses how scattered updates are combined on a CPU: in their order, or grouped by position for
compensated sums of floats.

For single elements, and for many updates of a small operand, a second array holds the rounding
errors of each element's sum. For windows, updates are counted by position (a counting sort), and
each position sums its own in blocks. If there are far more positions than updates, these are
merge-sorted by position instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.loop_nest import check_threads, pieces_of, share
from xlac.codegen.core.lowered_group import Value
from xlac.codegen.core.scatter_sorted import SortedScatter
from xlac.codegen.core.strip_mining import check_vectors, lanes_for
from xlac.codegen.core.summation import BLOCK, compensated
from xlac.codegen.cpu.scatter_ordered import OrderedUpdates
from xlac.codegen.cpu.scatter_sorted import rows_of
from xlac.codegen.schedules.scatter import (
    CompensatedScatterSchedule,
    CountedScatterSchedule,
    OrderedScatterSchedule,
    Pieces,
    ScatterSchedule,
    SortedScatterSchedule,
)
from xlac.codegen.schedules.schedule import SERIAL, Misfit, Threads
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, size_hint, upper_bound, volume
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.target import Target

STEP = 8  # operations to combine one update
VECTORS = 16  # vectors of columns in a piece of work for a thread
SPARSE = 16  # positions per update above which counting them would dominate time and memory
# elements, per update, of an operand that stays in a cache together with a second array
NEAR, MANY = 1 << 14, 4
# contiguous elements of a window below which a second array is faster than grouping by position
NARROW = 8
# elements that a thread clears or finishes, or updates whose positions it computes, in a piece of
# work
PIECE = 1 << 13


class Scattered:
    """Properties of a group's updates that the choice depends on."""

    def __init__(self, group: Group, target: Target, results: Sequence[Value]) -> None:
        self.group, self.target, self.results = group, target, results
        self.updates = OrderedUpdates(Elements(Builder(), group, target), results)
        self.by_place = SortedScatter(group, target, results)
        self.counted = rows_of(self.updates)

    @property
    def sums(self) -> bool:
        """Whether these are sums of floats to which any number of updates may contribute."""
        op, dtype = self.updates.op, self.group.anchor.results[0].dtype
        alone = len(self.results) == 1 and op.body is None and not op.unique
        return alone and compensated(op.combine, dtype)

    @property
    def many(self) -> bool:
        """Whether more updates may share a position than are summed without compensation."""
        half = self.group.anchor.results[0].dtype.is_half
        return upper_bound(self.by_place.count) > (1 if half else BLOCK)

    def lanes(self) -> int:
        """Lanes of vectors along the last axis of the updates."""
        if not self.updates.lies_dense(self.target):
            return 1
        dtypes = [u.type.dtype for u in self.updates.updates]
        return lanes_for(self.target, dtypes, self.updates.sizes[-1])

    def shared(self, loop: Dim) -> Threads:
        """How threads share a loop in which all updates are combined."""
        run = Run(loop, ())
        work = STEP * size_hint(volume(self.updates.sizes))
        return share(self.target, [run], work // max(1, run.usual))


def choose(group: Group, target: Target, results: Sequence[Value]) -> ScatterSchedule:
    """The schedule of a group's updates."""
    s = Scattered(group, target, results)
    if not s.sums or not s.many:
        return OrderedScatterSchedule(*_in_order(s))
    inside, outside = size_hint(volume(s.updates.shape)), size_hint(volume(s.updates.sizes))
    if inside > SPARSE * outside:
        return _by_sorting(s)
    near = inside <= NEAR and MANY * inside <= outside
    if near or not s.by_place.columns or size_hint(s.updates.sizes[-1]) < NARROW:
        return _by_compensation(s)
    return CountedScatterSchedule(s.lanes(), s.shared(s.counted))


def every_template(
    group: Group, target: Target, results: Sequence[Value]
) -> Iterator[ScatterSchedule]:
    """A schedule of each template for a group's updates, also of those by which they cannot be
    combined.
    """
    s = Scattered(group, target, results)
    yield OrderedScatterSchedule(*_in_order(s))
    yield _by_sorting(s)
    yield _by_compensation(s)
    yield CountedScatterSchedule(s.lanes(), s.shared(s.counted))


def _by_sorting(s: Scattered) -> SortedScatterSchedule:
    count = s.by_place.count
    places = Pieces(PIECE, share(s.target, [pieces_of(count, PIECE)], PIECE * STEP))
    return SortedScatterSchedule(places, s.lanes(), s.shared(count))


def _by_compensation(s: Scattered) -> CompensatedScatterSchedule:
    type_ = s.group.anchor.results[0]
    swept = Pieces(PIECE, share(s.target, [pieces_of(type_.size, PIECE)], PIECE))
    wide = lanes_for(s.target, [type_.dtype.compute], type_.size)
    return CompensatedScatterSchedule(*_in_order(s), wide, swept)


def _in_order(s: Scattered) -> tuple[int, int, Threads]:
    """The lanes, the vectors of a piece, and the threads of updates combined in order."""
    lanes = s.lanes()
    if lanes == 1:
        return 1, 0, share(s.target, s.updates.loops, STEP) if s.updates.op.unique else SERIAL
    width = s.updates.sizes[-1]
    usual = upper_bound(width) if s.updates.slides else size_hint(width)
    whole = max(1, -(-usual // lanes))
    piece = whole if s.updates.slides or usual < 2 * VECTORS * lanes else VECTORS
    return lanes, piece, s.shared(pieces_of(width, lanes * piece).extent)


def check(
    schedule: ScatterSchedule, group: Group, target: Target, results: Sequence[Value]
) -> None:
    """Raises Misfit for a schedule by which the updates cannot be combined."""
    s = Scattered(group, target, results)
    if isinstance(schedule, OrderedScatterSchedule):
        if s.sums and s.many:
            raise Misfit(("template",), "sums of so many floats need compensation")
    elif not s.sums:
        raise Misfit(("template",), "these are not sums of floats with repeated positions")
    match schedule:
        case OrderedScatterSchedule() | CompensatedScatterSchedule():
            _check_order(schedule, s)
        case CountedScatterSchedule() | SortedScatterSchedule():
            _check_by_place(schedule, s)
    if isinstance(schedule, CompensatedScatterSchedule):
        _check_lanes("sweep_lanes", schedule.sweep_lanes, target)
        _check_pieces("sweep", schedule.sweep)


def _check_order(
    schedule: OrderedScatterSchedule | CompensatedScatterSchedule, s: Scattered
) -> None:
    updates, target = s.updates, s.target
    _check_lanes("lanes", schedule.lanes, target)
    if not schedule.piece:
        if schedule.lanes > 1:
            raise Misfit(("piece",), "vectors need pieces of the last axis: it must be 1 or more")
        check_threads(schedule.threads, len(updates.loops) if updates.op.unique else 0)
        return
    if not updates.lies_dense(target):
        raise Misfit(
            ("piece",),
            "the last axis of the updates is not contiguous in the operand: it must be 0",
        )
    block = schedule.lanes * schedule.piece
    if updates.slides and upper_bound(pieces_of(updates.sizes[-1], block).extent) > 1:
        raise Misfit(
            ("piece",),
            "windows of different updates overlap along columns: one piece must have all columns",
        )
    check_threads(schedule.threads, 1)


def _check_by_place(schedule: CountedScatterSchedule | SortedScatterSchedule, s: Scattered) -> None:
    if isinstance(schedule, CountedScatterSchedule):
        if not s.by_place.columns:
            raise Misfit(("template",), "the updates are not windows of whole rows")
    else:
        _check_pieces("places", schedule.places)
    if schedule.lanes > 1 and not s.updates.lies_dense(s.target):
        raise Misfit(("lanes",), "the last axis of the updates is not contiguous in the operand")
    _check_lanes("lanes", schedule.lanes, s.target)
    check_threads(schedule.threads, 1)


def _check_lanes(field: str, lanes: int, target: Target) -> None:
    try:
        check_vectors(lanes, 1, False, target)
    except Misfit as misfit:
        raise Misfit((field,), misfit.problem) from None


def _check_pieces(field: str, pieces: Pieces) -> None:
    try:
        check_threads(pieces.threads, 1)
    except Misfit as misfit:
        raise Misfit((field, *misfit.path), misfit.problem) from None
