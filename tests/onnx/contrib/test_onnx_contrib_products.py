"""Products, convolutions and their activations of com.microsoft against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import agree, both, floats, run, scalar


@pytest.mark.parametrize(("a", "b", "flags"), [
    ((3, 5), (5, 4), {}), ((5, 3), (5, 4), {"transA": 1}),
    ((2, 3, 5), (4, 5), {"transB": 1, "alpha": 0.5}), ((3, 2, 5), (2, 5, 4), {"transBatchA": 1}),
    ((2, 3, 4, 5), (2, 3, 6, 5), {"transB": 1, "alpha": 2.0}),
])  # fmt: skip
def test_fused_matmul(a: tuple[int, ...], b: tuple[int, ...], flags: dict[str, Any]) -> None:
    agree("FusedMatMul", [floats(*a), floats(*b)], **flags)


@pytest.mark.parametrize(
    ("activation", "numbers"),
    [("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.3}), ("Tanh", {}), ("Sigmoid", {})],
)
def test_fused_gemm(activation: str, numbers: dict[str, float]) -> None:
    agree(
        "FusedGemm",
        [floats(3, 5), floats(4, 5), floats(4)],
        activation=activation,
        transB=1,
        alpha=0.5,
        beta=2.0,
        **numbers,
    )
    agree("FusedGemm", [floats(5, 3), floats(5, 4)], activation=activation, transA=1, **numbers)


@pytest.mark.parametrize(
    ("activation", "numbers"),
    [("Relu", []), ("LeakyRelu", [0.3]), ("HardSigmoid", [0.3, 0.4]), ("Clip", [-0.5, 0.5])],
)
def test_fused_conv(activation: str, numbers: list[float]) -> None:
    given = (
        {"activation": activation, "activation_params": numbers}
        if numbers
        else {"activation": activation}
    )
    agree(
        "FusedConv",
        [floats(1, 4, 7, 6), floats(6, 2, 3, 3), floats(6)],
        group=2,
        pads=[1, 0, 1, 2],
        **given,
    )
    agree(
        "FusedConv",
        [floats(2, 3, 5, 5), floats(4, 3, 3, 3), floats(4), floats(2, 4, 2, 2)],
        strides=[2, 2],
        **given,
    )


@pytest.mark.parametrize("shape", [(5,), (2, 3, 8), (0, 4)])
def test_activations(shape: tuple[int, ...]) -> None:
    agree("Gelu", [floats(*shape)])
    agree("QuickGelu", [floats(*shape)], alpha=1.3)
    agree("FastGelu", [floats(*shape)])
    if len(shape) > 1 and shape[0]:
        agree("FastGelu", [floats(*shape), floats(shape[-1])])
        agree("BiasGelu", [floats(*shape), floats(shape[-1])])


def test_the_rest() -> None:
    agree("Inverse", [floats(2, 4, 4)], rtol=1e-3, atol=1e-3)
    agree("Inverse", [np.asarray([[0, 1, 2], [1, 0, 3], [4, 5, 0]], np.float32)])
    agree("CDist", [floats(3, 5), floats(4, 5)], metric="sqeuclidean")
    agree("CDist", [floats(3, 5), floats(4, 5)], metric="euclidean", rtol=1e-3)
    agree("Trilu", [floats(4, 5), scalar(1, np.int64)], upper=0)
    agree("GatherND", [floats(3, 4, 5), np.asarray([[0, 1], [2, 3]])])
    agree("ExpandDims", [floats(3, 4), scalar(1, np.int32)])
    agree("Pad", [floats(3, 4), np.asarray([1, 0, 2, 1])], mode="reflect")
    agree(
        "GridSample",
        [floats(1, 2, 5, 6), floats(1, 3, 4, 2)],
        mode="bicubic",
        padding_mode="border",
        align_corners=1,
    )


def test_channels_last() -> None:
    x, weight, bias = floats(2, 7, 6, 4), floats(6, 3, 3, 2), floats(6)
    first = [x.transpose(0, 3, 1, 2), weight.transpose(0, 3, 1, 2)]
    given = {"group": 2, "pads": [1, 1, 0, 1], "strides": [2, 1]}
    wanted = both("Conv", [np.ascontiguousarray(n) for n in first] + [bias], domain="", **given)[0][
        0
    ]
    np.testing.assert_allclose(
        run("NhwcConv", [x, weight, bias], **given),
        wanted.transpose(0, 2, 3, 1),
        rtol=1e-4,
        atol=1e-5,
    )
    wanted = both("MaxPool", [np.ascontiguousarray(first[0])], domain="", kernel_shape=[2, 3])[0][0]
    np.testing.assert_array_equal(
        run("NhwcMaxPool", [x], kernel_shape=[2, 3]), wanted.transpose(0, 2, 3, 1)
    )


@pytest.mark.parametrize("size", [2, 8, 30])
def test_transforms_of_real_numbers(size: int) -> None:
    x = floats(3, size)
    spectrum = np.fft.rfft(x)
    found = run("Rfft", [x], signal_ndim=1, normalized=0, onesided=1)
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], spectrum, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        run("Irfft", [found], signal_ndim=1, normalized=0, onesided=1), x, rtol=1e-4, atol=1e-5
    )


def test_complex_products_and_finiteness() -> None:
    a, b = floats(3, 2), floats(3, 2)
    x, y = (n[:, 0] + 1j * n[:, 1] for n in (a, b))
    for op, wanted in (("ComplexMul", x * y), ("ComplexMulConj", x * y.conj())):
        found = run(op, [a, b])
        np.testing.assert_allclose(found[:, 0] + 1j * found[:, 1], wanted, rtol=1e-5, atol=1e-6)
    bad = np.asarray([1, np.inf], np.float32)
    assert (
        run("IsAllFinite", [a, b])
        and not run("IsAllFinite", [a, bad])
        and run("IsAllFinite", [a, bad], isnan_only=1)
    )
