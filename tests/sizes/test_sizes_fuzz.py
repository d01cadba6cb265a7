"""Random graphs over two open sizes: one program agrees with NumPy at all of them."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from xlac.driver import executable, lower
from xlac.ir.dims import symbol, symbols, volume
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.op import ShapeError
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.tensor.leaf import Param
from xlac.passes.specialize import substituted
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

N, M = symbol("n", 0, 40, 9), symbol("m", 1, 12, 3)
SIZES = ((9, 3), (0, 1), (1, 1), (17, 12), (40, 5))


def step(random: Random, values: list[Node]) -> Node | None:
    """One more operation on what is there, or None where the one that was drawn does not fit."""
    x = random.choice(values)
    rank, axis = x.type.rank, random.randrange(x.type.rank)
    match random.choice(
        (
            "softmax",
            "transpose",
            "concat",
            "add",
            "flatten",
            "cumsum",
            "tanh",
            "sum",
            "matmul",
            "gram",
        )
    ):
        case "softmax" | "cumsum" as mnemonic:
            return build.apply(mnemonic, x, axis=axis)
        case "transpose":
            return build.apply("transpose", x, perm=tuple(random.sample(range(rank), rank)))
        case "concat":
            return build.apply("concat", x, x, axis=axis)
        case "add":
            return build.add(x, random.choice([v for v in values if v.shape == x.shape]))
        case "flatten":
            return build.reshape(x, (volume(x.shape),))
        case "tanh":
            return build.apply("tanh", x)
        case "sum":
            return build.apply("sum", x, axis=axis)
        case "matmul" if rank == 2:
            fitting = [v for v in values if v.type.rank == 2 and v.shape[0] == x.shape[1]]
            return build.apply("matmul", x, random.choice(fitting)) if fitting else None
        case "gram" if rank == 2:
            return build.apply("matmul", x, build.apply("transpose", x, perm=(1, 0)))
    return None


def graph(seed: int) -> Graph:
    random = Random(seed)
    params = (
        Node.of(Param("x", Type(DType.F32, (N, 8)))),
        Node.of(Param("y", Type(DType.F32, (M, N)))),
    )
    values: list[Node] = list(params)
    while len(values) < 7:
        try:
            made = step(random, values)
        except ShapeError:
            continue
        if made is not None and made.type.rank:
            values.append(made)
    return Graph("fuzz", params, {f"out{i}": node for i, node in enumerate(values[-2:])})


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.sampled(8)
def test_random_graphs(seed: int, target: str) -> None:
    made, backend = graph(seed), find(target)
    dims = {s.name: s for size in (N, M) for s in symbols(size)}
    program = executable(lower(Model(made, {}, dims), backend.target(Request())), backend)
    for n, m in SIZES:
        generator = np.random.default_rng(seed)
        inputs = {
            "x": generator.standard_normal((n, 8)).astype(np.float32),
            "y": generator.standard_normal((m, n)).astype(np.float32),
        }
        with np.errstate(all="ignore"):
            expected = interpret(substituted(made, {"n": n, "m": m}), inputs, {})
        for name, want in expected.items():
            got = program(**inputs)[name]
            scale = max(1.0, float(np.abs(want).max(initial=0.0)))
            assert got.shape == want.shape
            np.testing.assert_allclose(
                got / scale,
                want / scale,
                rtol=0,
                atol=2e-4,
                err_msg=f"{name} with n = {n}, m = {m}",
            )
