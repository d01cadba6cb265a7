"""Operators of com.microsoft against ONNX Runtime, several shapes and settings each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import RNG, Array, agree, backend, both, floats, made, run, scalar

# ---- products and convolutions ---------------------------------------------------------------


@pytest.mark.parametrize(("a", "b", "flags"), [
    ((3, 5), (5, 4), {}), ((5, 3), (5, 4), {"transA": 1}), ((2, 3, 5), (4, 5), {"transB": 1, "alpha": 0.5}),
    ((3, 2, 5), (2, 5, 4), {"transBatchA": 1}), ((2, 3, 4, 5), (2, 3, 6, 5), {"transB": 1, "alpha": 2.0}),
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


# ---- activations and normalizations ----------------------------------------------------------


@pytest.mark.parametrize("shape", [(5,), (2, 3, 8), (0, 4)])
def test_activations(shape: tuple[int, ...]) -> None:
    agree("Gelu", [floats(*shape)])
    agree("QuickGelu", [floats(*shape)], alpha=1.3)
    agree("FastGelu", [floats(*shape)])
    if len(shape) > 1 and shape[0]:
        agree("FastGelu", [floats(*shape), floats(shape[-1])])
        agree("BiasGelu", [floats(*shape), floats(shape[-1])])


@pytest.mark.parametrize(
    ("axis", "bias", "inner"), [(2, (2, 1, 1, 5), 1), (3, (2, 1, 4, 5), 1), (2, (4, 5), 0)]
)
def test_bias_softmax(axis: int, bias: tuple[int, ...], inner: int) -> None:
    """ONNX Runtime has it for GPUs only."""
    x, added = floats(2, 3, 4, 5), floats(*bias)
    model = made("BiasSoftmax", [x, added], 1, "com.microsoft", axis=axis, is_inner_broadcast=inner)
    (found,) = backend.prepare(model).run([x, added])
    powers = np.exp(x + added)
    wanted = powers / powers.sum(tuple(range(axis, 4)), keepdims=True)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 8), (1, 1, 16)])
def test_skip_normalizations(shape: tuple[int, ...], bias: bool) -> None:
    width = shape[-1]
    more = [floats(width)] if bias else []
    agree(
        "SkipLayerNormalization",
        [floats(*shape), floats(*shape), floats(width), floats(width), *more],
        epsilon=1e-5,
    )
    agree(
        "SkipSimplifiedLayerNormalization",
        [floats(*shape), floats(*shape), floats(width), *more],
        epsilon=1e-5,
    )
    agree(
        "SimplifiedLayerNormalization",
        [floats(*shape), floats(width)],
        domain="",
        axis=-1,
        epsilon=1e-5,
    )


def test_skip_normalization_gives_the_sum() -> None:
    model = made(
        "SkipLayerNormalization",
        [floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8)],
        4,
        "com.microsoft",
    )
    x, skip, gamma, beta = floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8)
    found = backend.prepare(model).run([x, skip, gamma, beta])
    np.testing.assert_allclose(found[3], x + skip, rtol=1e-6)
    np.testing.assert_allclose(found[1], (x + skip).mean(-1, keepdims=True), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("segments", [False, True])
def test_embed_layer_normalization(segments: bool) -> None:
    ids = RNG.integers(0, 11, (2, 5)).astype(np.int32)
    kinds = RNG.integers(0, 2, (2, 5)).astype(np.int32) if segments else None
    tables = [floats(11, 8), floats(7, 8), floats(2, 8) if segments else None]
    mask = np.asarray([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    agree(
        "EmbedLayerNormalization",
        [ids, kinds, *tables, floats(8), floats(8), mask],
        outputs=2,
        epsilon=1e-5,
    )


# ---- attention -------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("mask", [None, "lengths", "matrix", "cube"])
def test_attention(mask: str | None, causal: int) -> None:
    masks: dict[str | None, Array | None] = {
        None: None, "lengths": np.asarray([3, 5], np.int32), "matrix": np.asarray([[1, 1, 0, 1, 1], [0, 1, 1, 1, 1]], np.int32),
        "cube": RNG.integers(0, 2, (2, 5, 5)).astype(np.int32),
    }  # fmt: skip
    inputs = [floats(2, 5, 6), floats(6, 24), floats(24), masks[mask]]
    agree("Attention", inputs, num_heads=2, unidirectional=causal)


def test_attention_with_a_past() -> None:
    inputs = [floats(2, 3, 6), floats(6, 24), floats(24), None, floats(2, 2, 2, 4, 4)]
    agree("Attention", inputs, outputs=2, num_heads=2, unidirectional=1)
    agree(
        "Attention",
        [floats(1, 3, 6), floats(6, 20), floats(20)],
        num_heads=2,
        qkv_hidden_sizes=[8, 8, 4],
    )


def test_multi_head_attention() -> None:
    q, k, v = floats(2, 3, 8), floats(2, 5, 8), floats(2, 5, 12)
    agree("MultiHeadAttention", [q, k, v], num_heads=2)
    agree("MultiHeadAttention", [q, k, v, floats(28)], num_heads=4, scale=0.3)
    agree("MultiHeadAttention", [q, k, v, None, np.asarray([3, 5], np.int32)], num_heads=2)
    agree(
        "MultiHeadAttention",
        [q, k, v, None, RNG.integers(0, 2, (2, 5)).astype(np.int32)],
        num_heads=2,
    )
    agree("MultiHeadAttention", [q, k, v, None, None, floats(1, 2, 3, 5)], num_heads=2)
    agree("MultiHeadAttention", [q, q, q], num_heads=2, unidirectional=1)
    one = floats(2, 3, 2, 3, 4)  # all in one: ONNX Runtime has it for GPUs only
    apart = [one[:, :, :, n].reshape(2, 3, 8) for n in range(3)]
    (found,) = backend.prepare(
        made("MultiHeadAttention", [one], 1, "com.microsoft", num_heads=2)
    ).run([one])
    np.testing.assert_allclose(
        found, both("MultiHeadAttention", apart, num_heads=2)[0][0], rtol=1e-4, atol=1e-5
    )
    pair = floats(2, 5, 2, 2, 4)
    (found,) = backend.prepare(
        made("MultiHeadAttention", [q, pair], 1, "com.microsoft", num_heads=2)
    ).run([q, pair])
    apart = [pair[:, :, :, n].reshape(2, 5, 8) for n in range(2)]
    np.testing.assert_allclose(
        found, both("MultiHeadAttention", [q, *apart], num_heads=2)[0][0], rtol=1e-4, atol=1e-5
    )
    agree(
        "MultiHeadAttention", [floats(2, 3, 8), floats(2, 2, 5, 4), floats(2, 2, 5, 4)], num_heads=2
    )
    past = [floats(2, 2, 4, 4), floats(2, 2, 4, 4)]
    agree("MultiHeadAttention", [q, q, q, None, None, None, *past], outputs=3, num_heads=2)


@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize("window", [-1, 2])
def test_group_query_attention(rotary: int, window: int) -> None:
    angle = np.outer(np.arange(16), 1 / 100 ** (np.arange(8) / 8)).astype(np.float32)
    caches = [np.cos(angle), np.sin(angle)] if rotary else []
    given = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": rotary, "local_window_size": window}
    q, k, v = floats(2, 5, 64), floats(2, 5, 32), floats(2, 5, 32)
    prompt = [q, k, v, None, None, np.asarray([4, 4], np.int32), scalar(5, np.int32), *caches]
    agree("GroupQueryAttention", prompt, outputs=3, **given)
    packed = [
        floats(2, 5, 128),
        None,
        None,
        None,
        None,
        np.asarray([4, 4], np.int32),
        scalar(5, np.int32),
        *caches,
    ]
    agree("GroupQueryAttention", packed, outputs=3, softcap=3.0, **given)
    past = [floats(2, 2, 6, 16), floats(2, 2, 6, 16)]
    one = [floats(2, 1, 64), floats(2, 1, 32), floats(2, 1, 32)]
    agree(
        "GroupQueryAttention",
        [*one, *past, np.asarray([6, 6], np.int32), scalar(7, np.int32), *caches],
        outputs=3,
        **given,
    )
    alone = [x[:1] for x in (*one, *past)]
    agree(
        "GroupQueryAttention",
        [*alone, np.asarray([6], np.int32), scalar(7, np.int32), *caches],
        outputs=3,
        scale=0.2,
        **given,
    )


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(interleaved: int) -> None:
    angle = np.outer(np.arange(16), 1 / 100 ** (np.arange(4) / 4)).astype(np.float32)
    cosine, sine = np.cos(angle), np.sin(angle)
    every = RNG.integers(0, 16, (2, 5))
    agree("RotaryEmbedding", [floats(2, 5, 24), every, cosine, sine], interleaved=interleaved)
    agree("RotaryEmbedding", [floats(2, 3, 5, 8), every, cosine, sine], interleaved=interleaved)
    agree(
        "RotaryEmbedding",
        [floats(2, 5, 24), np.asarray([3]), cosine, sine],
        interleaved=interleaved,
    )
    agree(
        "RotaryEmbedding",
        [floats(2, 5, 36), every, cosine, sine],
        interleaved=interleaved,
        num_heads=3,
        rotary_embedding_dim=8,
    )


# ---- the rest --------------------------------------------------------------------------------


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


# ---- what ONNX Runtime has for GPUs only -----------------------------------------------------


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


@pytest.mark.parametrize("activation", [0, 1])
def test_group_norm(activation: int) -> None:
    x, skip, gamma, beta = floats(2, 3, 5, 8), floats(2, 3, 5, 8), floats(8), floats(8)
    total = x + skip
    apart = total.reshape(2, 15, 4, 2)
    normal = (apart - apart.mean((1, 3), keepdims=True)) / np.sqrt(
        apart.var((1, 3), keepdims=True) + 1e-5
    )
    wanted = normal.reshape(total.shape) * gamma + beta
    wanted = wanted / (1 + np.exp(-wanted)) if activation else wanted
    found = run("SkipGroupNorm", [x, gamma, beta, skip], 2, groups=4, activation=activation)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found[1], total)
    np.testing.assert_array_equal(
        run("GroupNorm", [total, gamma, beta], groups=4, activation=activation), found[0]
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
