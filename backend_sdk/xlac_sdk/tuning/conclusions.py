"""What measurements say: rates by size as levels of memory, and which of several widths, block
sizes and counts to take. Nothing is measured here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

FURTHER = 1.5  # how much faster than the next a level is, if it is one
NEAR = 0.92  # the smallest that reaches this part of the best rate is as good
WAITS = 1.6  # so many times the time of one block says that blocks wait for each other


def levels(rates: Mapping[int, float]) -> tuple[int, ...]:
    """Bytes of the levels of caches that can be told apart, at most three, by rates of reads, by
    the bytes that are read again and again, each twice the one before. The last of the rates are
    those of memory.

    A level ends where the rate falls below the geometric mean of its best and of the rate of four
    times as much; twice as much is in part in it still, and says nothing of the next.
    """
    rest = sorted(rates.items())
    memory = min(rate for _, rate in rest[-2:])
    sizes = list[int]()
    while len(rest) > 2 and len(sizes) < 3:
        best = max(rate for _, rate in rest)
        if best < FURTHER * memory:
            break
        last = _last_within([rate for _, rate in rest], best, memory)
        if last is None:
            break
        sizes.append(rest[last][0])
        rest = rest[last + 2 :]
    return tuple(sizes)


def level(number: int, rates: Mapping[int, float]) -> int | None:
    """Bytes of a level of caches, counted from 0; None where it cannot be told apart."""
    found = levels(rates)
    return found[number] if number < len(found) else None


def _last_within(rates: Sequence[float], best: float, memory: float) -> int | None:
    """Where the first level ends, by number; None where nothing larger is slower."""
    last = None
    for number in range(len(rates) - 2):
        further = max(memory, min(rates[number + 1 : number + 3]))
        if rates[number] >= sqrt(best * further):
            last = number
        elif last is not None:
            return last
    return None


def narrowest(rates: Mapping[int, float]) -> int:
    """The smallest choice whose rate is near the best."""
    best = max(rates.values())
    return min(choice for choice, rate in rates.items() if rate >= NEAR * best)


def widest(rates: Mapping[int, float]) -> int:
    """The largest choice whose rate is near the best."""
    best = max(rates.values())
    return max(choice for choice, rate in rates.items() if rate >= NEAR * best)


def fastest(rates: Mapping[int, float], now: int) -> int:
    """The choice with the best rate; the present one where it is near."""
    best = max(rates, key=lambda choice: rates[choice])
    return now if rates.get(now, 0.0) >= NEAR * rates[best] else best


def registers(rates: Mapping[int, float], candidates: Sequence[int]) -> int:
    """Vector registers by rates of multiply-adds with so many sums: sums and two operands are kept
    in registers, so the rate falls where there are more. The candidates are ascending.
    """
    most = candidates[0]
    best = max(rates.values())
    for count in candidates:
        fitting = [sums for sums in rates if most - 2 < sums <= count - 2]
        if fitting and rates[max(fitting)] >= 0.75 * best:
            most = count
    return most


def at_once(seconds: Mapping[int, float], overhead: float = 0.0) -> int:
    """How many blocks run at once, by the time of a launch of so many: the most that take hardly
    longer than one. `overhead` is the launch's own.
    """
    one = max(min(seconds.values()) - overhead, 1e-9)
    most = min(seconds)
    for count, time in sorted(seconds.items()):
        if time - overhead > WAITS * one:
            break
        most = count
    return most
