"""Inverse functions of complex numbers, by Kahan's formulas (Branch Cuts for Complex Elementary Functions, 1987)."""

from __future__ import annotations

from collections.abc import Callable

from xlac.frontends.stablehlo.complexes import (
    Parts,
    absolute,
    cosh_,
    log1p,
    mapped,
    mul,
    neg,
    returned,
    signed,
    sinh_,
    sqrt,
    tan,
    turned,
)
from xlac.frontends.stablehlo.values import Tensor
from xlac.ir.graph import Node
from xlac.ops import build


def _roots(x: Parts) -> tuple[Parts, Parts]:
    """The roots of 1 - x and of 1 + x."""
    a, b = x
    return sqrt((build.sub(1.0, a), neg(b))), sqrt((build.add(a, 1.0), b))


def _crossed(x: Parts, y: Parts) -> Node:
    """The imaginary part of conj(x) y."""
    return build.sub(build.mul(x[0], y[1]), build.mul(x[1], y[0]))


def asin(x: Parts) -> Parts:
    low, high = _roots(x)
    across = build.sub(build.mul(low[0], high[0]), build.mul(low[1], high[1]))
    return build.apply1("atan2", x[0], across), build.apply1("asinh", _crossed(low, high))


def acos(x: Parts) -> Parts:
    low, high = _roots(x)
    return build.mul(build.apply1("atan2", low[0], high[0]), 2.0), build.apply1("asinh", _crossed(high, low))


def acosh(x: Parts) -> Parts:
    a, b = x
    low, high = sqrt((build.sub(a, 1.0), b)), sqrt((build.add(a, 1.0), b))
    inner = build.add(build.mul(low[0], high[0]), build.mul(low[1], high[1]))
    return build.apply1("asinh", inner), build.mul(build.apply1("atan2", low[1], high[0]), 2.0)


def atanh(x: Parts) -> Parts:
    """The real part from |a|, for which the logarithm's argument does not cancel."""
    a, b = x
    size = absolute(a)
    near, squared = build.sub(1.0, size), build.mul(b, b)
    real = build.mul(log1p(build.div(build.mul(size, 4.0), build.add(build.mul(near, near), squared))), 0.25)
    angle = build.apply1("atan2", build.mul(b, 2.0), build.sub(build.mul(near, build.add(size, 1.0)), squared))
    return signed(real, a), build.mul(angle, 0.5)


def asinh(x: Parts) -> Parts:
    """-i asin(i x)."""
    return returned(asin(turned(x)))


def atan(x: Parts) -> Parts:
    """-i atanh(i x)."""
    return returned(atanh(turned(x)))


CHLO: dict[str, Callable[[Tensor], Tensor]] = {
    name: mapped(function)
    for name, function in (
        ("sinh", sinh_), ("cosh", cosh_), ("tan", tan), ("square", lambda x: mul(x, x)), ("asin", asin), ("acos", acos), ("atan", atan),
        ("asinh", asinh), ("acosh", acosh), ("atanh", atanh),
    )
}  # fmt: skip
"""CHLO's functions on complex tensors."""
