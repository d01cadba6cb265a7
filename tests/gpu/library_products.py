"""A target whose library computes products, and groups of them."""

from __future__ import annotations

from dataclasses import replace

from gpu_harness import LARGE, lowered, param

from xlac.fusion.group import Kind
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType
from xlac_sdk.libraries.product import GELU, RELU, Products
from xlac_sdk.programs.program import Call, Program

F32, F16, BF16, I8 = DType.F32, DType.F16, DType.BF16, DType.I8
LEAST = 4


def known(dtype: DType) -> Products:
    return Products(
        "BLAS",
        dtype,
        frozenset({dtype, F32}),
        frozenset({RELU, GELU}),
        LEAST,
        2 * LEAST**3,
        1 << 12,
    )


TARGET = replace(LARGE, products=frozenset(map(known, (F32, F16, BF16))))


def only_call(program: Program) -> Call:
    (call,) = program.steps
    assert isinstance(call, Call)
    return call


def note(output: Node, precision: str = "default") -> str:
    """Why the one dot product is what it is."""
    made = lowered(output, target=TARGET, precision=precision)
    (group,) = (g for g in made.partition.groups if g.kind is Kind.DOT)
    return made.schedules(group).note


def linear(x: Node, w: Node, bias: Node | None = None) -> Node:
    inputs = (x, w) if bias is None else (x, w, bias)
    return build.apply1("linear", *inputs, units=w.shape[0], bias=bias is not None)


def x(*shape: int, dtype: DType = F32, name: str = "x") -> Node:
    return param(name, shape, dtype)


def product(*, dtype: DType = F32, batch: int = 0) -> Node:
    """[8, 6] by [6, 10], or a batch of them."""
    if batch:
        return build.apply1(
            "matmul", x(batch, 8, 6, dtype=dtype), x(batch, 6, 10, dtype=dtype, name="w")
        )
    return build.dot(x(8, 6, dtype=dtype), x(6, 10, dtype=dtype, name="w"), ((1,), (0,)))


def bias(dtype: DType = F32) -> Node:
    return x(10, dtype=dtype, name="b")


def matrix(dtype: DType = F32, *shape: int) -> Node:
    return x(*(shape or (8, 10)), dtype=dtype, name="c")


def relu(node: Node) -> Node:
    return build.apply1("relu", node)


def gelu(node: Node, approximate: str = "tanh") -> Node:
    return build.apply1("gelu", node, approximate=approximate)
