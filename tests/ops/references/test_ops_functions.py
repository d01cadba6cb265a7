"""Functions of elements mean what NumPy and SciPy say, at their edges and in every precision."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.special
from reference_runs import normal, run

from xlac.ir.op import Array
from xlac_sdk.dtypes import DType

EDGES = np.array(
    [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.7,
        3.0,
        -3.0,
        20.0,
        -20.0,
        700.0,
        -700.0,
        1e-300,
        np.inf,
        -np.inf,
        np.nan,
    ]
)
SELU = (1.0507009873554805, 1.6732632423543772)
UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "ceil": np.ceil, "floor": np.floor,
    "trunc": np.trunc, "round": np.rint, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "log": np.log, "log2": np.log2, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "cbrt": np.cbrt, "square": np.square,
    "reciprocal": lambda x: 1 / x, "erf": scipy.special.erf, "sigmoid": scipy.special.expit,
    "relu": lambda x: np.maximum(x, 0), "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "softplus": lambda x: np.logaddexp(x, 0), "softsign": lambda x: x / (1 + np.abs(x)),
    "gelu": lambda x: np.where(np.isneginf(x), -0.0, x * scipy.special.ndtr(x)),
    "silu": lambda x: x * scipy.special.expit(x), "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hardswish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "selu": lambda x: SELU[0] * np.where(x > 0, x, SELU[1] * np.expm1(np.minimum(x, 0))),
    "celu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), "isnan": np.isnan,
    "isinf": np.isinf, "isfinite": np.isfinite,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_function(name: str) -> None:
    x = np.concatenate([EDGES, normal(200) * 3])
    if name in ("sin", "cos", "tan"):
        x = x[np.abs(x) < 100]
    with np.errstate(all="ignore"):
        wanted = UNARY[name](x)
    found = run(name, x)
    np.testing.assert_allclose(found, wanted, 1e-12, 1e-15)


def test_python_remainder_and_quotient() -> None:
    for x, y in itertools.product(range(-7, 8), range(-3, 4)):
        if y:
            assert run("mod", np.int32(x), np.int32(y)) == x % y
            assert run("floor_divide", np.int32(x), np.int32(y)) == x // y
            assert run("rem", np.int32(x), np.int32(y)) == math.fmod(x, y)
            assert run("div", np.int32(x), np.int32(y)) == int(x / y)
    assert run("div", np.int8(-128), np.int8(-1)) == -128
    assert run("div", np.int32(5), np.int32(0)) == -1
    assert run("rem", np.int32(5), np.int32(0)) == 5
    assert run("div", np.uint8(5), np.uint8(0)) == 255


def test_bits() -> None:
    values = [0, 1, 2, 3, 127, 128, 255]
    x = np.array(values, np.uint8)
    assert run("popcnt", x).tolist() == [v.bit_count() for v in values]
    assert run("clz", x).tolist() == [8 - v.bit_length() for v in values]
    assert run("shl", x, np.full(7, 8, np.uint8)).tolist() == [0] * 7
    assert run("shr", np.array([-5, 5], np.int16), np.array([99, 99], np.int16)).tolist() == [-1, 0]


def test_conversions() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 300.7, -300.7, 0.9, -0.9])
    assert run("cast", x, dtype=DType.I8).tolist() == [0, 127, -128, 127, -128, 0, 0]
    assert run("cast", x, dtype=DType.U8).tolist() == [0, 255, 0, 255, 0, 0, 0]
    assert run("cast", x, dtype=DType.BOOL).tolist() == [True] * 7
    assert run("cast", np.array([300, -1]), dtype=DType.U8).tolist() == [44, 255]


def test_extremes_of_nan_and_zeros() -> None:
    assert np.isnan(run("max", np.float32(np.nan), np.float32(1)))
    assert np.isnan(run("min", np.float32(1), np.float32(np.nan)))
    assert not np.signbit(run("max", -0.0, 0.0)) and np.signbit(run("min", 0.0, -0.0))
    assert np.isnan(run("reduce_max", np.array([1.0, np.nan, 2.0])))
    assert run("reduce_max", np.zeros((2, 0))[:, :0], axis=1).tolist() == [-np.inf] * 2


def test_reduced_precision() -> None:
    x = (normal(2000) * 100).astype(np.float32)
    np.testing.assert_array_equal(
        run("reduce_precision", x, exponent_bits=5, mantissa_bits=10),
        x.astype(np.float16).astype(np.float32),
    )
    bfloat = DType.BF16.numpy
    np.testing.assert_array_equal(run("reduce_precision", x), x.astype(bfloat).astype(np.float32))
    edges = np.array(
        [np.nan, np.inf, -np.inf, 0.0, -0.0, 65519.0, 65520.0, -65520.0, 1e-6, -1e-6, 6.2e-5],
        np.float32,
    )
    found = run("reduce_precision", edges, exponent_bits=5, mantissa_bits=10)
    np.testing.assert_array_equal(
        found,
        np.array(
            [np.nan, np.inf, -np.inf, 0, 0, 65504, np.inf, -np.inf, 0, 0, np.float16(6.2e-5)],
            np.float32,
        ),
    )
    assert np.signbit(found[[4, 9]]).all()
    assert run("round_half_away", np.array([0.5, -0.5, 1.5, 2.5, -2.5, 0.49])).tolist() == [
        1,
        -1,
        2,
        3,
        -3,
        0,
    ]
