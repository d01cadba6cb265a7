"""Expanded functions against extended precision: ulps over the whole range, and every special
value.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from math_harness import FUSED, PLAIN, TARGETS, Array, expanded, ulps

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive
FLOATS = (np.float32, np.float64)
wide = np.longdouble
pytestmark = pytest.mark.skipif(
    np.finfo(wide).nmant < 60, reason="the exact values need an 80-bit long double"
)


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


CASES: list[tuple[P, Callable[[Array], Array], float, float]] = [
    (P.EXP, np.exp, 1.1, 1.1),
    (P.EXP2, np.exp2, 1.3, 1.3),
    (P.EXPM1, np.expm1, 1.2, 1.2),
    (P.LOG, np.log, 0.9, 0.9),
    (P.LOG2, np.log2, 2.0, 2.0),
    (P.LOG1P, np.log1p, 1.5, 1.5),
    (P.SIN, np.sin, 1.7, 1.6),
    (P.COS, np.cos, 1.7, 1.6),
    (P.TANH, np.tanh, 1.6, 1.6),
    (P.SIGMOID, _sigmoid, 2.0, 2.0),
    (P.ERF, _erf, 1.5, 4.0),
    (P.GELU, _gelu, 2.1, 3.0),
    (P.RSQRT, lambda x: 1 / np.sqrt(x), 1.5, 1.5),
    (P.SQRT, np.sqrt, 0.51, 0.51),
]


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("kind", FLOATS, ids=["f32", "f64"])
@pytest.mark.parametrize("case", CASES, ids=[str(c[0].value) for c in CASES])
@pytest.mark.sampled(2)
def test_within_ulps(
    case: tuple[P, Callable[[Array], Array], float, float], kind: Any, name: str
) -> None:
    primitive, exact, single, double = case
    target = TARGETS[name]
    target = dataclasses.replace(target, primitives=target.primitives - {primitive})
    x = points(kind)
    with np.errstate(all="ignore"):
        distance = ulps(expanded(primitive, [x], target), exact(x.astype(wide)))
    worst = int(distance.argmax())
    assert distance[worst] <= (single if kind is np.float32 else double), (
        f"{distance[worst]} at {x[worst]!r}"
    )


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


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("kind", FLOATS, ids=["f32", "f64"])
def test_pow(kind: Any, name: str) -> None:
    x, y = pairs(kind)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(wide), y.astype(wide))
        distance = ulps(expanded(P.POW, [x, y], TARGETS[name]), exact)
    worst = int(distance.argmax())
    assert distance[worst] <= 2.0, f"{distance[worst]} at {x[worst]!r} ** {y[worst]!r}"


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("kind", FLOATS, ids=["f32", "f64"])
def test_atan2(kind: Any, name: str) -> None:
    x, y = pairs(kind)
    with np.errstate(all="ignore"):
        distance = ulps(
            expanded(P.ATAN2, [y, x], TARGETS[name]), np.arctan2(y.astype(wide), x.astype(wide))
        )
    worst = int(distance.argmax())
    assert distance[worst] <= 2.0, f"{distance[worst]} at {y[worst]!r}, {x[worst]!r}"


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("kind", FLOATS, ids=["f32", "f64"])
def test_remainder_is_exact(kind: Any, name: str) -> None:
    x, y = pairs(kind)
    bits = np.random.default_rng(5).integers(0, 256, (2, 4096 * x.dtype.itemsize), np.uint8)
    x, y = np.concatenate([x, bits[0].view(kind)]), np.concatenate([y, bits[1].view(kind)])
    with np.errstate(all="ignore"):
        found, exact = expanded(P.REM, [x, y], TARGETS[name]), np.fmod(x, y)
    np.testing.assert_array_equal(found, exact)
    assert (np.signbit(found) == np.signbit(exact))[~np.isnan(exact)].all()


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("kind", FLOATS, ids=["f32", "f64"])
@pytest.mark.parametrize("primitive", [P.FLOOR, P.CEIL, P.TRUNC, P.ROUND, P.ABS, P.NEG])
def test_exact_functions(primitive: P, kind: Any, name: str) -> None:
    meaning = {
        P.FLOOR: np.floor,
        P.CEIL: np.ceil,
        P.TRUNC: np.trunc,
        P.ROUND: np.rint,
        P.ABS: np.abs,
        P.NEG: np.negative,
    }
    target = dataclasses.replace(TARGETS[name], primitives=TARGETS[name].primitives - {primitive})
    x = np.concatenate([points(kind), np.arange(-20, 20, 0.25, kind)])
    with np.errstate(all="ignore"):
        got, exact = expanded(primitive, [x], target), meaning[primitive](x)
    np.testing.assert_array_equal(got, exact)
    assert (np.signbit(got) == np.signbit(exact))[~np.isnan(exact)].all()


@pytest.mark.parametrize("kind", [np.float32, np.float64], ids=["f32", "f64"])
def test_scaling_by_powers_of_two_rounds_once(kind: Any) -> None:
    whole = np.int32 if kind is np.float32 else np.int64
    x, rng = points(kind), np.random.default_rng(4)
    for spread in (40, 300, 3000, np.iinfo(whole).max):
        n = rng.integers(-spread, spread, len(x), whole)
        with np.errstate(all="ignore"):
            exact = np.ldexp(x, np.clip(n, -5000, 5000).astype(np.int32))
        np.testing.assert_array_equal(expanded(P.LDEXP, [x, n], PLAIN), exact)


@pytest.mark.parametrize("kind", FLOATS, ids=["f32", "f64"])
@pytest.mark.parametrize("primitive", [P.MAX, P.MIN, P.LE, P.NE])
def test_orders(primitive: P, kind: Any) -> None:
    from xlac_sdk.kernel_ir.semantics import evaluate

    x, y = pairs(kind)
    with np.errstate(all="ignore"):
        got = expanded(primitive, [x, y], PLAIN)
        exact = np.asarray(evaluate(primitive, (x, y), DType.of(got.dtype)))
    np.testing.assert_array_equal(got, exact)
    if got.dtype != bool:
        assert (np.signbit(got) == np.signbit(exact))[~np.isnan(exact)].all()


@pytest.mark.parametrize("kind", FLOATS, ids=["f32", "f64"])
def test_error_function_of_doubles_is_exact_to_two_ulp(kind: Any) -> None:
    """Against its series in integers, which needs no library: erf x = 2/sqrt(pi) sum (-1)^n
    x^(2n+1) / n! (2n+1).
    """
    from decimal import Decimal, getcontext

    getcontext().prec = 60
    scale = 2 / Decimal("3.14159265358979323846264338327950288419716939937510582097494459").sqrt()
    x = np.concatenate([np.linspace(0.01, 5.9, 400), np.linspace(0.95, 1.05, 100)]).astype(kind)
    got = expanded(P.ERF, [x], FUSED)
    for value, result in zip(x, got, strict=True):
        v = Decimal(float(value))
        total = term = v
        n = 0
        while abs(term) > Decimal(10) ** -45:
            n += 1
            term = -term * v * v / n
            total += term / (2 * n + 1)
        error = abs(Decimal(float(result)) - total * scale)
        assert error <= 2 * Decimal(float(np.spacing(result))), f"at {value!r}"


def test_gelu_is_dense_within_two_ulp() -> None:
    """Where a target has fma, as every default one of ours: to where results are the smallest
    denormals.
    """
    rng = np.random.default_rng(11)
    runs = [
        np.linspace(-14.5, 6, 200_001),
        rng.uniform(-3, 1, 100_000),
        rng.uniform(-13.5, -12.5, 20_000),
    ]
    x = np.concatenate(runs).astype(np.float32)
    with np.errstate(all="ignore"):
        distance = ulps(expanded(P.GELU, [x], FUSED), _gelu(x.astype(wide)))
    worst = int(distance.argmax())
    assert distance[worst] <= 2.0, f"{distance[worst]} at {x[worst]!r}"


def test_gelu_keeps_signs_of_zeros_and_has_its_limit() -> None:
    for kind in FLOATS:
        got = expanded(P.GELU, [np.array([0.0, -0.0, -np.inf, -1e4, np.inf, np.nan], kind)], FUSED)
        assert (got[:4] == 0).all() and np.signbit(got[:4]).tolist() == [False, True, True, True]
        assert got[4] == np.inf and np.isnan(got[5])


@pytest.mark.parametrize("primitive", [P.EXP, P.SIN, P.COS, P.SIGMOID, P.TANH])
def test_fast_variants_keep_four_ulp_where_they_hold(primitive: P) -> None:
    """Fast: no denormal results of exp, no angles beyond 8192."""
    x = np.linspace(-80, 80, 40001).astype(np.float32)
    with np.errstate(all="ignore"):
        exact = {c[0]: c[1] for c in CASES}[primitive](x.astype(wide))
        distance = ulps(expanded(primitive, [x], FUSED, fast=True), exact)
    assert distance.max() <= 4.0
