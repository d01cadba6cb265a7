"""Packs buffers into a block of a given size, for plans whose values nearly fill it.

Best fit on a skyline (Burke, Kendall and Whitwell, 2004; of buffers with lifetimes: Sekiyama and
others, 2018, arXiv:1804.10001). The skyline is the height that is taken at each step of time. Its
lowest part takes the buffer of the highest priority whose lifetime lies within it; where there is
none it is raised to the lower of its neighbours, which leaves a gap. Priorities begin with those
that live long, and change: buffers that ended above the limit get a higher one, some others another
at random. The seed is fixed and no decision depends on time, so a plan is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from random import Random

from xlac_sdk.support.limits import count_work

MOST = 3000  # buffers: the time of one layout grows with the square, to a second for so many
WORK = 3_000_000  # looks at a buffer or a part of a skyline: less than a second
TURNS = 150  # layouts tried from each of the initial priorities
SIZE_WEIGHTS = (0.0, 0.5, 2.0)  # weight of a size, beside the lifetime's, in initial priorities
LENGTH_WEIGHT = 2.0
RAISED = 0.5  # added to the priority of a buffer that ended above the limit
SHARE, CHANGE = 0.1, 0.3  # of the others: how many change, and by how much at most
IDLE = 8  # turns without improvement, after which changes are small again

Lifetime = tuple[int, int]  # first and last step, both inclusive


def packed_within(lives: Sequence[Lifetime], sizes: Sequence[int], limit: int) -> list[int]:
    """Offsets of buffers with these lifetimes and `sizes` in bytes, such that no two overlap which
    are alive together: the first layout that ends at or below `limit` bytes, or else the one found
    that exceeds it by least.
    """
    search = _WithinLimit(lives, sizes, limit)
    for weight in SIZE_WEIGHTS:
        if search.run(weight):
            break
    return search.offsets


def best_fit(
    lives: Sequence[Lifetime], sizes: Sequence[int], order: Sequence[int]
) -> tuple[list[int], int]:
    """A layout of the buffers in `order` (highest priority first), and the number of looks that it
    took. Buffers that are not in the order have the offset 0.
    """
    offsets, left, looks = [0] * len(sizes), list(order), 0
    end = max((lives[i][1] for i in order), default=0) + 1
    # (height, first step, step after the last), in order of time; neighbours differ in height
    skyline = [(0, 0, end)]
    while left:
        count_work()
        looks += len(skyline)
        at = skyline.index(min(skyline))
        height, first, stop = skyline[at]
        fitting = (i for i in left if lives[i][0] >= first and lives[i][1] < stop)
        i = next(fitting, -1)
        looks += len(left)
        if i < 0:
            _raise(skyline, at)
            continue
        left.remove(i)
        offsets[i] = height
        _insert(skyline, at, (height + sizes[i], lives[i][0], lives[i][1] + 1))
    return offsets, looks


def _raise(skyline: list[tuple[int, int, int]], at: int) -> None:
    """Raises a part to the lower of its neighbours, and joins those of the same height."""
    _, first, stop = skyline[at]
    beside = skyline[max(0, at - 1) : at] + skyline[at + 1 : at + 2]
    height = min(part[0] for part in beside)
    start, end = at, at + 1
    if at and skyline[at - 1][0] == height:
        start, first = at - 1, skyline[at - 1][1]
    if end < len(skyline) and skyline[end][0] == height:
        stop, end = skyline[end][2], end + 1
    skyline[start:end] = [(height, first, stop)]


def _insert(skyline: list[tuple[int, int, int]], at: int, new: tuple[int, int, int]) -> None:
    """Divides a part into what a buffer raises, and what is before and after it."""
    height, first, stop = skyline[at]
    parts = [(height, first, new[1]), new, (height, new[2], stop)]
    skyline[at : at + 1] = [part for part in parts if part[1] < part[2]]


class _WithinLimit:
    """The search for a layout within a limit; `offsets` is the best so far."""

    def __init__(self, lives: Sequence[Lifetime], sizes: Sequence[int], limit: int) -> None:
        self.lives, self.sizes, self.limit = lives, sizes, limit
        self.placed = [i for i, size in enumerate(sizes) if size]
        self.offsets = [0] * len(sizes)
        self.best = (0, 0)  # the extent of that layout, and how much of it is above the limit
        self.random, self.left = Random(0), WORK

    def run(self, size_weight: float) -> bool:
        """Searches from priorities by lifetime and size. Whether the limit is met."""
        lives, sizes = self.lives, self.sizes
        kept = {
            i: LENGTH_WEIGHT * log2(lives[i][1] - lives[i][0] + 1) + size_weight * log2(sizes[i])
            for i in self.placed
        }
        priority, least, late, idle = kept, (0, 0), list[int](), 0
        for turn in range(TURNS):
            if self.left <= 0 and turn:
                break
            order = sorted(priority, key=lambda i: (-priority[i], i))
            offsets, looks = best_fit(lives, sizes, order)
            self.left -= looks
            value = self.value(offsets)
            if not self.best[0] or value < self.best:
                self.best, self.offsets = value, offsets
            if value[0] <= self.limit:
                return True
            above = [i for i in self.placed if offsets[i] + sizes[i] > self.limit]
            if not turn or value <= least:
                least, kept, late, idle = value, priority, above, 0
            else:
                idle = idle % IDLE + 1
            priority = self.changed(kept, above if idle < IDLE // 2 else late, idle)
        return False

    def value(self, offsets: Sequence[int]) -> tuple[int, int]:
        """The extent of a layout, and the bytes above the limit times the steps they live."""
        ends = [(i, offsets[i] + self.sizes[i]) for i in self.placed]
        above = sum(
            min(end - self.limit, self.sizes[i]) * (self.lives[i][1] - self.lives[i][0] + 1)
            for i, end in ends
            if end > self.limit
        )
        return max((end for _, end in ends), default=0), above

    def changed(
        self, priority: dict[int, float], late: Sequence[int], idle: int
    ) -> dict[int, float]:
        """Priorities for the next layout: the more turns did not improve, the more they change."""
        draw, priority = self.random.random, dict(priority)
        for i in late:
            priority[i] += RAISED * (1 + draw() * idle)
        if idle:
            for i in priority:
                if draw() < SHARE:
                    priority[i] += (2 * draw() - 1) * CHANGE * idle
        return priority
