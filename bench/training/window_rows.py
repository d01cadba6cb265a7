"""Rows of gradient kernels: convolutions, products and pools."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import torch.nn.functional as F
from jax import lax
from row import Row

from xlac.ir.graph import Node
from xlac.ops import build

PLACES = ((3, 1), (2, 1), ((1, 1), (0, 0)))  # window, stride and padding: of a place, of others


def conv(
    name: str,
    batch: int,
    channels: int,
    filters: int,
    size: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    dilation: int = 1,
) -> list[Row]:
    """A square convolution without bias, and its gradients for the data and for the weights."""
    pad = (kernel - 1) // 2 * dilation
    out = (size + 2 * pad - (kernel - 1) * dilation - 1) // stride + 1
    work = 2 * batch * out * out * filters * channels // groups * kernel * kernel

    def ours(x: Node, w: Node) -> Node:
        return build.apply(
            "conv",
            x,
            w,
            strides=(stride,) * 2,
            low=(pad,) * 2,
            high=(pad,) * 2,
            lhs_dilation=(1, 1),
            rhs_dilation=(dilation,) * 2,
            feature_groups=groups,
        )

    def theirs(x: Any, w: Any) -> Any:
        return F.conv2d(x, w, None, stride, pad, dilation, groups)

    def jaxs(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x,
            w,
            (stride,) * 2,
            ((pad, pad),) * 2,
            rhs_dilation=(dilation,) * 2,
            feature_group_count=groups,
        )

    shapes = {
        "x": (batch, channels, size, size),
        "w": (filters, channels // groups, kernel, kernel),
    }
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
        f"linear_{rows}x{inner}x{outer}_weight",
        "dot",
        {"x": (rows, inner), "w": (outer, inner)},
        ("w",),
        ours,
        lambda x, w: x @ w.t(),
        lambda x, w: x @ w.T,
        2 * rows * inner * outer,
    )


def pools(batch: int, channels: int, size: int) -> list[Row]:
    """ResNet's pooling of 3 by 3 places, two apart, channels first or last, and averages."""
    first, last = {"x": (batch, channels, size, size)}, {"x": (batch, size, size, channels)}
    twos, none = (1, 1, 2, 2), ((0, 0),) * 4
    to_first, to_last = (0, 3, 1, 2), (0, 2, 3, 1)

    def ours(x: Node) -> Node:
        return build.apply("max_pool2d", x, kernel=3, stride=2, pad=1)

    def theirs(x: Any) -> Any:
        return F.max_pool2d(x, 3, 2, 1)

    def jaxs(x: Any, axes: tuple[int, int]) -> Any:
        window, strides, pads = (tuple(v if n in axes else w for n in range(4)) for v, w in PLACES)
        return lax.reduce_window(x, -jnp.inf, lax.max, window, strides, pads)

    rows = []
    for whole, what in ((False, ""), (True, "_whole")):
        name = f"max_pool_3x3s2{what}_b{batch}"
        ways = (ours, theirs, lambda x: jaxs(x, (2, 3)))
        rows.append(Row(name, "pool", first, ("x",), *ways, whole=whole))
    for whole, what in ((False, ""), (True, "_whole")):
        name = f"max_pool_3x3s2_last{what}_b{batch}"
        ways = (
            lambda x: build.transpose(ours(build.transpose(x, to_first)), to_last),
            lambda x: theirs(x.permute(to_first)).permute(to_last),
            lambda x: jaxs(x, (1, 2)),
        )
        rows.append(Row(name, "pool", last, ("x",), *ways, whole=whole))
    ways = (
        lambda x: build.apply("avg_pool2d", x, kernel=2),
        lambda x: F.avg_pool2d(x, 2),
        lambda x: lax.reduce_window(x, 0.0, lax.add, twos, twos, none) * 0.25,
    )
    rows.append(Row(f"avg_pool_2x2_b{batch}", "pool", first, ("x",), *ways))
    return rows
