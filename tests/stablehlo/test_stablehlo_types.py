"""Element types that xlac lacks: complex numbers, minifloats, integers of few bits, and quantised
ones.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from programs import binary, main, one, results, unary

from xlac.ir.op import Array

RNG = np.random.default_rng(5)


def pair(x: Array) -> Array:
    """A complex array as the model takes it."""
    return np.stack([x.real, x.imag], -1).astype(
        np.float32 if x.dtype == np.complex64 else np.float64
    )


def whole(x: Array) -> Array:
    return np.ascontiguousarray(x).view(np.complex64 if x.dtype == np.float32 else np.complex128)[
        ..., 0
    ]


Z = (RNG.normal(size=(4, 3)) + 1j * RNG.normal(size=(4, 3))).astype(np.complex64)
W = (RNG.normal(size=(4, 3)) + 1j * RNG.normal(size=(4, 3))).astype(np.complex64)
COMPLEX = "tensor<4x3xcomplex<f32>>"
FUNCTIONS = {
    "stablehlo.negate": np.negative, "stablehlo.exponential": np.exp,
    "stablehlo.exponential_minus_one": np.expm1, "stablehlo.log": np.log,
    "stablehlo.log_plus_one": np.log1p, "stablehlo.sqrt": np.sqrt,
    "stablehlo.rsqrt": lambda z: 1 / np.sqrt(z), "stablehlo.sine": np.sin,
    "stablehlo.cosine": np.cos, "stablehlo.tan": np.tan, "stablehlo.tanh": np.tanh,
    "stablehlo.logistic": lambda z: 1 / (1 + np.exp(-z)), "stablehlo.sign": lambda z: z / np.abs(z),
    "stablehlo.cbrt": lambda z: np.exp(np.log(z) / 3), "chlo.sinh": np.sinh, "chlo.cosh": np.cosh,
    "chlo.tan": np.tan, "chlo.square": np.square, "chlo.asin": np.arcsin, "chlo.acos": np.arccos,
    "chlo.atan": np.arctan, "chlo.asinh": np.arcsinh, "chlo.acosh": np.arccosh,
    "chlo.atanh": np.arctanh, "chlo.conj": np.conj,
}  # fmt: skip


@pytest.mark.parametrize("op", FUNCTIONS)
@pytest.mark.sampled(8)
def test_complex_functions(op: str) -> None:
    found = whole(one(unary(op, COMPLEX, COMPLEX), pair(Z)))
    np.testing.assert_allclose(found, FUNCTIONS[op](Z.astype(np.complex128)), 2e-5, 2e-6)


@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "divide", "power"])
def test_complex_arithmetic(op: str) -> None:
    found = whole(one(binary(f"stablehlo.{op}", COMPLEX, COMPLEX), pair(Z), pair(W)))
    np.testing.assert_allclose(found, getattr(np, op)(Z, W), 2e-5, 2e-6)


def test_complex_numbers_cross_everything_that_moves_them() -> None:
    body = f"""
    %c = stablehlo.constant dense<(1.0,-2.0)> : tensor<complex<f32>>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<complex<f32>>) -> {COMPLEX}
    %1 = stablehlo.add %arg0, %0 : {COMPLEX}
    %2 = stablehlo.transpose %1, dims = [1, 0] : ({COMPLEX}) -> tensor<3x4xcomplex<f32>>
    %3 = stablehlo.dot_general %1, %2, contracting_dims = [1] x [0] :
      ({COMPLEX}, tensor<3x4xcomplex<f32>>) -> tensor<4x4xcomplex<f32>>
    %4 = stablehlo.reduce(%3 init: %c) applies stablehlo.add across dimensions = [1] :
      (tensor<4x4xcomplex<f32>>, tensor<complex<f32>>) -> tensor<4xcomplex<f32>>
    %5 = stablehlo.reduce(%3 init: %c) applies stablehlo.multiply across dimensions = [0] :
      (tensor<4x4xcomplex<f32>>, tensor<complex<f32>>) -> tensor<4xcomplex<f32>>
    %6 = stablehlo.compare EQ, %4, %4 :
      (tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>) -> tensor<4xi1>
    %7 = stablehlo.select %6, %4, %5 : tensor<4xi1>, tensor<4xcomplex<f32>>
    %8 = stablehlo.abs %7 : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
    return %7, %5, %8 : tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>, tensor<4xf32>"""
    row = "tensor<4xcomplex<f32>>"
    text = main([COMPLEX], [row, row, "tensor<4xf32>"], body)
    summed, product, size = results(text, pair(Z))
    z = Z + (1 - 2j)
    wanted = z @ z.T
    np.testing.assert_allclose(whole(summed), wanted.sum(1) + (1 - 2j), 1e-4)
    np.testing.assert_allclose(whole(product), wanted.prod(0) * (1 - 2j), 1e-3)
    np.testing.assert_allclose(size, np.abs(wanted.sum(1) + (1 - 2j)), 1e-4)


def test_complex_loops_and_sorts() -> None:
    body = """
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = stablehlo.while(%i = %0, %z = %arg0) : tensor<i32>, tensor<3xcomplex<f32>>
    cond {
      %n = stablehlo.constant dense<3> : tensor<i32>
      %t = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %w = stablehlo.multiply %z, %arg0 : tensor<3xcomplex<f32>>
      stablehlo.return %j, %w : tensor<i32>, tensor<3xcomplex<f32>>
    }
    %2 = "stablehlo.sort"(%1#1) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<complex<f32>>, %b: tensor<complex<f32>>):
      %x = stablehlo.real %a : (tensor<complex<f32>>) -> tensor<f32>
      %y = stablehlo.real %b : (tensor<complex<f32>>) -> tensor<f32>
      %c = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }) : (tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>
    return %2 : tensor<3xcomplex<f32>>"""
    z = np.array([1 + 1j, 0.5 - 2j, -1j], np.complex64)
    found = whole(one(main(["tensor<3xcomplex<f32>>"], ["tensor<3xcomplex<f32>>"], body), pair(z)))
    np.testing.assert_allclose(found, sorted(z**4, key=lambda v: v.real), 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("f8E4M3FN", ml_dtypes.float8_e4m3fn),
        ("f8E5M2", ml_dtypes.float8_e5m2),
        ("f8E4M3FNUZ", ml_dtypes.float8_e4m3fnuz),
        ("f4E2M1FN", ml_dtypes.float4_e2m1fn),
    ],
)
def test_minifloats_are_computed_in_f32_and_rounded(name: str, dtype: type) -> None:
    x, y = (RNG.normal(size=(6, 7)).astype(dtype) for _ in range(2))
    type = f"tensor<6x7x{name}>"
    for op, function in (("add", np.add), ("multiply", np.multiply), ("maximum", np.maximum)):
        found = one(binary(f"stablehlo.{op}", type, type), x.view(np.uint8), y.view(np.uint8))
        wanted = function(x.astype(np.float32), y.astype(np.float32)).astype(dtype)
        np.testing.assert_array_equal(found, wanted.view(np.uint8))
    body = (
        f"    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [1] : ({type}, "
        f"{type}) -> tensor<6x6xf32>\n    return %0 : tensor<6x6xf32>"
    )
    found = one(main([type, type], ["tensor<6x6xf32>"], body), x.view(np.uint8), y.view(np.uint8))
    np.testing.assert_allclose(found, x.astype(np.float32) @ y.astype(np.float32).T, 1e-5, 1e-5)


def test_integers_of_four_bits_wrap() -> None:
    x, y = np.array([7, -8, 3, -1], np.int8), np.array([1, -1, 3, -8], np.int8)
    for op, wanted in (
        ("add", [-8, 7, 6, 7]),
        ("multiply", [7, -8, -7, -8]),
        ("subtract", [6, -7, 0, 7]),
    ):
        assert (
            one(binary(f"stablehlo.{op}", "tensor<4xi4>", "tensor<4xi4>"), x, y).tolist() == wanted
        )
    u, v = np.array([15, 9], np.uint8), np.array([1, 8], np.uint8)
    assert one(binary("stablehlo.add", "tensor<2xui4>", "tensor<2xui4>"), u, v).tolist() == [0, 1]
    assert one(
        unary("stablehlo.convert", "tensor<4xf32>", "tensor<4xi4>"),
        np.array([9.0, -9.0, 2.7, np.nan], np.float32),
    ).tolist() == [7, -8, 2, 0]
    assert one(
        unary("stablehlo.convert", "tensor<2xi32>", "tensor<2xi2>"), np.array([5, -3], np.int32)
    ).tolist() == [1, 1]


QUANTISED = "!quant.uniform<i8:f32, 5.000000e-01:3>"


def test_quantise_and_dequantise() -> None:
    x = np.array([0.0, 0.24, 0.25, 0.75, 100.0, -100.0], np.float32)
    found = one(unary("stablehlo.uniform_quantize", "tensor<6xf32>", f"tensor<6x{QUANTISED}>"), x)
    assert found.tolist() == [3, 3, 3, 5, 127, -128]  # 0.5 and 1.5 round to even
    back = one(
        unary("stablehlo.uniform_dequantize", f"tensor<6x{QUANTISED}>", "tensor<6xf32>"), found
    )
    assert back.tolist() == [0.0, 0.0, 0.0, 1.0, 62.0, -65.5]


def test_quantised_arithmetic_is_that_of_the_numbers() -> None:
    """By its definition: dequantise, compute, quantise."""
    x, y = RNG.integers(-128, 128, (2, 9)).astype(np.int8)
    type = f"tensor<9x{QUANTISED}>"
    found = one(binary("stablehlo.add", type, type), x, y)
    numbers = (x.astype(np.float32) - 3) * 0.5 + (y.astype(np.float32) - 3) * 0.5
    assert found.tolist() == np.clip(np.rint(numbers / 0.5) + 3, -128, 127).tolist()


def test_scales_for_each_channel() -> None:
    weights, sums = (
        "tensor<3x2x!quant.uniform<i8<-127:127>:f32:1, {0.5,0.25:-1}>>",
        "tensor<4x2x!quant.uniform<i32:f32, 0.125>>",
    )
    body = f"""
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] :
      (tensor<4x3x{QUANTISED}>, {weights}) -> {sums}
    return %0 : {sums}"""
    x, w = (
        RNG.integers(-128, 128, (4, 3)).astype(np.int8),
        RNG.integers(-127, 128, (3, 2)).astype(np.int8),
    )
    found = one(main([f"tensor<4x3x{QUANTISED}>", weights], [sums], body), x, w)
    numbers = ((x.astype(np.float64) - 3) * 0.5) @ (
        (w.astype(np.float64) + np.array([0, 1])) * [0.5, 0.25]
    )
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, np.rint(numbers / 0.125))
