"""Discrete Fourier transforms of a few complex numbers, with no more operations than needed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlac.ops.transforms.complex_parts import (
    Number,
    difference,
    minus,
    negated,
    plus,
    scaled,
    times_i,
    total,
)


def points(values: Sequence[Number], inverse: bool) -> list[Number]:
    """The transform of as many numbers as there are values: a power of two, or an odd prime times
    one, in steps (Cooley and Tukey).
    """
    size = len(values)
    radix = next(n for n in range(2, size + 1) if size % n == 0) if size > 1 else 1
    if radix == size:
        return _of_prime(values, inverse)
    rest = size // radix
    rows = [points(values[first::radix], inverse) for first in range(radix)]
    results: list[Number] = [(None, None)] * size
    for k in range(rest):
        column = [turned(rows[p][k], p * k, size, inverse) for p in range(radix)]
        results[k::rest] = _of_prime(column, inverse)
    return results


def _of_prime(values: Sequence[Number], inverse: bool) -> list[Number]:
    """The transform of a prime number of values: of sums and differences of opposite ones, which
    are multiplied by cosines and by sines.
    """
    size = len(values)
    if size == 1:
        return list(values)
    if size == 2:
        a, b = values
        return [plus(a, b), minus(a, b)]
    pairs = [(values[n], values[size - n]) for n in range(1, size // 2 + 1)]
    sums, differences = [plus(*p) for p in pairs], [minus(*p) for p in pairs]
    first = values[0]
    for one in sums:
        first = plus(first, one)
    results = [first] + [first] * (size - 1)
    for k in range(1, size // 2 + 1):
        even: Number = values[0]
        odd: Number = (None, None)
        for n, (both, gap) in enumerate(zip(sums, differences, strict=True), 1):
            angle = 2 * math.pi * ((n * k) % size) / size
            even = plus(even, scaled(both, math.cos(angle)))
            odd = plus(odd, scaled(gap, math.sin(angle)))
        side = times_i(odd) if inverse else times_i(odd, -1)
        results[k], results[size - k] = plus(even, side), minus(even, side)
    return results


def turned(a: Number, steps: int, circle: int, inverse: bool) -> Number:
    """a rotated by `steps` of the `circle` steps around, backwards unless `inverse`: quarters are
    exchanges of parts, and eighths need two products instead of four.
    """
    steps = (steps if inverse else -steps) % circle
    quarters, steps = divmod(4 * steps, circle)  # steps: of 4 circle around
    if steps:
        angle = math.pi / 2 * steps / circle
        if 2 * steps == circle:
            (real, imaginary), root = a, math.sqrt(0.5)
            a = scaled((difference(real, imaginary), total(real, imaginary)), root)
        else:
            a = plus(scaled(a, math.cos(angle)), scaled(times_i(a), math.sin(angle)))
    if quarters % 2:
        a = times_i(a)
    return (negated(a[0]), negated(a[1])) if quarters >= 2 else a
