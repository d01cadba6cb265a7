"""Bytes at the edges of what may be rewritten: zero points that are no bytes, unsigned numbers that
wrap, lookups by indices below zero, scales whose quotient is not finite. And those around an
output, which nothing writes: every element type, every length of a tail.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlac
from xlac.driver import executable, lower
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac.ops.scalar.arithmetic import Div, Erf, Round
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.gather import Gather
from xlac.ops.tensor.leaf import Param
from xlac.ops.tensor.view import Broadcast
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

Array = np.ndarray[Any, Any]
GUARD = 64
RNG = np.random.default_rng(5)


def check(node: Node, given: dict[str, Array], weights: dict[str, Array] | None = None) -> None:
    """What a graph gives on the CPU is what NumPy does."""
    found = [n for n in Graph("g", (), {"y": node}).nodes() if n.op.mnemonic == "param"]
    graph = Graph("g", tuple(n for n in found if n.op.kind == "input"), {"y": node})  # type: ignore[attr-defined]
    with np.errstate(all="ignore"):
        want = interpret(graph, given, weights or {})["y"]
    backend = find("cpu")
    program = executable(lower(Model(graph, weights or {}), backend.target(Request())), backend)
    np.testing.assert_array_equal(np.asarray(program(**given)), want)


def less(x: Node, zero: Node, wide: DType) -> Node:
    return build.sub(Node.of(Cast(wide), x), build.broadcast_to(Node.of(Cast(wide), zero), x.shape))


def number(value: float, dtype: DType) -> Node:
    return build.constant(value, dtype)


def drawn(dtype: DType, *shape: int) -> Array:
    info = np.iinfo(dtype.numpy)
    return RNG.integers(info.min, info.max, shape, endpoint=True).astype(dtype.numpy)


def convolved(x: Node, w: Node) -> Node:
    return Node.of(Conv(("NHC", "HIO", "NHC"), (1,), (1,), (2,), (1,), (1,), 1, 1, DType.I32), x, w)


@pytest.mark.parametrize("kind", ["input", "weight"])
@pytest.mark.parametrize("value", [7, -39, 300])
def test_a_zero_point_that_may_be_no_byte_surrounds_a_convolution(kind: str, value: int) -> None:
    x, zero = build.param("x", DType.U8, (2, 9, 4), "input"), build.param("z", DType.I32, (), kind)
    w = Node.of(Cast(DType.I32), build.constant(drawn(DType.I8, 3, 4, 5)))
    given, held = {"x": drawn(DType.U8, 2, 9, 4)}, {"z": np.asarray(value, np.int32)}
    if kind == "input":
        given |= held
    check(convolved(less(x, zero, DType.I32), w), given, held if kind == "weight" else {})


@pytest.mark.parametrize("dtype", [DType.U8, DType.I8])
@pytest.mark.parametrize("wide", [DType.U16, DType.U32])
@pytest.mark.parametrize("zero", [0, 127])
def test_unsigned_numbers_wrap(dtype: DType, wide: DType, zero: int) -> None:
    x = build.param("x", dtype, (6, 16), "input")
    w = less(build.constant(drawn(DType.U8, 16, 5)), number(127, DType.U8), wide)
    left = less(x, number(zero, DType.U8), wide) if zero else Node.of(Cast(wide), x)
    given = {"x": drawn(dtype, 6, 16)}
    check(Node.of(Dot((), (), (1,), (0,), DType.I32), left, w), given)
    x = build.param("x", dtype, (2, 8, 5), "input")
    w = less(build.constant(drawn(DType.U8, 3, 5, 4)), number(127, DType.U8), wide)
    given = {"x": drawn(dtype, 2, 8, 5)}
    check(convolved(less(x, number(zero, DType.U8), wide), w), given)


def test_lookups_by_signed_bytes_take_the_first_number_below_zero() -> None:
    x = build.param("x", DType.I8, (4, 64), "input")
    index = Node.of(Cast(DType.I32), x)
    table = build.constant(drawn(DType.U8, 256))
    found = Node.of(Gather((), (0,), (), (), (0,), 2, (1,)), table, index)
    y = Node.of(Cast(DType.F32), found)
    total = y
    for shift in (-7.0, -8.0):
        total = build.add(total, Node.of(Erf(), build.mul(build.add(y, shift), 0.005)))
    node = Node.of(Cast(DType.U8), Node.of(Round(), build.mul(total, 0.75)))
    check(node, {"x": drawn(DType.I8, 4, 64)})


@pytest.mark.parametrize(
    ("dtype", "scale", "over"),
    [(DType.F32, 1e30, 1e-30), (DType.F16, 100.0, 0.001), (DType.F32, 2.0, 0.25)],
)
def test_a_sum_of_nothing_is_nothing_whatever_its_scale(
    dtype: DType, scale: float, over: float
) -> None:
    x = build.param("x", DType.I32, (4,), "input")
    by, divisor = (Node.of(Broadcast((4,), ()), number(v, dtype)) for v in (scale, over))
    quotient = Node.of(Div(), build.mul(Node.of(Cast(dtype), x), by), divisor)
    shifted = build.add(Node.of(Round(), quotient), 100.0)
    check(Node.of(Cast(DType.U8), shifted), {"x": np.array([0, 0, 1, -1], np.int32)})


@pytest.mark.parametrize("dtype", DType, ids=str)
@pytest.mark.sampled(6)
def test_tails_stay_inside(dtype: DType) -> None:
    sizes = [*range(1, 20), 31, 33, 63, 65]
    params = tuple(Node.of(Param(f"x{n}", Type(dtype, (n,)))) for n in sizes)
    outputs = {}
    for n, param in zip(sizes, params, strict=True):
        made = build.apply("not", param) if dtype is DType.BOOL else build.apply("relu", param)
        assert isinstance(made, Node)
        outputs[f"y{n}"] = made
    model = xlac.compile(Model(Graph("tails", params, outputs), {}))
    blocks, views = {}, {}
    for n in sizes:
        nbytes = n * dtype.nbytes
        blocks[n] = np.full(nbytes + 2 * GUARD, 0xA5, np.uint8)
        views[f"y{n}"] = blocks[n][GUARD : GUARD + nbytes].view(dtype.numpy)
    inputs: dict[str, Any] = {f"x{n}": np.ones(n, dtype.numpy) for n in sizes}
    model.executable.run(inputs, views)  # type: ignore[union-attr]
    for n, block in blocks.items():
        assert (block[:GUARD] == 0xA5).all() and (block[-GUARD:] == 0xA5).all(), f"{dtype}[{n}]"
        assert (views[f"y{n}"] == (dtype is not DType.BOOL)).all()
