"""Attention in one kernel, or one and what combines its blocks: masks, grouped heads, caches,
widths and types.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gpu_harness import SMALL, InterpretedGpu
from sampling import Some

from xlac.codegen.gpu.core.instructions import COMMIT, COPY, MMA, WAIT
from xlac.codegen.gpu.reduction.arrival_counter import FENCE, TICKET
from xlac.debug.conformance import check
from xlac.driver import executable, lower
from xlac.fusion.group import Kind
from xlac.ir.dims import static
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import OPS, build
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

D = DType
WIDE = replace(SMALL, processors=40)
"""More multiprocessors than heads: blocks share the keys of one."""

CORES = replace(
    SMALL, block_threads=128, instructions=frozenset({*MMA.values(), COPY, COMMIT, WAIT})
)


WARP = replace(CORES, block_threads=32)
"""Blocks of one warp: the interpreter runs every thread."""


def param(name: str, shape: tuple[int, ...], dtype: DType = D.F32) -> Node:
    return Node.of(Param(name, Type(dtype, shape), "input"))


def agree(
    y: Node,
    target: Target,
    kernels: int | None = None,
    tolerance: float = 1e-5,
    precision: str = "default",
) -> None:
    """The program computes what the graph means; `kernels` is how many it has."""
    inputs = tuple(n for n in Graph("a", (), {"y": y}).nodes() if isinstance(n.op, Param))
    graph = Graph("a", inputs, {"y": y})
    backend = InterpretedGpu(target)
    lowered = lower(Model(graph, {}, precision=precision), target)
    assert any(g.kind is Kind.ATTENTION for g in lowered.partition.groups)
    if kernels is not None:
        assert len(lowered.program.kernels) == kernels
    rng = np.random.default_rng(1)
    feeds = {}
    for node in inputs:
        assert isinstance(node.op, Param)
        drawn = (
            rng.random(static(node.shape)) < 0.7
            if node.type.dtype is D.BOOL
            else rng.standard_normal(static(node.shape))
        )
        feeds[node.op.name] = drawn.astype(node.type.dtype.numpy)
    wanted = interpret(graph, feeds, {})["y"].astype(np.float64)
    found = {"y": np.empty(static(y.shape), y.type.dtype.numpy)}
    executable(lowered, backend).run(feeds, found)
    np.testing.assert_allclose(
        found["y"].astype(np.float64), wanted, rtol=tolerance, atol=tolerance
    )


def attention(
    q: tuple[int, ...],
    k: tuple[int, ...],
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
        param("v", k, dtype),
        *more,
        **given,
    )


@pytest.mark.parametrize("mnemonic", ["attention_with_past", "attention_with_cache"])
@pytest.mark.sampled(4)
def test_samples(mnemonic: str) -> None:
    """Those of `attention` run on the stand-in (tests/cuda) and, with --all, here."""
    outcomes = check(OPS[mnemonic], InterpretedGpu(WIDE))
    assert not [f"{o.case}: {o.detail}" for o in outcomes if o.status != "passed"]


def test_blocks_share_the_keys_of_a_head() -> None:
    agree(attention((1, 2, 1, 16), (1, 2, 200, 16)), WIDE, kernels=2)
    agree(attention((1, 2, 1, 16), (1, 2, 200, 16)), replace(WIDE, processors=1), kernels=1)


def test_the_last_block_of_a_head_combines_what_all_have_found() -> None:
    tickets = replace(WIDE, instructions=frozenset({FENCE, TICKET}))
    agree(attention((1, 2, 1, 16), (1, 2, 200, 16)), tickets, kernels=1)
    agree(attention((1, 2, 2, 12), (1, 1, 130, 12), causal=True), tickets, kernels=1)


def test_grouped_heads_and_masks() -> None:
    agree(attention((1, 4, 2, 16), (1, 2, 130, 16), causal=True), WIDE, kernels=2)
    agree(attention((2, 4, 1, 8), (2, 2, 131, 8), (2, 1, 1, 131)), WIDE)
    agree(attention((1, 2, 3, 8), (1, 1, 130, 8), (2, 3, 130), D.F32), WIDE)
    agree(attention((1, 2, 3, 8), (1, 2, 5, 8), (5,)), SMALL)


def test_widths_that_threads_do_not_divide() -> None:
    for width in (5, 24, 96):
        agree(attention((1, 1, 1, width), (1, 1, 30, width)), SMALL)


def test_what_follows_is_stored_by_the_same_kernel() -> None:
    y = attention((2, 3, 2, 8), (2, 3, 20, 8))
    joined = build.reshape(build.transpose(y, (0, 2, 1, 3)), (2, 2, 24))
    agree(build.add(joined, param("skip", (2, 2, 24))), SMALL, kernels=1)


def test_a_cache_is_read_where_it_lies() -> None:
    given = [
        param(n, s)
        for n, s in (
            ("q", (1, 4, 1, 8)),
            ("k", (1, 2, 1, 8)),
            ("v", (1, 2, 1, 8)),
            ("a", (1, 2, 150, 8)),
            ("b", (1, 2, 150, 8)),
        )
    ]
    position = build.constant(77, D.I32)
    y, *_ = build.apply("attention_with_cache", *given, position)
    agree(y, WIDE)


@pytest.mark.parametrize("dtype", [D.BF16, D.F16])
def test_halves(dtype: DType) -> None:
    agree(
        attention((1, 4, 1, 64), (1, 2, 130, 64), dtype=dtype, causal=True),
        WIDE,
        kernels=2,
        tolerance=2e-2 if dtype is D.BF16 else 2e-3,
    )


# ---- many queries, on tensor cores ---------------------------------------------------------------


@pytest.mark.long
def test_many_queries(some: Some) -> None:
    agree(attention((1, 1, 20, 16), (1, 1, 40, 16), dtype=D.BF16), CORES, kernels=1, tolerance=2e-2)
    for q, k, given in some(
        (
            ((1, 1, 18, 16), (1, 1, 66, 16), {"causal": True}),
            ((1, 2, 12, 8), (1, 1, 40, 8), {"causal": True, "scale": 0.5}),
            ((1, 1, 17, 20), (1, 1, 21, 20), {}),
            ((1, 1, 20, 16), (1, 1, 9, 16), {"causal": True}),
        ),
        2,
    ):
        agree(attention(q, k, dtype=D.BF16, **given), WARP, kernels=1, tolerance=2e-2)


@pytest.mark.long
def test_masks_of_many_queries() -> None:
    agree(
        attention((2, 1, 17, 16), (2, 1, 24, 16), (2, 1, 1, 24), dtype=D.F16),
        WARP,
        kernels=1,
        tolerance=3e-3,
    )
    agree(
        attention((1, 1, 18, 16), (1, 1, 70, 16), (18, 70), D.F16, D.F16),
        CORES,
        kernels=1,
        tolerance=3e-3,
    )


def test_heads_side_by_side_and_what_follows() -> None:
    q, k, v = (param(n, (1, 20, 48), D.BF16) for n in "qkv")
    y = build.apply1("attention", q, k, v, heads=3, causal=True)
    agree(build.add(y, param("skip", (1, 20, 48), D.BF16)), CORES, kernels=1, tolerance=2e-2)


# ---- many queries in f32, and wide ones ----------------------------------------------------------


def test_f32_is_multiplied_by_threads() -> None:
    agree(attention((1, 1, 20, 16), (1, 1, 34, 16)), CORES, kernels=1)
    agree(attention((1, 2, 17, 20), (1, 1, 21, 20), causal=True), WARP, kernels=1)
    agree(attention((1, 1, 17, 8), (1, 1, 24, 8), (17, 24)), WARP, kernels=1)


def test_f32_by_tensor_cores_where_precision_is_fast() -> None:
    agree(
        attention((1, 1, 18, 16), (1, 1, 40, 16)), WARP, kernels=1, tolerance=5e-3, precision="fast"
    )


@pytest.mark.long
def test_halves_wider_than_128() -> None:
    agree(
        attention((1, 1, 17, 136), (1, 1, 20, 136), dtype=D.BF16),
        replace(WARP, shared_bytes=227 << 10),
        kernels=1,
        tolerance=2e-2,
    )


def test_what_does_not_fit_is_expanded() -> None:
    for y in (
        attention((1, 1, 20, 200), (1, 1, 20, 200)),
        attention((1, 1, 20, 64), (1, 1, 20, 64), dtype=D.F64),
    ):
        inputs = tuple(n for n in Graph("a", (), {"y": y}).nodes() if isinstance(n.op, Param))
        lowered = lower(Model(Graph("a", inputs, {"y": y}), {}), CORES)
        assert not any(g.kind is Kind.ATTENTION for g in lowered.partition.groups)
