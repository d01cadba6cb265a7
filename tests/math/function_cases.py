"""Functions, their exact values in extended precision, and the points where they are compared."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from math_harness import Array

from xlac.ops.error_bounds import FUNCTIONS
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive
FLOATS = (np.float32, np.float64)
wide = np.longdouble


def points(kind: Any) -> Array:
    """Bit patterns from end to end, dense runs where functions turn, and everything special."""
    info, rng = np.finfo(kind), np.random.default_rng(7)
    unsigned = np.uint32 if kind is np.float32 else np.uint64
    top = 2 ** (32 if kind is np.float32 else 64) - 1
    every = np.array([top * k // 65535 for k in range(65536)], unsigned).view(kind)
    runs = [rng.uniform(-w, w, 8192).astype(kind) for w in (0.01, 1, 10, 100, 800, 1e5)]
    runs += [
        (1 + rng.uniform(-1e-3, 1e-3, 4096)).astype(kind),
        rng.uniform(0.4, 2.1, 8192).astype(kind),
    ]
    runs += [(np.arange(1, 4096) * (math.pi / 2)).astype(kind)]
    special = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1,
        -1,
        0.5,
        -0.5,
        2,
        info.max,
        -info.max,
        info.tiny,
        -info.tiny,
    ]
    special += [info.smallest_subnormal, -info.smallest_subnormal]
    with np.errstate(over="ignore"):
        near = np.concatenate(
            [np.nextafter(np.array(special, kind), kind(d)) for d in (-np.inf, np.inf)]
        )
    return np.concatenate([every, *runs, np.array(special, kind), near])


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), np.where(np.isnan(x), x, e / (1 + e)))


def _erf(x: Array) -> Array:
    """In f64, which is exact enough to judge f32; f64 has a test of its own."""
    from scipy import special

    return special.erf(x.astype(np.float64)).astype(wide)


def _gelu(x: Array) -> Array:
    """max(x, 0) - a Phi(-a), with a = |x|: by the series around 0 up to 3, and from there by
    Laplace's continued fraction.
    """
    a = np.minimum(np.abs(x), wide(45))
    density = np.exp(-a * a / 2) / np.sqrt(8 * np.arctan(wide(1)))
    term = total = np.minimum(a, wide(3))
    for n in range(1, 50):
        term = term * np.minimum(a, wide(3)) ** 2 / (2 * n + 1)
        total = total + term
    far = a > 3
    fraction = a[far]
    for n in range(250, 0, -1):
        fraction = a[far] + n / fraction
    share = 0.5 - density * total
    share[far] = density[far] / fraction
    return np.where(x > 0, x, x * 0) - a * share if np.isfinite(x).all() else _gelu_of_any(x)


def _gelu_of_any(x: Array) -> Array:
    """The same with infinities and NaN."""
    found = _gelu(np.where(np.isfinite(x), x, wide(0)))
    return np.where(np.isneginf(x), wide(-0.0), np.where(np.isfinite(x), found, x))


EXACT_VALUES: list[tuple[P, str, Callable[[Array], Array]]] = [
    (P.EXP, "exp", np.exp),
    (P.EXP2, "exp2", np.exp2),
    (P.EXPM1, "expm1", np.expm1),
    (P.LOG, "log", np.log),
    (P.LOG2, "log2", np.log2),
    (P.LOG1P, "log1p", np.log1p),
    (P.SIN, "sin", np.sin),
    (P.COS, "cos", np.cos),
    (P.TANH, "tanh", np.tanh),
    (P.SIGMOID, "sigmoid", _sigmoid),
    (P.ERF, "erf", _erf),
    (P.GELU, "gelu_exact", _gelu),
    (P.RSQRT, "rsqrt", lambda x: 1 / np.sqrt(x)),
    (P.SQRT, "sqrt", np.sqrt),
]
CASES: list[tuple[P, Callable[[Array], Array], float, float]] = [
    (primitive, exact, FUNCTIONS[name].single, FUNCTIONS[name].double)
    for primitive, name, exact in EXACT_VALUES
]
"""Primitives, their exact values, and the ulp that docs/SPEC.md promises in f32 and f64."""


def pairs(kind: Any) -> tuple[Array, Array]:
    """Products of specials, and random pairs over several ranges."""
    info, rng = np.finfo(kind), np.random.default_rng(3)
    special = [
        0.0,
        1,
        0.5,
        2,
        3,
        1.5,
        np.inf,
        info.max,
        info.tiny,
        info.smallest_subnormal,
        2.0**24,
        2.0**24 + 2,
        7,
        1e10,
    ]
    both = np.array([*special, *(-v for v in special), np.nan], kind)
    x, y = (g.ravel() for g in np.meshgrid(both, both))
    n = 30000
    xs, ys = [x], [y]
    for a, b in ((2.0, 2.0), (100.0, 20.0), (1e-3, 30.0), (1e6, 1e-3)):
        xs.append(np.abs(rng.normal(size=n) * a).astype(kind))
        ys.append((rng.normal(size=n) * b).astype(kind))
    xs.append((1 + rng.normal(size=n) * 1e-3).astype(kind))
    ys.append((rng.normal(size=n) * 1e4).astype(kind))
    xs.append(-rng.integers(1, 20, n).astype(kind))
    ys.append(rng.integers(-20, 20, n).astype(kind))
    return np.concatenate(xs), np.concatenate(ys)
