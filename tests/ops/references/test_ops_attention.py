"""Attention, caches of keys and values, and rotary embeddings against their formulas."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from reference_runs import RNG, close, normal, run

from xlac.ir.op import Array


def naive_attention(
    q: Array, k: Array, v: Array, allowed: Callable[[int, int], bool], add: Array | None = None
) -> Array:
    out = np.zeros((*q.shape[:3], v.shape[-1]))
    share = q.shape[1] // k.shape[1]
    for b, h, i in np.ndindex(q.shape[:3]):
        scores = np.array(
            [q[b, h, i] @ k[b, h // share, j] / math.sqrt(q.shape[-1]) for j in range(k.shape[2])]
        )
        if add is not None:
            scores = scores + np.broadcast_to(add, (*q.shape[:3], k.shape[2]))[b, h, i]
        seen = [j for j in range(k.shape[2]) if allowed(i, j)]
        weights = np.exp(scores[seen] - max(scores[seen]))
        out[b, h, i] = (weights / weights.sum()) @ v[b, h // share, seen]
    return out


@pytest.mark.parametrize("heads, shared", [(4, 4), (4, 2), (4, 1)])
def test_attention(heads: int, shared: int) -> None:
    q, k, v = normal(2, heads, 3, 8), normal(2, shared, 5, 8), normal(2, shared, 5, 6)
    close(run("attention", q, k, v), naive_attention(q, k, v, lambda i, j: True))
    close(run("attention", q, k, v, causal=True), naive_attention(q, k, v, lambda i, j: j <= i + 2))
    mask = RNG.random((3, 5)) < 0.7
    mask[:, 0] = True
    close(run("attention", q, k, v, mask), naive_attention(q, k, v, lambda i, j: bool(mask[i, j])))
    bias = normal(2, heads, 3, 5)
    close(run("attention", q, k, v, bias), naive_attention(q, k, v, lambda i, j: True, bias))
    joined = [x.transpose(0, 2, 1, 3).reshape(2, x.shape[2], -1) for x in (q, k, v)]
    wanted = naive_attention(q, k, v, lambda i, j: True).transpose(0, 2, 1, 3).reshape(2, 3, -1)
    close(run("attention", *joined, heads=heads, kv_heads=shared), wanted)


def test_caches_agree_with_attention_to_everything() -> None:
    q, k, v = normal(2, 3, 6, 8), normal(2, 3, 6, 8), normal(2, 3, 6, 8)
    whole = run("attention", q, k, v, causal=True)
    y, keys, values = run(
        "attention_with_past", q[:, :, 4:], k[:, :, 4:], v[:, :, 4:], k[:, :, :4], v[:, :, :4]
    )
    close(y, whole[:, :, 4:])
    close(keys, k)
    close(values, v)
    room = np.zeros((2, 3, 9, 8))
    cache_k, cache_v, steps = room, room, []
    for t in range(6):
        now = slice(t, t + 1)
        y, cache_k, cache_v = run(
            "attention_with_cache",
            q[:, :, now],
            k[:, :, now],
            v[:, :, now],
            cache_k,
            cache_v,
            np.int32(t),
        )
        steps.append(y)
    close(np.concatenate(steps, 2), whole)


def test_a_query_that_may_look_nowhere_gets_the_mean() -> None:
    q, k, v = normal(1, 1, 2, 4), normal(1, 1, 3, 4), normal(1, 1, 3, 4)
    mask = np.array([[True] * 3, [False] * 3])
    close(run("attention", q, k, v, mask)[0, 0, 1], v[0, 0].mean(0))


def test_rotary_embedding() -> None:
    x = normal(2, 3, 5, 8)
    angle = np.arange(5)[:, None] * 10000.0 ** (-2 * np.arange(4) / 8)
    turn = np.exp(1j * angle)
    halves = (x[..., :4] + 1j * x[..., 4:]) * turn
    close(run("rotary_embedding", x), np.concatenate([halves.real, halves.imag], -1))
    pairs = (x[..., ::2] + 1j * x[..., 1::2]) * turn
    close(
        run("rotary_embedding", x, interleaved=True),
        np.stack([pairs.real, pairs.imag], -1).reshape(x.shape),
    )
    moved = run("rotary_embedding", x[:, :, 3:], np.arange(3, 5))
    close(moved, run("rotary_embedding", x)[:, :, 3:])
