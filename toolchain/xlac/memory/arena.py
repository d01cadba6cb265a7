"""Packs buffers with known lifetimes into one block of memory.

Two strategies run and the smaller result is kept. In order of time with best fit is near linear.
Buffer by buffer in an order of importance looks at every pair of buffers that are alive together,
so it runs only where those are not too many: the largest, or what is alive longest, comes first,
and what did not fit below the bound comes earlier the next time ("squeaky wheel" optimisation,
Joslin and Clements, 1999). A limit that neither meets is searched for on a skyline (skyline.py).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import islice

from xlac.memory.skyline import MOST, packed_within
from xlac_sdk.support.limits import count_work

ALIGN = 64  # bytes: a cache line, and the widest vector
# pairs of buffers alive at the same time, up to which an order is searched for
MOST_PAIRS = 500_000
TURNS = 8  # orders tried from each initial one


@dataclass(frozen=True, slots=True)
class LiveRange:
    """A buffer of `nbytes` alive from step `first` to step `last`, both inclusive."""

    nbytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class ArenaLayout:
    """Offsets of all buffers, the size of the block, and a lower bound for any layout, in bytes."""

    offsets: tuple[int, ...]
    nbytes: int
    bound: int


def pack(spans: Sequence[LiveRange], within: int | None = None) -> ArenaLayout:
    """Offsets such that buffers alive at the same step never overlap. Where they are to be `within`
    so many bytes, which what is alive at once allows, a layout is searched for longer, unless there
    are more than skyline.MOST of them.
    """
    sizes = [_round(s.nbytes) for s in spans]
    best, bound = _by_time(spans, sizes), live_bound(spans)
    if (
        _extent(best, sizes) > bound
        and (pairs := sum(len(others) for _, others in _meetings(spans, sizes))) <= MOST_PAIRS
    ):
        for offsets in islice(
            _by_importance(spans, sizes, bound), max(1, MOST_PAIRS // max(pairs, 1))
        ):
            best = min(best, offsets, key=lambda offsets: _extent(offsets, sizes))
            if _extent(best, sizes) <= bound + bound // 100:
                break
    if within is not None and len(spans) <= MOST and bound <= within < _extent(best, sizes):
        tight = packed_within([(s.first, s.last) for s in spans], sizes, within)
        best = min(best, tight, key=lambda offsets: _extent(offsets, sizes))
    return ArenaLayout(tuple(best), _extent(best, sizes), bound)


def live_bound(spans: Sequence[LiveRange]) -> int:
    """The most bytes alive at one step."""
    return live_peak(spans)[0]


def live_peak(spans: Sequence[LiveRange]) -> tuple[int, int]:
    """The most bytes alive at one step, and the first step at which they are."""
    changes: dict[int, int] = {}
    for s in spans:
        changes[s.first] = changes.get(s.first, 0) + _round(s.nbytes)
        changes[s.last + 1] = changes.get(s.last + 1, 0) - _round(s.nbytes)
    alive = peak = at = 0
    for step in sorted(changes):
        alive += changes[step]
        if alive > peak:
            peak, at = alive, step
    return peak, at


def _round(nbytes: int) -> int:
    return -(-nbytes // ALIGN) * ALIGN


def _extent(offsets: Sequence[int], sizes: Sequence[int]) -> int:
    return max((o + s for o, s in zip(offsets, sizes, strict=True)), default=0)


def _fit(size: int, taken: Iterable[tuple[int, int]]) -> int:
    """The start of the tightest gap of at least `size` bytes between sorted occupied ranges."""
    best, best_gap, end = -1, 0, 0
    for start, stop in taken:
        gap = start - end
        if gap >= size and (best < 0 or gap < best_gap):
            best, best_gap = end, gap
        end = max(end, stop)
    return best if best >= 0 else end


def _meetings(
    spans: Sequence[LiveRange], sizes: Sequence[int]
) -> Iterator[tuple[int, dict[int, None]]]:
    """Each buffer, in order of time, with the earlier ones that are still alive."""
    alive: dict[int, None] = {}
    dying: list[tuple[int, int]] = []
    for i in sorted(range(len(spans)), key=lambda i: (spans[i].first, -sizes[i], i)):
        count_work()
        if not sizes[i]:
            continue
        while dying and dying[0][0] < spans[i].first:
            del alive[heappop(dying)[1]]
        yield i, alive
        alive[i] = None
        heappush(dying, (spans[i].last, i))


def _by_importance(
    spans: Sequence[LiveRange], sizes: Sequence[int], bound: int
) -> Iterator[list[int]]:
    """Layouts placed buffer by buffer; each order moves forward the buffers that exceeded the bound
    in the layout before.
    """
    beside: dict[int, list[int]] = {}  # buffers alive together with each
    for i, others in _meetings(spans, sizes):
        beside[i] = list(others)
        for j in others:
            beside[j].append(i)
    length = [s.last - s.first + 1 for s in spans]
    largest = sorted(beside, key=lambda i: (-sizes[i], spans[i].first, i))
    longest = sorted(beside, key=lambda i: (-length[i], -sizes[i], i))
    most = sorted(beside, key=lambda i: (-length[i] * sizes[i], i))
    for order in (largest, longest, most):
        for _ in range(TURNS):
            offsets = _in_order(order, beside, sizes)
            yield offsets
            order = _sooner(order, beside, [i for i in order if offsets[i] + sizes[i] > bound])


def _in_order(
    order: Sequence[int], beside: Mapping[int, Sequence[int]], sizes: Sequence[int]
) -> list[int]:
    offsets = [0] * len(sizes)
    placed: set[int] = set()
    for i in order:
        count_work()
        taken = sorted((offsets[j], offsets[j] + sizes[j]) for j in beside[i] if j in placed)
        offsets[i] = _fit(sizes[i], taken)
        placed.add(i)
    return offsets


def _sooner(
    order: Sequence[int], beside: Mapping[int, Sequence[int]], late: Sequence[int]
) -> list[int]:
    """The order, with the `late` buffers moved before all those alive at the same time."""
    place = {i: float(n) for n, i in enumerate(order)}
    rank = place | {i: min(place[i], min(place[j] for j in beside[i]) - 0.5) for i in late}
    return sorted(order, key=lambda i: (rank[i], place[i]))


def _by_time(spans: Sequence[LiveRange], sizes: Sequence[int]) -> list[int]:
    offsets = [0] * len(spans)
    free = _Free()
    dying: list[tuple[int, int]] = []
    for i in sorted(range(len(spans)), key=lambda i: (spans[i].first, -sizes[i], i)):
        count_work()
        if not sizes[i]:
            continue
        while dying and dying[0][0] < spans[i].first:
            gone = heappop(dying)[1]
            free.give(offsets[gone], sizes[gone])
        offsets[i] = free.take(sizes[i])
        heappush(dying, (spans[i].last, i))
    return offsets


class _Free:
    """The free ranges of a block that grows at its end. The tightest gap is taken, the lowest of
    equal ones.
    """

    def __init__(self) -> None:
        self.end = 0
        # (size, start), sorted; ranges never touch each other or the end
        self.gaps: list[tuple[int, int]] = []
        self.size_at: dict[int, int] = {}  # by start
        self.start_of: dict[int, int] = {}  # by end

    def take(self, size: int) -> int:
        at = bisect_left(self.gaps, (size, -1))
        if at == len(self.gaps):
            self.end += size
            return self.end - size
        gap, start = self.gaps[at]
        self._remove(start, gap)
        if gap > size:
            self._insert(start + size, gap - size)
        return start

    def give(self, start: int, size: int) -> None:
        before = self.start_of.get(start)
        if before is not None:
            self._remove(before, start - before)
            start, size = before, size + start - before
        after = self.size_at.get(start + size)
        if after is not None:
            self._remove(start + size, after)
            size += after
        if start + size == self.end:
            self.end = start
        else:
            self._insert(start, size)

    def _insert(self, start: int, size: int) -> None:
        insort(self.gaps, (size, start))
        self.size_at[start], self.start_of[start + size] = size, start

    def _remove(self, start: int, size: int) -> None:
        del self.gaps[bisect_left(self.gaps, (size, start))]
        del self.size_at[start], self.start_of[start + size]
