"""The rows of gradient kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import torch.nn.functional as F
from jax import lax
from row import Row

from xlac.ir.graph import Node
from xlac.ops import build


def conv(
    name: str, batch: int, channels: int, filters: int, size: int, kernel: int, stride: int = 1,
    groups: int = 1, dilation: int = 1,
) -> list[Row]:  # fmt: skip
    """A square convolution without bias, and its gradients for the data and for the weights."""
    pad = (kernel - 1) // 2 * dilation
    out = (size + 2 * pad - (kernel - 1) * dilation - 1) // stride + 1
    work = 2 * batch * out * out * filters * channels // groups * kernel * kernel

    def ours(x: Node, w: Node) -> Node:
        return build.apply(
            "conv", x, w, strides=(stride,) * 2, low=(pad,) * 2, high=(pad,) * 2,
            lhs_dilation=(1, 1), rhs_dilation=(dilation,) * 2, feature_groups=groups,
        )  # fmt: skip

    def theirs(x: Any, w: Any) -> Any:
        return F.conv2d(x, w, None, stride, pad, dilation, groups)

    def jaxs(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x, w, (stride,) * 2, ((pad, pad),) * 2, rhs_dilation=(dilation,) * 2, feature_group_count=groups
        )  # fmt: skip

    shapes = {"x": (batch, channels, size, size), "w": (filters, channels // groups, kernel, kernel)}  # fmt: skip
    return [
        Row(f"{name}_b{batch}_{what}", "conv", shapes, (wrt,), ours, theirs, jaxs, work)
        for what, wrt in (("data", "x"), ("weight", "w"))
    ]


def product(form: str, m: int, k: int, n: int) -> Row:
    """A product of two matrices given at each call: nn, tn (the left one transposed) or nt."""
    a, b = (k, m) if form[0] == "t" else (m, k), (n, k) if form[1] == "t" else (k, n)
    left, right = int(form[0] == "n"), int(form[1] == "t")

    def ours(a: Node, b: Node) -> Node:
        return build.apply("dot", a, b, contract_lhs=(left,), contract_rhs=(right,))

    def theirs(a: Any, b: Any) -> Any:
        return (a if left else a.t()) @ (b.t() if right else b)

    def jaxs(a: Any, b: Any) -> Any:
        return lax.dot_general(a, b, (((left,), (right,)), ((), ())))

    name = f"dot_{form}_{m}x{k}x{n}"
    return Row(name, "dot", {"a": a, "b": b}, (), ours, theirs, jaxs, 2 * m * k * n)


def linear(rows: int, inner: int, outer: int) -> Row:
    """The gradient of a layer's weight, [outer, inner] as PyTorch keeps it."""

    def ours(x: Node, w: Node) -> Node:
        return build.apply("dot", x, w, contract_lhs=(1,), contract_rhs=(1,))

    return Row(
        f"linear_{rows}x{inner}x{outer}_weight", "dot", {"x": (rows, inner), "w": (outer, inner)}, ("w",),
        ours, lambda x, w: x @ w.t(), lambda x, w: x @ w.T, 2 * rows * inner * outer,
    )  # fmt: skip


