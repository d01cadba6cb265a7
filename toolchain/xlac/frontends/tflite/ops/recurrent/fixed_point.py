"""The logistic function and the hyperbolic tangent of 16-bit fixed-point numbers, to the bit as in
gemmlowp (fixedpoint/fixedpoint.h), which TensorFlow Lite's quantized LSTM uses: numbers are i32, a
result has 15 bits after the point.
"""

from __future__ import annotations

from xlac.frontends.tflite.multiplier import divided
from xlac.ir.graph import Node
from xlac.ops import build

ONE = 32767  # the largest number with 15 bits after the point stands for 1
EXPONENTIALS = (
    (-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308), (2, 39332535),
    (3, 720401), (4, 242),
)  # fmt: skip
"""exp(-2^n) with 31 bits after the point, by n."""


def logistic(x: Node, integer_bits: int) -> Node:
    """1 / (1 + exp(-x)) of numbers with so many bits before the point, beside the sign."""
    size = _negative(x)
    positive = _reciprocal(_exp(size, integer_bits), halved=True)
    result = build.select(build.compare(x, "gt", 0), positive, build.sub(ONE, positive))
    return build.select(build.compare(x, "eq", 0), 1 << 14, result)


def tanh(x: Node, integer_bits: int) -> Node:
    """The hyperbolic tangent of numbers with so many bits before the point, beside the sign."""
    size = _reciprocal(_exp(_negative(x), integer_bits + 1), halved=False)
    result = build.select(build.compare(x, "lt", 0), build.sub(0, size), size)
    return build.select(build.compare(x, "eq", 0), 0, result)


def _negative(x: Node) -> Node:
    return build.minimum(x, build.sub(0, x))


def _shr(x: Node, bits: int) -> Node:
    return build.apply1("shr", x, bits)


def _constant(value: int) -> int:
    """A number of 32 bits in the upper 16."""
    return (value + (1 << 15)) >> 16


def _times(x: Node, y: Node | int) -> Node:
    """The product of numbers with 15 bits after the point in one of them, rounded to the other."""
    return _shr(build.add(build.mul(x, y), 1 << 14), 15)


def _exp(x: Node, integer_bits: int) -> Node:
    """exp of numbers up to 0: of the part in [-1/4, 0) by a series, then times exp(-2^n) for each
    bit of the rest.
    """
    fraction = 15 - integer_bits
    quarter = 1 << fraction - 2
    part = build.sub(build.apply1("and", x, quarter - 1), quarter)
    result = _exp_of_quarter(build.mul(part, 1 << integer_bits))
    rest = build.sub(part, x)
    for exponent, value in EXPONENTIALS:
        if integer_bits > exponent:
            bit = build.apply1("and", rest, 1 << fraction + exponent)
            less = _times(result, _constant(value))
            result = build.select(build.compare(bit, "ne", 0), less, result)
    if integer_bits > 5:
        result = build.select(build.compare(x, "lt", -(1 << fraction + 5)), 0, result)
    return build.select(build.compare(x, "eq", 0), ONE, result)


def _exp_of_quarter(x: Node) -> Node:
    """exp on [-1/4, 0), by its series of four terms around -1/8."""
    middle = _constant(1895147668)
    x = build.add(x, 1 << 12)
    x2 = _times(x, x)
    x3, x4 = _times(x2, x), _times(x2, x2)
    sums = _times(build.add(divided(x4, 2), x3), _constant(715827883))
    higher = divided(build.add(sums, x2), 1)
    return build.minimum(build.add(_times(build.add(x, higher), middle), middle), ONE)


def _reciprocal(x: Node, halved: bool) -> Node:
    """For x in [0, 1]: 1 / (1 + x) if `halved`, else (1 - x) / (1 + x); by Newton's method for
    2 / (1 + x), which has 13 bits after the point.
    """
    half = _shr(build.add(x, ONE + 1), 1)
    y = build.add(_times(half, _constant(-1010580540)), _constant(1515870810))
    for _ in range(3):
        error = build.sub(1 << 13, _times(half, y))
        y = build.add(y, _saturated(build.mul(_times(y, error), 4)))
    return _saturated(build.mul(y, 2) if halved else build.mul(build.sub(y, 1 << 13), 4))


def _saturated(x: Node) -> Node:
    return build.minimum(build.maximum(x, -ONE - 1), ONE)
