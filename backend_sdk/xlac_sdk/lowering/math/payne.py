"""Payne-Hanek reduction of large angles modulo pi/2 in integers: exact for every finite float."""

from __future__ import annotations

import itertools
from functools import lru_cache
from math import pi

from xlac_sdk.dtypes import DType
from xlac_sdk.lowering.math.parts import two_product
from xlac_sdk.lowering.math.value import Value
from xlac_sdk.lowering.math.writer import Writer

WORD = 32
# pi minus its rounded value
PI_LOW = {DType.F32: -8.742277657347585773e-08, DType.F64: 1.2246467991473531772e-16}
PAD = 96  # zero bits prepended to 2/pi, so that every window starts inside the table


@lru_cache(maxsize=1)
def two_over_pi(bits: int = 1408) -> tuple[int, ...]:
    """Words of 2/pi, most significant first, after PAD zero bits; pi by Machin's formula in
    integers.
    """
    guard = 64
    one = 1 << (bits + guard)

    def arc_cotangent(n: int) -> int:
        total, term, k = 0, one // n, 1
        while term:
            total += term // k if k % 4 == 1 else -(term // k)
            term //= n * n
            k += 2
        return total

    whole = 4 * (4 * arc_cotangent(5) - arc_cotangent(239))
    fraction = (2 * one * one // whole) >> guard
    words = [0] * (PAD // WORD)
    words += [fraction >> (bits - WORD * (k + 1)) & 0xFFFFFFFF for k in range(bits // WORD)]
    return tuple(words)


def reduce(m: Writer, x: Value) -> tuple[Value, Value]:
    """The nearest multiple of pi/2, modulo 4, and the remainder in radians, of a finite x >= 1.

    x = M 2^e. Only a window of 2/pi that starts two bits above the weight of 4/2^e affects x 2/pi
    modulo 4; it is multiplied by M in words of 32 bits, so the top two bits of the product are the
    quadrant.
    """
    f, wide = x.format, DType.U64
    # words of the window: M, two bits for the quadrant, the fraction and bits lost to cancellation
    count = 3 if f.dtype is DType.F32 else 6
    bits = x.bits
    exponent = ((bits >> f.mantissa) & (2 * f.bias + 1)) - (f.bias + f.mantissa)
    whole = ((bits & ((1 << f.mantissa) - 1)) | (1 << f.mantissa)).bitcast(f.unsigned).cast(wide)
    start = exponent + (PAD - 2)
    window = _window(m, start, count, x)
    digits = [whole & 0xFFFFFFFF] if count == 3 else [whole & 0xFFFFFFFF, whole >> WORD]
    columns = _multiply(window, digits)
    high = (columns[0] << WORD) | columns[1]
    fraction = (high << 2) | (columns[2] >> (WORD - 2))
    signed = fraction.bitcast(DType.I64)
    quadrant = (high >> 62) + (fraction >> 63)
    # the fraction as a pair of floats, then times pi/2 as a pair
    cut = 63 - f.mantissa
    exact = ((signed >> 1) + (1 << (cut - 2))) >> (cut - 1)
    first, rest = exact.cast(f.dtype) * 2.0**cut, (signed - (exact << cut)).cast(f.dtype)
    if count > 3:
        below = (columns[2] << (WORD + 2)) | (columns[3] << 2) | (columns[4] >> (WORD - 2))
        rest = rest + below.cast(f.dtype) * 2.0**-64
    unit, low = pi / 2 * 2.0**-64, PI_LOW[f.dtype] / 2 * 2.0**-64
    product, error = two_product(m, first, first.like(unit))
    angle = product + (error + m.fma(first, low, rest * unit))
    return quadrant.cast(DType.I32).cast(f.bits), angle


def _window(m: Writer, start: Value, count: int, x: Value) -> list[Value]:
    """`count` words of 2/pi from bit `start` on: the word number is resolved bit by bit by selects,
    then the words are shifted.
    """
    number, shift = start >> 5, (start & 31).cast(DType.U64)
    needed = count + 1
    last = (2 * x.format.bias - x.format.bias - x.format.mantissa + PAD) >> 5
    table = two_over_pi()[: last + needed]
    zero = m.value(shift.expr) & 0
    words: list[Value] = [zero.like(w) for w in table]
    for bit in reversed(range(last.bit_length())):
        taken = ((number >> bit) & 1).ne(0)
        keep = min(len(words), needed + (1 << bit) - 1)
        words = [
            m.select(taken, words[k + (1 << bit)], words[k])
            if k + (1 << bit) < len(words)
            else words[k]
            for k in range(keep)
        ]
    pairs = itertools.pairwise(words)
    return [((((a << WORD) | b) << shift) >> WORD) & 0xFFFFFFFF for a, b in pairs]


def _multiply(window: list[Value], digits: list[Value]) -> list[Value]:
    """The window times the digits (least significant first), modulo the window's width: its words,
    most significant first.
    """
    count = len(window)
    result: list[Value | None] = [None] * count
    carry: Value | None = None
    for column in reversed(range(count)):
        low: Value | None = carry
        carry = None
        for place, digit in enumerate(digits):
            if column + place >= count:
                continue
            product = window[column + place] * digit
            part, over = product & 0xFFFFFFFF, product >> WORD
            low = part if low is None else low + part
            carry = over if carry is None else carry + over
        assert low is not None and carry is not None
        result[column] = low & 0xFFFFFFFF
        carry = carry + (low >> WORD)
    return [word for word in result if word is not None]
