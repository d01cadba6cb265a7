"""Normalizations and softmax of com.microsoft against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from one_node import RNG, agree, backend, floats, made, run


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