def pools(batch: int, channels: int, size: int) -> list[Row]:
    """ResNet's pooling of 3 by 3 places, two apart, channels first and last, and an average of 2 by 2."""
    shapes, last = {"x": (batch, channels, size, size)}, {"x": (batch, size, size, channels)}
    threes, twos = (1, 1, 3, 3), (1, 1, 2, 2)
    return [
        Row(
            f"max_pool_3x3s2{what}_b{batch}", "pool", shapes, ("x",),
            lambda x: build.apply("max_pool2d", x, kernel=3, stride=2, pad=1),
            lambda x: F.max_pool2d(x, 3, 2, 1),
            lambda x: lax.reduce_window(
                x, -jnp.inf, lax.max, threes, twos, ((0, 0), (0, 0), (1, 1), (1, 1))
            ),
            whole=whole,
        )
        for whole, what in ((False, ""), (True, "_whole"))
    ] + [
        Row(
            f"max_pool_3x3s2_last{what}_b{batch}", "pool", last, ("x",),
            lambda x: build.transpose(
                build.apply("max_pool2d", build.transpose(x, (0, 3, 1, 2)), kernel=3, stride=2, pad=1),
                (0, 2, 3, 1),
            ),
            lambda x: F.max_pool2d(x.permute(0, 3, 1, 2), 3, 2, 1).permute(0, 2, 3, 1),
            lambda x: lax.reduce_window(
                x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0))
            ),
            whole=whole,
        )
        for whole, what in ((False, ""), (True, "_whole"))
    ] + [
        Row(
            f"avg_pool_2x2_b{batch}", "pool", shapes, ("x",),
            lambda x: build.apply("avg_pool2d", x, kernel=2),
            lambda x: F.avg_pool2d(x, 2),
            lambda x: lax.reduce_window(x, 0.0, lax.add, twos, twos, ((0, 0),) * 4) * 0.25,
        ),
    ]  # fmt: skip


def batch_norm(batch: int, channels: int, size: int) -> Row:
    """Batch norm with the statistics of the batch, and relu after it: value and gradients."""

    def ours(x: Node, w: Node, b: Node) -> Node:
        count = batch * size * size
        mean = build.mul(build.reduce(x, "add", (0, 2, 3), True), 1 / count)
        gap = build.sub(x, mean)
        variance = build.mul(build.reduce(build.mul(gap, gap), "add", (0, 2, 3), True), 1 / count)
        scale = build.apply1("rsqrt", build.add(variance, 1e-5))
        wide = (1, channels, 1, 1)
        found = build.mul(build.mul(gap, scale), build.reshape(w, wide))
        return build.apply1("relu", build.add(found, build.reshape(b, wide)))

    def jaxs(x: Any, w: Any, b: Any) -> Any:
        gap = x - x.mean((0, 2, 3), keepdims=True)
        scale = lax.rsqrt((gap * gap).mean((0, 2, 3), keepdims=True) + 1e-5)
        return jax.nn.relu(gap * scale * w[:, None, None] + b[:, None, None])

    return Row(
        f"batch_norm_relu_b{batch}_{channels}x{size}", "norm",
        {"x": (batch, channels, size, size), "w": (channels,), "b": (channels,)}, ("x", "w", "b"),
        ours, lambda x, w, b: F.relu(F.batch_norm(x, None, None, w, b, True)), jaxs, whole=True,
    )  # fmt: skip


def layer_norm(rows: int, width: int) -> Row:
    """Layer norm: value and gradients."""

    def jaxs(x: Any, w: Any, b: Any) -> Any:
        gap = x - x.mean(-1, keepdims=True)
        return gap * lax.rsqrt((gap * gap).mean(-1, keepdims=True) + 1e-5) * w + b

    return Row(
        f"layer_norm_{rows}x{width}", "norm", {"x": (rows, width), "w": (width,), "b": (width,)},
        ("x", "w", "b"), lambda x, w, b: build.apply("layer_norm", x, w, b),
        lambda x, w, b: F.layer_norm(x, (width,), w, b), jaxs, whole=True,
    )  # fmt: skip


def softmax(rows: int, width: int) -> Row:
    """Softmax along the last axis: value and gradient."""
    return Row(
        f"softmax_{rows}x{width}", "loss", {"x": (rows, width)}, ("x",),
        lambda x: build.apply("softmax", x), lambda x: F.softmax(x, -1),
        lambda x: jax.nn.softmax(x, -1), whole=True,
    )  # fmt: skip


def cross_entropy(rows: int, classes: int) -> Row:
    """The mean of cross-entropies of class numbers: value and gradient."""

    def jaxs(x: Any, t: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(x, -1), t[:, None], -1).mean()

    return Row(
        f"cross_entropy_{rows}x{classes}", "loss", {"x": (rows, classes), "t": (rows,)}, ("x",),
        lambda x, t: build.apply("cross_entropy", x, t), lambda x, t: F.cross_entropy(x, t), jaxs,
        whole=True, whole_numbers={"t": classes},
    )  # fmt: skip


