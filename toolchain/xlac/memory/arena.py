"""Packs buffers with known lifetimes into one block of memory.

Two strategies run and the smaller result is kept: largest first (close to the bound, quadratic, so for
up to a few thousand buffers) and in order of time with best fit (near linear).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ALIGN = 64  # bytes: a cache line, and the widest vector
QUADRATIC = 2_000  # buffers up to which largest-first is affordable


@dataclass(frozen=True, slots=True)
class Span:
    """A buffer of `nbytes` alive from step `first` to step `last`, both inclusive."""

    nbytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Layout:
    """An offset for every buffer, the size of the block, and the size no layout can go below."""

    offsets: tuple[int, ...]
    nbytes: int
    bound: int


def pack(spans: Sequence[Span]) -> Layout:
    """Offsets such that buffers alive at the same step never overlap."""
    sizes = [_round(s.nbytes) for s in spans]
    best = _by_time(spans, sizes)
    if len(spans) <= QUADRATIC:
        best = min(_by_size(spans, sizes), best, key=lambda offsets: _extent(offsets, sizes))
    return Layout(tuple(best), _extent(best, sizes), live_bound(spans))


def live_bound(spans: Sequence[Span]) -> int:
    """The most bytes alive at one step."""
    changes: dict[int, int] = {}
    for s in spans:
        changes[s.first] = changes.get(s.first, 0) + _round(s.nbytes)
        changes[s.last + 1] = changes.get(s.last + 1, 0) - _round(s.nbytes)
    alive = peak = 0
    for step in sorted(changes):
        alive += changes[step]
        peak = max(peak, alive)
    return peak


def _round(nbytes: int) -> int:
    return -(-nbytes // ALIGN) * ALIGN


def _extent(offsets: Sequence[int], sizes: Sequence[int]) -> int:
    return max((o + s for o, s in zip(offsets, sizes, strict=True)), default=0)


def _fit(size: int, taken: Iterable[tuple[int, int]]) -> int:
    """The start of the tightest gap of at least `size` between taken stretches, which are sorted."""
    best, best_gap, end = -1, 0, 0
    for start, stop in taken:
        gap = start - end
        if gap >= size and (best < 0 or gap < best_gap):
            best, best_gap = end, gap
        end = max(end, stop)
    return best if best >= 0 else end


def _by_size(spans: Sequence[Span], sizes: Sequence[int]) -> list[int]:
    order = sorted(range(len(spans)), key=lambda i: (-sizes[i], spans[i].first, i))
    placed: list[tuple[int, int, int]] = []  # (offset, end, buffer), sorted
    offsets = [0] * len(spans)
    for i in order:
        if not sizes[i]:
            continue
        s = spans[i]
        taken = ((a, b) for a, b, j in placed if spans[j].first <= s.last and s.first <= spans[j].last)
        offsets[i] = _fit(sizes[i], taken)
        insort(placed, (offsets[i], offsets[i] + sizes[i], i))
    return offsets


def _by_time(spans: Sequence[Span], sizes: Sequence[int]) -> list[int]:
    offsets = [0] * len(spans)
    alive: list[tuple[int, int, int]] = []
    for i in sorted(range(len(spans)), key=lambda i: (spans[i].first, -sizes[i], i)):
        if not sizes[i]:
            continue
        alive = [entry for entry in alive if spans[entry[2]].last >= spans[i].first]
        offsets[i] = _fit(sizes[i], ((a, b) for a, b, _ in alive))
        insort(alive, (offsets[i], offsets[i] + sizes[i], i))
    return offsets
