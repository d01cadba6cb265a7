"""Integers times multipliers beside the kernels' definition in Python's integers."""

from __future__ import annotations

import numpy as np
import pytest

from xlac.frontends.tflite.multiplier import (
    Multiplier,
    divided,
    multiplied,
    multiplied_numbers,
    multiplier,
)
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import run_body
from xlac.ops import build
from xlac_sdk.dtypes import DType

ENDS = [0, 1, -1, 2, -2, 3, -3, 5, 255, -256, 1 << 20, -(1 << 20), (1 << 28) - 1, -(1 << 28)]
LARGE = [*ENDS, (1 << 31) - 1, -(1 << 31), 1 << 30, -(1 << 30) - 1]
FACTORS = [1.0, 0.5, 0.25, 0.75, 1e-3, 0.0371, -0.0371, 0.9999999999, 2.0**-20, 1e-12]


def computed(node: Node, x: Node, values: list[int]) -> list[int]:
    """The values of a node for those of x."""
    (result,) = run_body(Graph("f", (x,), {"y": node}), [np.array(values, x.type.dtype.numpy)])
    return [int(v) for v in result]


def away(x: int, bits: int) -> int:
    """x / 2^bits, halves away from zero."""
    half = (1 << bits) >> 1
    return (x + half) >> bits if x >= 0 else -((-x + half) >> bits)


def expected(x: int, mantissa: int, exponent: int, once: bool) -> int:
    """MultiplyByQuantizedMultiplier."""
    if once:
        return (x * mantissa + (1 << 30 - exponent)) >> 31 - exponent
    high = (x * (mantissa << max(exponent, 0)) + (1 << 30)) >> 31
    return away(high, max(-exponent, 0))


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("factor", FACTORS)
def test_products_are_those_of_the_kernels(factor: float, bounded: bool, once: bool) -> None:
    values = ENDS if bounded else LARGE
    x = build.param("x", DType.I32, (len(values),))
    by = multiplier(factor)
    node = multiplied(x, by, once, (1 << 28) if bounded else 1 << 31)
    wanted = [expected(v, int(by.mantissa), int(by.exponent), once) for v in values]
    assert computed(node, x, values) == wanted
    if not once:
        known = multiplied_numbers(np.array(values, np.int64), by)
        assert known.tolist() == wanted


def test_each_channel_has_its_own_multiplier() -> None:
    factors = np.array([0.3, 0.99999, 1.7, 0.004, -0.3])
    by = multiplier(factors)
    values = [1001, -77, 12345, -54321, 99]
    x = build.param("x", DType.I32, (5,))
    triples = zip(values, by.mantissa, by.exponent, strict=True)
    wanted = [expected(v, int(m), int(e), False) for v, m, e in triples]
    assert computed(multiplied(x, by), x, values) == wanted


def test_tiny_factors_are_zero_and_mantissas_carry() -> None:
    assert multiplier(2.0**-33) == Multiplier(np.int64(0), np.int64(0))
    full = multiplier(np.nextafter(1.0, 0.0))
    assert (int(full.mantissa), int(full.exponent)) == (1 << 30, 1)


def test_sums_of_64_bits_have_mantissas_of_15() -> None:
    x = build.param("x", DType.I64, (3,))
    values = [1 << 40, -(1 << 35) - 3, 7]
    by = multiplier(3e-4)
    mantissa, bits = (int(by.mantissa) + (1 << 15)) >> 16, 15 - int(by.exponent)
    wanted = [(v * mantissa + (1 << bits - 1)) >> bits for v in values]
    assert computed(multiplied(x, by), x, values) == wanted


@pytest.mark.parametrize("bits", [0, 1, 4, 31])
def test_halves_are_rounded_away_from_zero(bits: int) -> None:
    values = [v for v in LARGE if v not in (-(1 << 31), (1 << 31) - 1)]
    x = build.param("x", DType.I32, (len(values),))
    node = build.add(divided(x, bits), 0)
    assert computed(node, x, values) == [away(v, bits) for v in values]
