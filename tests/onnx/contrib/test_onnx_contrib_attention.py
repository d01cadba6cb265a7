"""Attention of com.microsoft, several shapes and settings each, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from one_node import RNG, Array, agree, backend, both, floats, made, scalar


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("mask", [None, "lengths", "matrix", "cube"])
def test_attention(mask: str | None, causal: int) -> None:
    masks: dict[str | None, Array | None] = {
        None: None,
        "lengths": np.asarray([3, 5], np.int32),
        "matrix": np.asarray([[1, 1, 0, 1, 1], [0, 1, 1, 1, 1]], np.int32),
        "cube": RNG.integers(0, 2, (2, 5, 5)).astype(np.int32),
    }
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
