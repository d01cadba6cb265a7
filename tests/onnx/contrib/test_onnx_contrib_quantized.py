"""Quantized operators of com.microsoft against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from one_node import RNG, Array, agree, bytes_, exact, floats, run, scalar

ODD = [0.0513, 0.0317, 0.0971]  # scales of which no sums lie between two whole numbers


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_qlinear_elementwise(dtype: type) -> None:
    zero, least = scalar(3, dtype), scalar(np.iinfo(dtype).min, dtype)
    a, b, c = (
        bytes_(2, 30, 8, dtype=dtype),
        bytes_(30, 1, dtype=dtype),
        bytes_(2, 30, 8, dtype=dtype),
    )
    first, second, third = (scalar(s) for s in ODD)
    for op in ("QLinearAdd", "QLinearMul"):
        exact(op, [a, first, zero, b, second, scalar(1, dtype), third, zero], apart=1)
    exact("QLinearSigmoid", [a, first, zero, scalar(1 / 256), least], apart=1)
    exact("QLinearLeakyRelu", [a, first, zero, third, zero], apart=1, alpha=0.2)
    exact("QLinearSoftmax", [a, first, zero, scalar(1 / 256), least], apart=1, axis=-1, opset=13)
    exact("QLinearSoftmax", [a, first, zero, scalar(1 / 200), least], apart=1, opset=11)
    condition = RNG.integers(0, 2, (2, 30, 8)).astype(bool)
    exact("QLinearWhere", [condition, a, first, zero, c, second, zero, third, zero], apart=1)
    exact("QLinearConcat", [third, zero, a, first, zero, c, second, zero], apart=1, axis=1)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_qlinear_pools(dtype: type) -> None:
    zero, x = scalar(3, dtype), bytes_(2, 8, 17, 16, dtype=dtype)
    scales = [scalar(ODD[0]), zero, scalar(ODD[1]), zero]
    for include in (0, 1):
        exact(
            "QLinearAveragePool",
            [x, *scales],
            apart=1,
            kernel_shape=[3, 2],
            strides=[2, 1],
            pads=[1, 0, 1, 1],
            count_include_pad=include,
        )
    exact("QLinearGlobalAveragePool", [x, *scales], apart=1)
    exact("QLinearGlobalAveragePool", [x, *scales], apart=1, channels_last=1)


def test_products_of_whole_numbers() -> None:
    a, b = bytes_(5, 9), bytes_(9, 6, dtype=np.int8)
    tail = [scalar(0.02), scalar(7, np.uint8)]
    exact(
        "QGemm",
        [
            a,
            scalar(0.03),
            scalar(4, np.uint8),
            b,
            scalar(0.05),
            scalar(-2, np.int8),
            RNG.integers(-99, 99, 6).astype(np.int32),
            *tail,
        ],
        apart=1,
        alpha=0.7,
    )
    agree(
        "QGemm",
        [a, scalar(0.03), scalar(4, np.uint8), b.T.copy(), floats(6) ** 2, np.zeros(6, np.int8)],
        transB=1,
    )
    agree(
        "MatMulIntegerToFloat",
        [
            a,
            b,
            scalar(0.03),
            floats(6) ** 2,
            scalar(4, np.uint8),
            bytes_(6, dtype=np.int8),
            floats(6),
        ],
    )
    agree("DynamicQuantizeMatMul", [floats(5, 9), b, scalar(0.05), scalar(3, np.int8), floats(6)])


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("k", "block"), [(32, 16), (40, 16), (96, 32)])
@pytest.mark.parametrize("zeros", [False, True])
def test_matmul_nbits(bits: int, k: int, block: int, zeros: bool) -> None:
    n, blocks = 6, -(-k // block)
    codes = bytes_(n, blocks, block * bits // 8)
    more: list[Array | None] = [bytes_(n, -(-blocks * bits // 8))] if zeros else [None]
    if k % block:  # what lies beyond K does not count
        codes[:, -1, (k % block) * bits // 8 :] = 0
    agree(
        "MatMulNBits",
        [floats(2, 3, k), codes, floats(n, blocks), *more],
        rtol=1e-3,
        atol=1e-3,
        K=k,
        N=n,
        bits=bits,
        block_size=block,
    )


def test_whole_numbers_of_more_operators() -> None:
    a, b = bytes_(4, 6), bytes_(4, 6)
    product = (a.astype(np.int32) - 3) * (b.astype(np.int32) - 5)
    np.testing.assert_array_equal(
        run("MulInteger", [a, scalar(3, np.uint8), b, scalar(5, np.uint8)]), product
    )
    np.testing.assert_array_equal(
        run("ReduceSumInteger", [a], axes=[1], keepdims=1), a.astype(np.int32).sum(1, keepdims=True)
    )
    codes, scales, rows = bytes_(5, 16), floats(5, 2), np.asarray([3, 0, 3])
    wide = np.stack([codes & 15, codes >> 4], -1).reshape(5, 32).astype(np.float32) - 8
    wanted = (wide.reshape(5, 2, 16) * scales[:, :, None]).reshape(5, 32)[rows]
    np.testing.assert_allclose(
        run("GatherBlockQuantized", [codes, rows, scales], bits=4, block_size=16, quantize_axis=1),
        wanted,
        rtol=1e-6,
    )
