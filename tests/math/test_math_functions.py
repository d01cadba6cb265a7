"""Expanded functions against extended precision: ulps over the whole range, and every special
value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from function_cases import CASES, FLOATS, P, _gelu, pairs, points, wide
from math_harness import FUSED, PLAIN, TARGETS, Array, expanded, ulps

from xlac.ops.error_bounds import FAST_FUNCTION, FUNCTIONS
from xlac_sdk.dtypes import DType

pytestmark = pytest.mark.skipif(
    np.finfo(wide).nmant < 60, reason="the exact values need an 80-bit long double"
)


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("kind", FLOATS, ids=["f32", "f64"])
@pytest.mark.parametrize("case", CASES, ids=[str(c[0].value) for c in CASES])
@pytest.mark.sampled(10)
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


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("kind", FLOATS, ids=["f32", "f64"])
def test_pow(kind: Any, name: str) -> None:
    x, y = pairs(kind)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(wide), y.astype(wide))
        distance = ulps(expanded(P.POW, [x, y], TARGETS[name]), exact)
    worst = int(distance.argmax())
    bound = FUNCTIONS["pow"].of(DType.of(kind))
    assert distance[worst] <= bound, f"{distance[worst]} at {x[worst]!r} ** {y[worst]!r}"


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("kind", FLOATS, ids=["f32", "f64"])
def test_atan2(kind: Any, name: str) -> None:
    x, y = pairs(kind)
    with np.errstate(all="ignore"):
        distance = ulps(
            expanded(P.ATAN2, [y, x], TARGETS[name]), np.arctan2(y.astype(wide), x.astype(wide))
        )
    worst = int(distance.argmax())
    bound = FUNCTIONS["atan2"].of(DType.of(kind))
    assert distance[worst] <= bound, f"{distance[worst]} at {y[worst]!r}, {x[worst]!r}"


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
@pytest.mark.sampled(6)
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
    x, rng = points(kind), np.random.default_rng(4)
    for spread in (40, 300, 3000, 1 << 62):
        n = rng.integers(-spread, spread, len(x)).astype(kind)
        with np.errstate(all="ignore"):
            exact = np.ldexp(x, np.clip(n, -5000, 5000).astype(np.int32))
        np.testing.assert_array_equal(expanded(P.LDEXP, [x, n], PLAIN), exact)


@pytest.mark.parametrize("kind", [np.float32, np.float64], ids=["f32", "f64"])
def test_lookups_choose_by_the_lowest_bits(kind: Any) -> None:
    entries = [np.full(99, n + 0.5, kind) for n in range(16)]
    at = np.arange(-50, 49, dtype=np.int32)
    np.testing.assert_array_equal(expanded(P.LOOKUP, [*entries, at], PLAIN), at % 16 + 0.5)


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
    assert distance.max() <= FAST_FUNCTION
