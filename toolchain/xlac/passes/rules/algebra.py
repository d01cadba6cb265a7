"""Arithmetic. Every rule keeps each result bit for bit unless it says `fast` (or names its ulps).

Zeros have signs: `x + 0` turns -0.0 into 0.0, so the neutral element of float addition is -0.0, and
negation is `-0.0 - x` or `x * -1`. NaN and infinities keep their effect: `x * 0` is 0 for integers
only.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import frexp, isfinite

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops import numeric
from xlac.ops.checks import FLOATS, INTEGERS, SIGNED
from xlac.passes.rewrite.pattern import (
    abs_,
    and_,
    c,
    ceil,
    computed,
    d,
    exp,
    floor,
    log,
    max_,
    min_,
    neg,
    round_,
    rsqrt,
    shr,
    sigmoid,
    sqrt,
    x,
    y,
    z,
)
from xlac.passes.rewrite.rule import constant
from xlac_sdk.dtypes import DType

FULL = frozenset({DType.F32, DType.F64})
UNSIGNED = frozenset(t for t in INTEGERS if not t.is_signed)
NUMBERS = INTEGERS | FLOATS
Matches = Mapping[str, Node]


def lowest(dtype: DType) -> int | float:
    """The least value of a type: the identity of `max`."""
    return numeric.identity("max", dtype)


def highest(dtype: DType) -> int | float:
    """The greatest value of a type: the identity of `min`."""
    return numeric.identity("min", dtype)


def value(matches: Matches, name: str = "c") -> int | float:
    """The constant that a wildcard of the pattern matched."""
    array = constant(matches[name])
    assert array is not None
    return float(array) if numeric.is_float(array) else int(array)


def invertible(matches: Matches) -> bool:
    """Whether c is a power of two whose reciprocal is a normal number: multiplying by it divides
    exactly.
    """
    number = value(matches)
    if not isfinite(number) or number == 0 or abs(frexp(number)[0]) != 0.5 or abs(number) == 1:
        return False
    info = np.finfo(np.float16) if matches["c"].type.dtype is DType.F16 else np.finfo(np.float32)
    return float(info.tiny) <= abs(1 / number) <= float(info.max)


def power_of_two(matches: Matches) -> bool:
    """Whether the constant is 2, 4, 8 or a higher power of 2."""
    number = int(value(matches))
    return number > 1 and number & (number - 1) == 0


def exponent(power: Array) -> int:
    """The logarithm to base 2 of a power of 2."""
    return int(power).bit_length() - 1


def varies(matches: Matches) -> bool:
    """Whether x is not a constant."""
    return constant(matches["x"]) is None


NEUTRAL = (
    (x + 0 >> x).on(INTEGERS),
    (x + -0.0 >> x).on(FLOATS),
    (x - 0 >> x).on(NUMBERS),
    (x * 1 >> x).on(NUMBERS),
    (x / 1 >> x).on(NUMBERS),
    (x**1 >> x).on(NUMBERS),
    (max_(x, lowest) >> x).on(NUMBERS),
    (min_(x, highest) >> x).on(NUMBERS),
    (x * 0 >> 0).on(INTEGERS),
    (x - x >> 0).on(INTEGERS),
    (x * 0 >> 0).on(FLOATS).fast(),
    (x + 0 >> x).on(FLOATS).fast(),
    (x - x >> 0).on(FLOATS).fast(),
    (x**0 >> 1).on(NUMBERS),
    (max_(x, x) >> x).on(NUMBERS),
    (min_(x, x) >> x).on(NUMBERS),
)

SIGNS = (
    (0 - x >> -x).on(INTEGERS),
    (-0.0 - x >> -x).on(FLOATS),
    (x * -1 >> -x).on(NUMBERS),
    (x / -1 >> -x).on(SIGNED),
    (neg(-x) >> x).on(NUMBERS),
    (x + -y >> x - y).on(NUMBERS),
    (-x + y >> y - x).on(NUMBERS),
    (x - -y >> x + y).on(NUMBERS),
    (-x * c >> x * -c).on(NUMBERS),
    (-(x * c) >> x * -c).on(NUMBERS).if_single(),
    (-x / c >> x / -c).on(FLOATS),
    (-x * -y >> x * y).on(NUMBERS),
    (-x / -y >> x / y).on(FLOATS),
    (-(x - y) >> y - x).on(INTEGERS).if_single(),
    (x - c >> x + -c).on(NUMBERS),
    (max_(x, -x) >> abs_(x)).on(SIGNED),
    (max_(-x, x) >> abs_(x)).on(SIGNED),
    (abs_(-x) >> abs_(x)).on(SIGNED),
    (abs_(abs_(x)) >> abs_(x)).on(SIGNED),
    (abs_(x) * abs_(x) >> x * x).on(SIGNED),
    -floor(-x) >> ceil(x),
    -ceil(-x) >> floor(x),
)

STRENGTH = (
    (x / c >> x * (1 / c)).on(FLOATS).when(invertible),
    (x / c >> shr(x, computed(exponent, c))).on(UNSIGNED).when(power_of_two),
    (x % c >> and_(x, c - 1)).on(UNSIGNED).when(power_of_two),
    (x % 1 >> 0).on(INTEGERS),
    (x**2 >> x * x).on(NUMBERS).within(1),
    (x**3 >> x * x * x).on(FULL | INTEGERS).within(2),
    (x**-1 >> 1 / x).on(FLOATS).within(1),
    (x**0.5 >> sqrt(x)).on(FLOATS).fast(),
    (x**-0.5 >> rsqrt(x)).on(FLOATS).fast(),
    (1 / sqrt(x) >> rsqrt(x)).on(FULL).within(1),
    (x / sqrt(y) >> x * rsqrt(y)).on(FLOATS).fast(),
    (1 / (exp(-x) + 1) >> sigmoid(x)).fast(),
)

ORDER = (
    (c + x >> x + c).on(NUMBERS).when(varies),
    (c * x >> x * c).on(NUMBERS).when(varies),
    (max_(c, x) >> max_(x, c)).on(NUMBERS).when(varies),
    (min_(c, x) >> min_(x, c)).on(NUMBERS).when(varies),
)

REASSOCIATION = (
    (x + c + d >> x + (c + d)).on(INTEGERS),
    (c - (x + d) >> (c - d) - x).on(INTEGERS),
    (x * c * d >> x * (c * d)).on(INTEGERS),
    (max_(max_(x, c), d) >> max_(x, max_(c, d))).on(NUMBERS),
    (min_(min_(x, c), d) >> min_(x, min_(c, d))).on(NUMBERS),
    (max_(max_(x, y), y) >> max_(x, y)).on(NUMBERS),
    (min_(min_(x, y), y) >> min_(x, y)).on(NUMBERS),
    (x + c + d >> x + (c + d)).on(FLOATS).fast(),
    (x * c * d >> x * (c * d)).on(FLOATS).fast(),
    (x * c / d >> x * (c / d)).on(FLOATS).fast(),
    (x * y + x * z >> x * (y + z)).on(INTEGERS).if_single(),
    (x * y + x * z >> x * (y + z)).on(FLOATS).fast().if_single(),
    (x * z + y * z >> (x + y) * z).on(INTEGERS).if_single(),
    (x * z + y * z >> (x + y) * z).on(FLOATS).fast().if_single(),
)

FUNCTIONS = (
    floor(floor(x)) >> floor(x),
    round_(round_(x)) >> round_(x),
    floor(round_(x)) >> round_(x),
    round_(floor(x)) >> floor(x),
    (log(exp(x)) >> x).fast(),
    (exp(log(x)) >> x).fast(),
    (exp(x) * exp(y) >> exp(x + y)).fast().if_single(),
    (exp(x) / exp(y) >> exp(x - y)).fast().if_single(),
    (sqrt(x) * sqrt(x) >> x).fast(),
    (sqrt(x) * sqrt(y) >> sqrt(x * y)).fast().if_single(),
    (x / (1 / y) >> x * y).on(FLOATS).fast(),
    (x / (y / z) >> (x * z) / y).on(FLOATS).fast().if_single(),
    ((x / y) / z >> x / (y * z)).on(FLOATS).fast().if_single(),
)

ALGEBRA = ORDER + NEUTRAL + SIGNS + STRENGTH + REASSOCIATION + FUNCTIONS
