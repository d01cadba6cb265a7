"""What operations of the table mean, in programs of one operation, against NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
from programs import binary, main, one, results, unary

from xlac.ir.op import Array

RNG = np.random.default_rng(3)
X = RNG.normal(size=(3, 5)).astype(np.float32)
POSITIVE = np.abs(X) + 0.1
UNIT = np.tanh(X).astype(np.float32)
HALVES = np.array([0.5, 1.5, -2.5, 0.4], np.float32)
FLOATS: dict[str, tuple[Callable[..., Any], Array]] = {
    "stablehlo.abs": (np.abs, X), "stablehlo.cbrt": (np.cbrt, X), "stablehlo.ceil": (np.ceil, X),
    "stablehlo.cosine": (np.cos, X), "stablehlo.exponential": (np.exp, X),
    "stablehlo.exponential_minus_one": (np.expm1, X), "stablehlo.floor": (np.floor, X),
    "stablehlo.log": (np.log, POSITIVE), "stablehlo.log_plus_one": (np.log1p, POSITIVE),
    "stablehlo.logistic": (scipy.special.expit, X), "stablehlo.negate": (np.negative, X),
    "stablehlo.rsqrt": (lambda x: 1 / np.sqrt(x), POSITIVE), "stablehlo.sign": (np.sign, X),
    "stablehlo.round_nearest_afz": (lambda x: np.trunc(x + np.copysign(0.5, x)), HALVES),
    "stablehlo.round_nearest_even": (np.rint, HALVES),
    "stablehlo.sine": (np.sin, X), "stablehlo.sqrt": (np.sqrt, POSITIVE),
    "stablehlo.tan": (np.tan, X), "stablehlo.tanh": (np.tanh, X), "chlo.acos": (np.arccos, UNIT),
    "chlo.acosh": (np.arccosh, POSITIVE + 1), "chlo.asin": (np.arcsin, UNIT),
    "chlo.asinh": (np.arcsinh, X), "chlo.atan": (np.arctan, X),
    "chlo.atanh": (np.arctanh, UNIT * np.float32(0.9)), "chlo.bessel_i1e": (scipy.special.i1e, X),
    "chlo.cosh": (np.cosh, X), "chlo.digamma": (scipy.special.digamma, POSITIVE),
    "chlo.erf": (scipy.special.erf, X), "chlo.erf_inv": (scipy.special.erfinv, UNIT),
    "chlo.erfc": (scipy.special.erfc, X), "chlo.lgamma": (scipy.special.gammaln, POSITIVE),
    "chlo.sinh": (np.sinh, X), "chlo.square": (np.square, X), "chlo.tan": (np.tan, X),
    "chlo.conj": (np.conj, X),
}  # fmt: skip


def typed(x: Array, element: str = "f32") -> str:
    return f"tensor<{''.join(f'{n}x' for n in x.shape)}{element}>"


@pytest.mark.parametrize("op", FLOATS)
@pytest.mark.sampled(6)
def test_functions_of_a_float(op: str) -> None:
    reference, x = FLOATS[op]
    found = one(unary(op, typed(x), typed(x)), x)
    np.testing.assert_allclose(found, reference(x), 2e-5, 2e-6)


BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "power": np.power,
    "remainder": np.fmod,
    "atan2": np.arctan2,
}


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.sampled(6)
def test_functions_of_two_floats(op: str) -> None:
    x, y = POSITIVE, X[::-1].copy()
    np.testing.assert_allclose(
        one(binary(f"stablehlo.{op}", typed(x), typed(x)), x, y), BINARY[op](x, y), 1e-5, 1e-6
    )


@pytest.mark.parametrize(
    ("op", "wanted"),
    [
        ("add", [1, 1, 0]),
        ("multiply", [1, 0, 0]),
        ("maximum", [1, 1, 0]),
        ("minimum", [1, 0, 0]),
        ("xor", [0, 1, 0]),
    ],
)
def test_arithmetic_of_booleans_is_logical(op: str, wanted: list[int]) -> None:
    x, y = np.array([True, True, False]), np.array([True, False, False])
    assert one(binary(f"stablehlo.{op}", "tensor<3xi1>", "tensor<3xi1>"), x, y).tolist() == [
        bool(w) for w in wanted
    ]


def test_shifts_by_the_width_or_more() -> None:
    x, y = np.array([-5, -5, 5, 1, -1], np.int32), np.array([1, 40, 33, 31, -1], np.int32)
    wanted = {
        "shift_left": [-10, 0, 0, -(2**31), 0],
        "shift_right_arithmetic": [-3, -1, 0, 0, -1],
        "shift_right_logical": [2**31 - 3, 0, 0, 0, 0],
    }
    for op, numbers in wanted.items():
        assert (
            one(binary(f"stablehlo.{op}", "tensor<5xi32>", "tensor<5xi32>"), x, y).tolist()
            == numbers
        )


def test_integers_divide_as_xla_does() -> None:
    x, y = np.array([7, -7, 7, -(2**31)], np.int32), np.array([2, 2, 0, -1], np.int32)
    assert one(binary("stablehlo.divide", "tensor<4xi32>", "tensor<4xi32>"), x, y).tolist() == [
        3,
        -3,
        -1,
        -(2**31),
    ]
    assert one(binary("stablehlo.remainder", "tensor<4xi32>", "tensor<4xi32>"), x, y).tolist() == [
        1,
        -1,
        7,
        0,
    ]


def test_bits_are_counted_in_the_type() -> None:
    assert one(
        unary("stablehlo.popcnt", "tensor<3xui8>", "tensor<3xui8>"), np.array([0, 255, 6], np.uint8)
    ).tolist() == [0, 8, 2]
    assert one(
        unary("stablehlo.count_leading_zeros", "tensor<2xi4>", "tensor<2xi4>"),
        np.array([1, -1], np.int8),
    ).tolist() == [3, 0]
    assert one(
        unary("stablehlo.popcnt", "tensor<2xi4>", "tensor<2xi4>"), np.array([-1, 3], np.int8)
    ).tolist() == [4, 2]


@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "LE", "GT", "GE"])
def test_total_order(direction: str) -> None:
    points = np.array([-np.nan, -np.inf, -1.0, -0.0, 0.0, 1.0, np.inf, np.nan], np.float32)
    points.view(np.uint32)[0] |= 1 << 31
    places = np.arange(8)
    x, y = np.repeat(points, 8), np.tile(points, 8)
    a, b = np.repeat(places, 8), np.tile(places, 8)
    given = (
        f"<{{comparison_direction = #stablehlo<comparison_direction {direction}>, "
        f"compare_type = #stablehlo<comparison_type TOTALORDER>}}>"
    )
    wanted = getattr(
        np,
        {
            "EQ": "equal",
            "NE": "not_equal",
            "LT": "less",
            "LE": "less_equal",
            "GT": "greater",
            "GE": "greater_equal",
        }[direction],
    )(a, b)
    np.testing.assert_array_equal(
        one(binary("stablehlo.compare", "tensor<64xf32>", "tensor<64xi1>", given), x, y), wanted
    )


def test_booleans_are_ordered() -> None:
    text = main(
        ["tensor<2xi1>"] * 2,
        ["tensor<2xi1>"],
        "    %0 = stablehlo.compare LT, %arg0, %arg1 : (tensor<2xi1>, "
        "tensor<2xi1>) -> tensor<2xi1>\n    return %0 : tensor<2xi1>",
    )
    assert one(text, np.array([False, True]), np.array([True, True])).tolist() == [True, False]


def test_select_and_clamp_take_scalars() -> None:
    body = """
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<3xf32>
    %1 = "stablehlo.clamp"(%arg3, %0, %arg4) :
      (tensor<f32>, tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
    return %1 : tensor<3xf32>"""
    text = main(
        ["tensor<i1>", "tensor<3xf32>", "tensor<3xf32>", "tensor<f32>", "tensor<f32>"],
        ["tensor<3xf32>"],
        body,
    )
    x = np.array([-9, 0.5, 9], np.float32)
    assert one(text, np.bool_(True), x, -x, np.float32(-1), np.float32(2)).tolist() == [-1, 0.5, 2]


def test_conversions() -> None:
    x = np.array([1.9, -1.9, 300.0, np.nan], np.float32)
    assert one(unary("stablehlo.convert", "tensor<4xf32>", "tensor<4xi8>"), x).tolist() == [
        1,
        -1,
        127,
        0,
    ]
    assert one(
        unary("stablehlo.convert", "tensor<4xf32>", "tensor<4xi1>"),
        np.array([0, -0.0, np.nan, 2], np.float32),
    ).tolist() == [False, False, True, True]
    assert one(
        unary("stablehlo.convert", "tensor<2xi32>", "tensor<2xui8>"), np.array([300, -1], np.int32)
    ).tolist() == [44, 255]


def test_bits_change_their_type() -> None:
    x = np.array([1.0, -2.5], np.float32)
    parts = one(unary("stablehlo.bitcast_convert", "tensor<2xf32>", "tensor<2x4xui8>"), x)
    np.testing.assert_array_equal(parts, x.view(np.uint8).reshape(2, 4))
    np.testing.assert_array_equal(
        one(unary("stablehlo.bitcast_convert", "tensor<2x4xui8>", "tensor<2xf32>"), parts), x
    )
    halves = one(
        unary("stablehlo.bitcast_convert", "tensor<2xui8>", "tensor<2x2xui4>"),
        np.array([0x5A, 0xF0], np.uint8),
    )
    assert halves.tolist() == [[10, 5], [0, 15]]
    assert one(
        unary("stablehlo.bitcast_convert", "tensor<2x2xui4>", "tensor<2xui8>"), halves
    ).tolist() == [0x5A, 0xF0]


def test_reduce_precision_and_is_finite() -> None:
    text = main(
        ["tensor<2xf32>"],
        ["tensor<2xf32>", "tensor<2xi1>"],
        """
    %0 = stablehlo.reduce_precision %arg0, format = e5m2 : tensor<2xf32>
    %1 = stablehlo.is_finite %arg0 : (tensor<2xf32>) -> tensor<2xi1>
    return %0, %1 : tensor<2xf32>, tensor<2xi1>""",
    )
    found = results(text, np.array([1.3, np.inf], np.float32))
    assert found[0].tolist() == [1.25, np.inf] and found[1].tolist() == [True, False]
