"""Complex numbers as pairs of real tensors: primitives shared by arithmetic and functions.

A number whose larger part is far from 1 is first multiplied by a power of two (`moderate`), so that
no intermediate square, sum or product overflows or underflows; the result is scaled back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log as log_of

import numpy as np

from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.scalar import convert
from xlac_sdk.dtypes import DType

Parts = tuple[Node, Node]
INFINITE = float("inf")
LN2 = log_of(2.0)


def one(mnemonic: str) -> Callable[[Node], Node]:
    """A function that builds the operation `mnemonic` with one operand."""
    return lambda x: build.apply1(mnemonic, x)


neg, sin, cos, sinh, cosh, tanh, log1p, expm1, absolute, is_finite, is_infinite = (
    one(name)
    for name in (
        "neg",
        "sin",
        "cos",
        "sinh",
        "cosh",
        "tanh",
        "log1p",
        "expm1",
        "abs",
        "isfinite",
        "isinf",
    )
)


def both(x: Node, y: Node) -> Node:
    """Logical and."""
    return build.apply1("and", x, y)


def either(x: Node, y: Node) -> Node:
    """Logical or."""
    return build.apply1("or", x, y)


def beyond(x: Node) -> Node:
    """Whether a number is infinite or NaN."""
    return build.apply1("not", is_finite(x))


def where(condition: Node, x: Parts, y: Parts) -> Parts:
    """x where the condition holds, y elsewhere."""
    return build.select(condition, x[0], y[0]), build.select(condition, x[1], y[1])


def times_i(x: Parts) -> Parts:
    """i x."""
    return neg(x[1]), x[0]


def times_minus_i(x: Parts) -> Parts:
    """-i x."""
    return x[1], neg(x[0])


def scaled(x: Parts, by: Node | float) -> Parts:
    """Both parts times a real number."""
    return build.mul(x[0], by), build.mul(x[1], by)


# ---- bits
# --------------------------------------------------------------------------------------------


def _masked(x: Node, mask: int, plus: int = 0) -> Node:
    """The bits of a number plus `plus`, masked, as an integer."""
    dtype = x.type.dtype
    mask -= (mask >> (dtype.bits - 1)) << dtype.bits  # a signed number of the same width
    pattern = Node.of(convert.Bitcast(DType(f"i{dtype.bits}")), x)
    return build.apply1("and", build.add(pattern, plus) if plus else pattern, mask)


def signed(size: Node, sign: Node) -> Node:
    """A magnitude with the sign of another number (copysign), also for -0 and NaN."""
    dtype = size.type.dtype
    top = 1 << (dtype.bits - 1)
    return Node.of(
        convert.Bitcast(dtype), build.apply1("or", _masked(size, top - 1), _masked(sign, top))
    )


def signed_as(value: float, sign: Node) -> Node:
    """A constant magnitude with the sign of a number."""
    return signed(build.like(value, sign), sign)


def halves(x: Node) -> Parts:
    """Veltkamp splitting: two numbers whose sum is x, the first rounded to half as many digits, so
    that products of halves are exact.
    """
    dtype = x.type.dtype
    low = np.finfo(dtype.numpy).nmant // 2 + 1
    high = Node.of(
        convert.Bitcast(dtype), _masked(x, (1 << dtype.bits) - (1 << low), 1 << (low - 1))
    )
    return high, build.sub(x, high)


def exact_sum(x: Node, y: Node) -> Parts:
    """Two-sum: the rounded sum, and its rounding error."""
    total = build.add(x, y)
    second = build.sub(total, x)
    return total, build.add(build.sub(x, build.sub(total, second)), build.sub(y, second))


# ---- size
# --------------------------------------------------------------------------------------------


def largest(x: Parts) -> Node:
    """The larger of the parts' absolute values."""
    return build.maximum(absolute(x[0]), absolute(x[1]))


def hypot(a: Node, b: Node) -> Node:
    """sqrt(a² + b²) without intermediate overflow; infinite if either is, even beside NaN."""
    a, b = absolute(a), absolute(b)
    large, small = build.maximum(a, b), build.minimum(a, b)
    ratio = build.div(small, build.select(build.compare(large, "eq", 0.0), 1.0, large))
    length = build.mul(large, build.sqrt(build.add(build.mul(ratio, ratio), 1.0)))
    length = build.select(build.compare(large, "eq", small), build.mul(large, 2.0**0.5), length)
    infinite = either(build.compare(a, "eq", INFINITE), build.compare(b, "eq", INFINITE))
    return build.select(infinite, INFINITE, length)


@dataclass(frozen=True, slots=True)
class Moderate:
    """A number scaled by a power of two so that its larger part is of moderate size.

    The factor is 1, 2^-steps or 2^steps, with `steps` = 84 (f32) or 600 (f64). The scaled magnitude
    is between 2^-65 and 2^60, or between 2^-474 and 2^500.
    """

    x: Parts
    big: Node
    small: Node
    steps: int

    def back(self, root: int = 1) -> Node:
        """The factor that undoes the scaling in a result that grows as the root of x of degree
        `root`, or as its inverse if `root` is negative.
        """
        by = 2.0 ** (self.steps // root)
        return self.chosen(by, 1.0, 1.0 / by)

    def chosen(self, big: float, usual: float, small: float) -> Node:
        """Selects by how x was scaled: it was very large, of moderate size, or very small."""
        return build.select(
            self.big,
            build.like(big, self.x[0]),
            build.select(self.small, build.like(small, self.x[0]), usual),
        )


def moderate(x: Parts) -> Moderate:
    """The number scaled so that squares of its parts neither overflow nor underflow."""
    far, steps = (500, 600) if x[0].type.dtype is DType.F64 else (60, 84)
    large = largest(x)
    big, small = build.compare(large, "gt", 2.0**far), build.compare(large, "lt", 2.0**-far)
    factor = build.select(
        big, build.like(2.0**-steps, large), build.select(small, build.like(2.0**steps, large), 1.0)
    )
    return Moderate(scaled(x, factor), big, small, steps)
