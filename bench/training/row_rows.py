"""Rows of gradient kernels that go along rows: norms, softmax, losses, embedding, attention."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import torch.nn.functional as F
from jax import lax
from row import Row

from xlac.ir.graph import Node
from xlac.ops import build


def batch_norm(batch: int, channels: int, size: int) -> Row:
    """Batch norm with the statistics of the batch, and relu after it: value and gradients."""

    def ours(x: Node, w: Node, b: Node) -> Node:
        count = batch * size * size
        mean = build.mul(build.reduce(x, "add", (0, 2, 3), True), 1 / count)
        gap = build.sub(x, mean)
        variance = build.mul(build.reduce(build.mul(gap, gap), "add", (0, 2, 3), True), 1 / count)
        scale = build.apply1("rsqrt", build.add(variance, 1e-5))
        wide = (1, channels, 1, 1)
        scaled = build.mul(build.mul(gap, scale), build.reshape(w, wide))
        return build.apply1("relu", build.add(scaled, build.reshape(b, wide)))

    def jaxs(x: Any, w: Any, b: Any) -> Any:
        gap = x - x.mean((0, 2, 3), keepdims=True)
        scale = lax.rsqrt((gap * gap).mean((0, 2, 3), keepdims=True) + 1e-5)
        return jax.nn.relu(gap * scale * w[:, None, None] + b[:, None, None])

    return Row(
        f"batch_norm_relu_b{batch}_{channels}x{size}",
        "norm",
        {"x": (batch, channels, size, size), "w": (channels,), "b": (channels,)},
        ("x", "w", "b"),
        ours,
        lambda x, w, b: F.relu(F.batch_norm(x, None, None, w, b, True)),
        jaxs,
        whole=True,
    )


def layer_norm(rows: int, width: int) -> Row:
    """Layer norm: value and gradients."""

    def jaxs(x: Any, w: Any, b: Any) -> Any:
        gap = x - x.mean(-1, keepdims=True)
        return gap * lax.rsqrt((gap * gap).mean(-1, keepdims=True) + 1e-5) * w + b

    return Row(
        f"layer_norm_{rows}x{width}",
        "norm",
        {"x": (rows, width), "w": (width,), "b": (width,)},
        ("x", "w", "b"),
        lambda x, w, b: build.apply("layer_norm", x, w, b),
        lambda x, w, b: F.layer_norm(x, (width,), w, b),
        jaxs,
        whole=True,
    )


def softmax(rows: int, width: int) -> Row:
    """Softmax along the last axis: value and gradient."""
    return Row(
        f"softmax_{rows}x{width}",
        "loss",
        {"x": (rows, width)},
        ("x",),
        lambda x: build.apply("softmax", x),
        lambda x: F.softmax(x, -1),
        lambda x: jax.nn.softmax(x, -1),
        whole=True,
    )


def cross_entropy(rows: int, classes: int) -> Row:
    """The mean of cross-entropies of class numbers: value and gradient."""

    def jaxs(x: Any, t: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(x, -1), t[:, None], -1).mean()

    return Row(
        f"cross_entropy_{rows}x{classes}",
        "loss",
        {"x": (rows, classes), "t": (rows,)},
        ("x",),
        lambda x, t: build.apply("cross_entropy", x, t),
        lambda x, t: F.cross_entropy(x, t),
        jaxs,
        whole=True,
        whole_numbers={"t": classes},
    )


def gelu(rows: int, width: int) -> Row:
    """GELU by erf: value and gradient."""
    return Row(
        f"gelu_{rows}x{width}",
        "pointwise",
        {"x": (rows, width)},
        ("x",),
        lambda x: build.apply("gelu", x),
        lambda x: F.gelu(x),
        lambda x: jax.nn.gelu(x, approximate=False),
        whole=True,
    )


def embedding(count: int, entries: int, width: int) -> Row:
    """The gradient of a table of which `count` rows were read."""
    return Row(
        f"embedding_{count}_of_{entries}x{width}",
        "embedding",
        {"t": (count,), "w": (entries, width)},
        ("w",),
        lambda t, w: build.apply("embedding", t, w, count=entries, dim=width),
        lambda t, w: F.embedding(t, w),
        lambda t, w: w[t],
        whole_numbers={"t": entries},
    )


def attention(batch: int, heads: int, time: int, width: int) -> Row:
    """Causal attention: value and gradients."""
    shape = (batch, heads, time, width)

    def jaxs(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / width**0.5
        seen = jnp.tril(jnp.ones((time, time), bool))
        return jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), -1) @ v

    return Row(
        f"attention_causal_b{batch}h{heads}_{time}x{width}",
        "attention",
        {"q": shape, "k": shape, "v": shape},
        ("q", "k", "v"),
        lambda q, k, v: build.apply("attention", q, k, v, causal=True),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        jaxs,
        4 * batch * heads * time * time * width,
        whole=True,
    )
