"""Attention in one kernel beside what the operation means: widths, types, masks, grouped heads,
views, open sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from processors import needs_processor

from xlac.api import compile as compile_model
from xlac.driver import executable, lower
from xlac.fusion.group import Kind
from xlac.ir.dims import Sym, Symbol, static
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request, Target

D = DType
TOLERANCE = {D.F64: 1e-12, D.F32: 2e-6, D.F16: 2e-3, D.BF16: 1.6e-2}
SMALL = {"l1_bytes": 8 << 10, "l2_bytes": 32 << 10}
"""Caches so small that little attentions take several blocks of queries and tiles of keys."""


@cache
def target(cpu: str = "", threads: int = 1) -> Target:
    return find("cpu").target(Request(cpu=cpu, threads=threads)).with_facts(**SMALL)


def param(name: str, shape: tuple[int, ...], dtype: DType = D.F32) -> Node:
    return Node.of(Param(name, Type(dtype, shape), "input"))


def attention(
    q: tuple[int, ...],
    k: tuple[int, ...],
    v: tuple[int, ...] = (),
    mask: tuple[int, ...] | None = None,
    kind: DType = D.BOOL,
    dtype: DType = D.F32,
    **given: object,
) -> Node:
    more = () if mask is None else (param("mask", mask, kind),)
    return build.apply1(
        "attention",
        param("q", q, dtype),
        param("k", k, dtype),
        param("v", v or k, dtype),
        *more,
        **given,
    )


def model(y: Node) -> Model:
    inputs = tuple(n for n in Graph("a", (), {"y": y}).nodes() if isinstance(n.op, Param))
    return Model(Graph("a", inputs, {"y": y}), {})


def drawn(made: Model) -> dict[str, Array]:
    rng = np.random.default_rng(1)
    found: dict[str, Array] = {}
    for node in made.graph.inputs:
        assert isinstance(node.op, Param)
        shape = static(node.shape)
        values = (
            rng.random(shape) < 0.7 if node.type.dtype is D.BOOL else rng.standard_normal(shape)
        )
        found[node.op.name] = values.astype(node.type.dtype.numpy)
    return found


def run(made: Model, feeds: Mapping[str, Array], facts: Target, backend: str = "cpu") -> Array:
    lowered = lower(made, facts)
    assert [g.kind for g in lowered.partition.groups].count(Kind.ATTENTION) == 1, (
        "the schedule takes it whole"
    )
    y = made.graph.outputs["y"]
    found = {"y": np.empty(static(y.shape), y.type.dtype.numpy)}
    executable(lowered, find(backend)).run(dict(feeds), found)
    return found["y"]


def agree(y: Node, facts: Target | None = None, backend: str = "cpu") -> None:
    made = model(y)
    feeds = drawn(made)
    wanted = interpret(made.graph, feeds, {}, float64=True)["y"].astype(np.float64)
    found = run(made, feeds, facts or target(), backend).astype(np.float64)
    tolerance = TOLERANCE[y.type.dtype]
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


FOUR = (1, 2, 64, 32)


@pytest.mark.parametrize("cpu", ["haswell", "x86-64-v2"])
@pytest.mark.sampled(4)
def test_machines(cpu: str) -> None:
    """Tiles of 8 and 4 lanes; rows and keys that fill none of them."""
    needs_processor(cpu)
    agree(attention((2, 2, 83, 32), (2, 2, 131, 32)), target(cpu))
    agree(attention((1, 2, 67, 24), (1, 2, 67, 24), causal=True), target(cpu))


def test_the_interpreter_sees_no_access_out_of_bounds() -> None:
    facts = replace(target(), primitives=find("reference").target(Request()).primitives)
    agree(attention((1, 2, 37, 16), (1, 1, 70, 16), causal=True), facts, "reference")
    agree(
        attention((1, 1, 35, 8), (1, 1, 67, 8), mask=(35, 67)),
        replace(facts, vector_bytes=32),
        "reference",
    )


def test_widths() -> None:
    agree(attention((1, 2, 70, 80), (1, 2, 96, 80)))
    agree(attention((1, 2, 70, 40), (1, 2, 96, 40), (1, 2, 96, 24)))
    agree(attention((1, 1, 64, 5), (1, 1, 64, 5), (1, 1, 64, 144), scale=0.25))


@pytest.mark.parametrize("dtype", [D.F64, D.F16, D.BF16])
def test_types(dtype: DType) -> None:
    agree(attention((1, 2, 70, 32), (1, 2, 70, 32), dtype=dtype, causal=True))


def test_causal() -> None:
    """More keys than queries, fewer, and blocks that hold queries of two heads."""
    agree(attention((1, 2, 64, 32), (1, 2, 200, 32), causal=True))
    agree(attention((1, 2, 100, 16), (1, 2, 65, 16), causal=True))
    agree(attention((1, 6, 50, 16), (1, 2, 64, 16), causal=True))


def test_masks() -> None:
    agree(attention((2, 2, 40, 16), (2, 2, 70, 16), mask=(2, 1, 1, 70)))
    agree(attention((1, 4, 40, 16), (1, 2, 64, 16), mask=(4, 40, 64), kind=D.F32))
    agree(attention((1, 2, 40, 16), (1, 2, 70, 16), mask=(40, 1), causal=True))


def test_operands_that_are_views_and_what_follows() -> None:
    """Queries, keys and values are parts of one tensor; the result is added to another, its heads
    side by side.
    """
    both = param("qkv", (2, 70, 3, 48))
    q, k, v = (build.reshape(build.cut(both, 2, n, n + 1), (2, 70, 48)) for n in range(3))
    y = build.apply1("attention", q, k, v, heads=3, causal=True)
    agree(build.add(y, param("skip", (2, 70, 48))))
    turned = build.transpose(param("v", (1, 2, 32, 64)), (0, 1, 3, 2))
    agree(build.apply1("attention", param("q", FOUR), param("k", FOUR), turned))


def test_threads_take_blocks() -> None:
    agree(attention((1, 4, 200, 64), (1, 4, 200, 64), causal=True), target(threads=2))


def test_rows_that_may_look_nowhere_get_the_mean() -> None:
    made = model(attention(FOUR, FOUR, mask=(64, 64)))
    feeds = drawn(made)
    feeds["mask"][3] = False
    found = run(made, feeds, target())
    np.testing.assert_allclose(found[:, :, 3], feeds["v"].mean(axis=2), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", ["q", "k", "v", "mask"])
def test_infinities_and_nan(name: str, value: float) -> None:
    made = model(attention(FOUR, FOUR, mask=(64, 64), kind=D.F32))
    feeds = drawn(made)
    feeds[name][..., 5, 9:11] = value
    with np.errstate(all="ignore"):
        wanted = interpret(made.graph, feeds, {})["y"]
    found = run(made, feeds, target())
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


def test_a_row_hidden_by_infinities_is_nan() -> None:
    made = model(attention(FOUR, FOUR, mask=(64, 64), kind=D.F32))
    feeds = drawn(made)
    feeds["mask"][3] = -np.inf
    found = run(made, feeds, target())
    assert np.isnan(found[:, :, 3]).all() and not np.isnan(found[:, :, 4]).any()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.sampled(4)
def test_open_sizes(causal: bool) -> None:
    """One program for every number of queries and keys, those below a tile too."""
    symbol = Symbol("n", 1, 2048, 1024)  # whose scores no second-level cache holds
    n = Sym((((symbol,), 1),))
    shape = (1, 4, n, 64)
    q, k, v = (Node.of(Param(name, Type(D.F32, shape), "input")) for name in "qkv")
    y = build.apply1("attention", q, k, v, causal=causal)
    made = replace(model(y), dims={"n": symbol})
    program = compile_model(made, sizes="symbolic")
    assert any("attention" in kernel.name for kernel in program.program.kernels)
    rng = np.random.default_rng(1)
    for size in (1, 31, 64, 129, 300):
        feeds = {name: rng.standard_normal((1, 4, size, 64)).astype(np.float32) for name in "qkv"}
        wanted = interpret(
            model(attention((1, 4, size, 64), (1, 4, size, 64), causal=causal)).graph,
            feeds,
            {},
            float64=True,
        )["y"]
        np.testing.assert_allclose(program(**feeds), wanted, rtol=2e-6, atol=2e-6)


def test_few_queries_are_left_to_the_definition() -> None:
    for shape in ((8, 64, 1, 64), (64, 12, 16, 64)):
        lowered = lower(model(attention(shape, shape)), target())
        assert not any(g.kind is Kind.ATTENTION for g in lowered.partition.groups)


def test_memory_holds_no_scores() -> None:
    y = attention((1, 8, 512, 64), (1, 8, 512, 64))
    program = lower(model(y), find("cpu").target(Request())).program
    assert program.arena_bytes < 8 * 512 * 512 * 4 // 4
