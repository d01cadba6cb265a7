"""A target whose library computes convolutions, and groups of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from gpu_harness import LARGE, lowered, param

from xlac.fusion.group import Kind
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType
from xlac_sdk.libraries.convolution import CONVOLUTION
from xlac_sdk.libraries.product import GELU, RELU, Products
from xlac_sdk.programs.program import Call, Program

F32, F16, BF16 = DType.F32, DType.F16, DType.BF16
DTYPES = (F32, F16, BF16)


def known(dtype: DType, **more: Any) -> Products:
    return Products(
        "DNN",
        dtype,
        frozenset({dtype}),
        frozenset({RELU, GELU}),
        1,
        1,
        1 << 12,
        frozenset({RELU}),
        wide=True,
        **more,
    )


TARGET = replace(LARGE, convolutions=frozenset(map(known, DTYPES)))
BOTH = replace(
    TARGET,
    products=frozenset(
        Products("BLAS", d, frozenset({d, F32}), frozenset({RELU}), 2, 1, 1 << 12) for d in DTYPES
    ),
)


def conv(
    *shape: Any,
    dtype: DType = F32,
    filters: int = 6,
    kernel: Any = 3,
    constant: bool = False,
    bias: bool = True,
    of: Node | None = None,
    **given: Any,
) -> Node:
    """A convolution of x, (batch, channels, spatial…) unless `channels_last`."""
    rank = len(shape) - 2
    channels = shape[-1 if given.get("channels_last") else 1]
    taps = (kernel,) * rank if isinstance(kernel, int) else tuple(kernel)
    weights = (filters, channels // given.get("groups", 1), *taps)
    w = (
        build.constant(np.random.default_rng(1).standard_normal(weights), dtype)
        if constant
        else param("w", weights, dtype)
    )
    learned = (w, param("b", (filters,), dtype)) if bias else (w,)
    x = (
        param("x", shape, dtype)
        if of is None
        else build.apply1("slice", of, starts=[0] * len(shape), stops=list(shape))
    )
    return build.apply1(
        f"conv{rank}d", x, *learned, filters=filters, kernel=kernel, bias=bias, **given
    )


def relu(node: Node) -> Node:
    return build.apply1("relu", node)


def residual(node: Node, name: str = "c") -> Node:
    return build.add(node, param(name, node.shape, node.type.dtype))


def only(program: Program, name: str = CONVOLUTION) -> Any:
    """What the one step, a call, is to compute."""
    (call,) = program.steps
    assert isinstance(call, Call) and call.name == name
    return call.attributes[name]


def note(output: Node, precision: str = "default", **facts: Any) -> str:
    """Why the one convolution is what it is."""
    target = replace(TARGET, convolutions=frozenset(known(d, **facts) for d in DTYPES))
    made = lowered(output, target=target, precision=precision)
    (group,) = (g for g in made.partition.groups if g.kind is Kind.CONV)
    return made.schedules(group).note


def sums() -> Node:
    """Of bf16, f32 before they are rounded: (2, 3, 3, 6)."""
    channels_last = {"layout": ("NHWC", "OIHW", "NHWC"), "out_dtype": F32}
    return primitive(BF16, x=(2, 5, 5, 4), **channels_last)


def primitive(dtype: DType = F32, x: tuple[int, ...] = (1, 4, 5, 5), **given: Any) -> Node:
    """Of x by [6, 4, 3, 3]."""
    ones, zeros = (1, 1), (0, 0)
    known: dict[str, Any] = {
        "strides": ones,
        "low": zeros,
        "high": zeros,
        "lhs_dilation": ones,
        "rhs_dilation": ones,
    }
    return Node.of(Conv(**(known | given)), param("x", x, dtype), param("w", (6, 4, 3, 3), dtype))