def gelu(rows: int, width: int) -> Row:
    """GELU by erf: value and gradient."""
    return Row(
        f"gelu_{rows}x{width}", "pointwise", {"x": (rows, width)}, ("x",),
        lambda x: build.apply("gelu", x), lambda x: F.gelu(x),
        lambda x: jax.nn.gelu(x, approximate=False), whole=True,
    )  # fmt: skip


def embedding(count: int, entries: int, width: int) -> Row:
    """The gradient of a table of which `count` rows were read."""
    return Row(
        f"embedding_{count}_of_{entries}x{width}", "embedding",
        {"t": (count,), "w": (entries, width)}, ("w",),
        lambda t, w: build.apply("embedding", t, w, count=entries, dim=width), lambda t, w: F.embedding(t, w),
        lambda t, w: w[t], whole_numbers={"t": entries},
    )  # fmt: skip


def attention(batch: int, heads: int, time: int, width: int) -> Row:
    """Causal attention: value and gradients."""
    shape = (batch, heads, time, width)

    def jaxs(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / width**0.5
        seen = jnp.tril(jnp.ones((time, time), bool))
        return jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), -1) @ v

    return Row(
        f"attention_causal_b{batch}h{heads}_{time}x{width}", "attention",
        {"q": shape, "k": shape, "v": shape}, ("q", "k", "v"),
        lambda q, k, v: build.apply("attention", q, k, v, causal=True),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        jaxs, 4 * batch * heads * time * time * width, whole=True,
    )  # fmt: skip


def rows() -> Sequence[Row]:
    """All rows."""
    found: list[Row] = []
    for batch in (1, 8):
        found += conv("conv3x3_64_56", batch, 64, 64, 56, 3)
        found += conv("conv3x3_256_14", batch, 256, 256, 14, 3)
        found += conv("conv1x1_256_64_56", batch, 256, 64, 56, 1)
        found += conv("conv1x1_1024_256_14", batch, 1024, 256, 14, 1)
        found += conv("conv7x7s2_3_64_224", batch, 3, 64, 224, 7, 2)
        found += conv("conv3x3s2_128_56", batch, 128, 128, 56, 3, 2)
        found += conv("conv1x1s2_256_512_56", batch, 256, 512, 56, 1, 2)
        found += conv("depthwise3x3_96_56", batch, 96, 96, 56, 3, groups=96)
        found += conv("depthwise3x3s2_96_112", batch, 96, 96, 112, 3, 2, groups=96)
        found += conv("grouped3x3_128_28", batch, 128, 128, 28, 3, groups=32)
        found += conv("dilated3x3_64_28", batch, 64, 64, 28, 3, dilation=2)
    found += [
        product("nn", 256, 256, 1024), product("nn", 256, 1024, 256), product("nn", 1024, 256, 256),
        product("nn", 64, 64, 64), product("tn", 512, 128, 784), product("tn", 784, 128, 512),
        product("tn", 768, 1024, 768), product("tn", 64, 16384, 64), product("nt", 256, 1024, 256),
        product("nt", 128, 512, 784), product("nt", 1024, 768, 768), linear(128, 784, 512),
    ]  # fmt: skip
    found += [*pools(1, 64, 112), *pools(8, 64, 112)]
    found += [batch_norm(8, 64, 56), batch_norm(8, 256, 14), batch_norm(32, 64, 32)]
    found += [layer_norm(1024, 768), softmax(1536, 128), gelu(1024, 3072)]
    found += [cross_entropy(32, 10), cross_entropy(1024, 1000), cross_entropy(1024, 32000)]
    found += [embedding(1024, 32000, 256), embedding(16384, 1000, 64)]
    found += [attention(4, 4, 256, 64), attention(1, 12, 512, 64)]
    return found
