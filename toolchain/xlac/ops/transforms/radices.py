"""The radices of the stages of a Fourier transform."""

from __future__ import annotations

import math
from itertools import count

RADIX = 10  # small prime factors are combined up to this radix, whose numbers registers hold
SMALL = 7  # a prime radix up to which a stage is written out
MOST_FIRST = 32  # the largest radix of a first stage that is a product
PRIME = 128  # a prime radix up to which a product costs less than a convolution
COLUMNS = 8  # columns from which on they are the innermost axis; fewer become lines


def radices(size: int) -> list[int]:
    """The radices of the stages for `size` elements, the largest first: products of small prime
    factors, and large primes.
    """
    primes = _primes(size)
    small, large = [p for p in primes if p <= SMALL], [p for p in primes if p > SMALL]
    if not small:
        return sorted(large, reverse=True)
    for stages in count(1):
        groups = [1] * stages
        for prime in reversed(small):
            groups[groups.index(min(groups))] *= prime
        if max(groups) <= RADIX:
            return sorted([*groups, *large], reverse=True)
    raise AssertionError("unreachable")


def first_radix(size: int) -> int:
    """The radix of a first stage that is a product: the smallest that gives the next stage an axis
    of vectors, else the largest that there is; 1 where every factor is a large prime.
    """
    divisors = [n for n in range(2, MOST_FIRST + 1) if size % n == 0]
    long = [n for n in divisors if n >= COLUMNS]
    primes = [p for p in _primes(size) if p <= PRIME]
    return min(long) if long else max(divisors, default=primes[0] if primes else 1)


def _primes(size: int) -> list[int]:
    """The prime factors, ascending."""
    primes, divisor = [], 2
    while divisor * divisor <= size:
        while size % divisor == 0:
            primes.append(divisor)
            size //= divisor
        divisor += 1
    return primes + [size] * (size > 1)


def is_large(radix: int) -> bool:
    """Whether a radix is a prime of which no stage is written out."""
    return radix > SMALL and _primes(radix) == [radix]


def smooth(least: int) -> int:
    """The smallest number of at least `least` without prime factors above 5."""
    best = 1 << (least - 1).bit_length()
    for fives in range(int(math.log(best, 5)) + 1):
        for threes in range(int(math.log(best, 3)) + 1):
            odd = 5**fives * 3**threes
            twos = max(0, (-(-least // odd) - 1).bit_length())
            best = min(best, odd << twos)
    return best
