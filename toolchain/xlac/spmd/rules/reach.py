"""What convolutions, windows and reshapes read beyond a part of an axis."""

from __future__ import annotations

from dataclasses import dataclass

from xlac.spmd.mesh import part_size

NEIGHBOURS = 2  # on each side, from which a rank is sent elements of a reshape


@dataclass(frozen=True, slots=True)
class HaloAxis:
    """An axis of x that is read beyond a part of it.

    What is divided with it, results or the elements of a kernel, are `count`; each begins to read
    `step` positions after the one before, the first `low` before x, and reads one position and
    `reach` more. x is spread: its neighbours are `spread` positions apart. `place` is that of the
    axis among the attributes.
    """

    axis: int
    place: int
    size: int
    count: int
    step: int
    reach: int
    low: int
    spread: int

    def fits(self, parts: int) -> bool:
        """Whether neighbours have all that a rank reads."""
        span = self.span(parts)
        if span is None:
            return False
        own = part_size(self.size, parts)
        return span.left <= own and span.right <= own and self.count >= parts

    def span(self, parts: int) -> HaloSpan | None:
        """What each of so many ranks reads; None where x is spread and parts do not begin where
        those of the results do.
        """
        own, each = part_size(self.size, parts), part_size(self.count, parts)
        later = each * self.step - own * self.spread
        positions = (each - 1) * self.step + self.reach + 1
        if self.spread > 1 and later:
            return None
        first = -(self.low // self.spread)
        low = self.low + first * self.spread
        taken = (positions - 1 - low) // self.spread + 1
        high = positions - (low + (taken - 1) * self.spread + 1)
        begins = [first + rank * later for rank in range(parts) if rank * each < self.count]
        left = max(0, -min(begins))
        right = max(0, max(begins) + taken - own)
        return HaloSpan(first, later, taken, low, high, left, right)


@dataclass(frozen=True, slots=True)
class HaloSpan:
    """What a rank reads: `taken` elements, from `first` after the begin of its part on, for each
    rank `later` than for the one before; `low` and `high` positions around them. `left` and `right`
    elements come from its neighbours.
    """

    first: int
    later: int
    taken: int
    low: int
    high: int
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class RegroupedAxes:
    """The axes of x from `start` to `stop`, which a reshape merges or splits: `size` elements in
    `before` rows, of which ranks have parts, become `after` rows, of which they are to have parts.
    Where neither has equal parts, parts begin at different elements.
    """

    start: int
    stop: int
    size: int
    before: int
    after: int

    def even(self, parts: int) -> bool:
        """Whether parts begin at the same elements before and after."""
        return self.own(parts) == self.wanted(parts)

    def fits(self, parts: int) -> bool:
        """Whether neighbours have all that a rank is to have, and it is less than what others have
        altogether.
        """
        span, own = self.span(parts), self.own(parts)
        near = max(span.left, span.right) <= NEIGHBOURS * own
        return near and span.left + span.right < max(2, parts - 1) * own

    def own(self, parts: int) -> int:
        """The elements of a part before."""
        return part_size(self.before, parts) * (self.size // self.before)

    def wanted(self, parts: int) -> int:
        """The elements of a part after."""
        return part_size(self.after, parts) * (self.size // self.after)

    def span(self, parts: int) -> HaloSpan:
        """Which elements each of so many ranks takes; those that have nothing take anything."""
        own, taken = self.own(parts), self.wanted(parts)
        later = taken - own
        begins = [rank * later for rank in range(parts) if rank * taken < self.size]
        left, right = max(0, -min(begins)), max(0, max(begins) + taken - own)
        return HaloSpan(0, later, taken, 0, 0, left, right)
