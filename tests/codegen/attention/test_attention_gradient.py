"""The derivative of attention in tiles beside what the operations mean: the attention that keeps
sums, and the cotangents of queries, keys and values that are found from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.api import compile as compile_model
from xlac.autodiff.gradient import linearize
from xlac.driver import executable, lower
from xlac.fusion.group import Kind
from xlac.ir.dims import Sym, Symbol
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
Shape = tuple[Any, ...]
TOLERANCE = {D.F64: 1e-12, D.F32: 4e-6, D.F16: 4e-3, D.BF16: 3.2e-2}
FOUR = (1, 2, 70, 16)


@cache
def target(cpu: str = "", threads: int = 1) -> Target:
    """Caches so small that little attentions are taken whole."""
    found = find("cpu").target(Request(cpu=cpu, threads=threads))
    return found.with_facts(l1_bytes=8 << 10, l2_bytes=32 << 10)


def param(name: str, shape: Shape, dtype: DType = D.F32) -> Node:
    return Node.of(Param(name, Type(dtype, shape), "input"))


def gradients(
    q: Shape,
    k: Shape,
    v: Shape = (),
    mask: Shape | None = None,
    kind: DType = D.BOOL,
    dtype: DType = D.F32,
    **given: object,
) -> Model:
    """What queries find, and the cotangents of all operands of floats by one of that."""
    operands = [param("q", q, dtype), param("k", k, dtype), param("v", v or k, dtype)]
    if mask is not None:
        operands.append(param("mask", mask, kind))
    y = build.apply1("attention", *operands, **given)
    ct = param("ct", y.shape, dtype)
    found = linearize([y], operands[:3])
    outputs = dict(zip("qkv", found.transposed([ct]), strict=True)) | {"y": found.values[0]}
    return Model(Graph("a", (*operands, ct), outputs), {})


def drawn(made: Model) -> dict[str, Array]:
    rng = np.random.default_rng(1)
    found: dict[str, Array] = {}
    for node in made.graph.inputs:
        assert isinstance(node.op, Param)
        values = rng.standard_normal(node.shape)
        picked = values < 0.5 if node.type.dtype is D.BOOL else values
        found[node.op.name] = picked.astype(node.type.dtype.numpy)
    return found


def run(
    made: Model, feeds: Mapping[str, Array], facts: Target, backend: str = "cpu"
) -> dict[str, Array]:
    lowered = lower(made, facts)
    kinds = [group.kind for group in lowered.partition.groups]
    assert kinds.count(Kind.ATTENTION) == 2, "both are taken whole"
    assert Kind.DOT not in kinds
    found = {n: np.empty(y.shape, y.type.dtype.numpy) for n, y in made.graph.outputs.items()}
    executable(lowered, find(backend)).run(dict(feeds), found)
    return found


def agree(made: Model, facts: Target | None = None, backend: str = "cpu") -> None:
    feeds = drawn(made)
    wanted = interpret(made.graph, feeds, {}, float64=True)
    tolerance = TOLERANCE[made.graph.outputs["y"].type.dtype]
    for name, found in run(made, feeds, facts or target(), backend).items():
        close = wanted[name].astype(np.float64)
        bound = tolerance * max(1.0, float(np.abs(close).max()))
        np.testing.assert_allclose(
            found.astype(np.float64), close, rtol=tolerance, atol=bound, err_msg=name
        )


CASES: dict[str, dict[str, Any]] = {
    "blocks_that_are_not_whole": {"q": (2, 2, 83, 32), "k": (2, 2, 131, 32)},
    "keys_hidden_from_blocks": {"q": (1, 2, 150, 16), "k": (1, 2, 211, 16), "causal": True},
    "more_queries_than_keys": {"q": (1, 2, 100, 16), "k": (1, 2, 65, 16), "causal": True},
    "heads_that_share_keys": {"q": (1, 6, 50, 16), "k": (1, 2, 64, 16), "causal": True},
    "heads_side_by_side": {"q": (2, 70, 96), "k": (2, 64, 32), "heads": 6, "kv_heads": 2},
    "widths": {"q": (1, 2, 70, 40), "k": (1, 2, 96, 40), "v": (1, 2, 96, 24), "scale": 0.2},
    "a_mask_of_bool": {"q": FOUR, "k": FOUR, "mask": (2, 70, 70)},
    "a_mask_of_keys": {"q": FOUR, "k": (1, 2, 67, 16), "mask": (67,), "causal": True, "scale": 0.1},
    "a_mask_that_is_added": {"q": FOUR, "k": FOUR, "mask": (1, 2, 70, 70), "kind": D.F32},
    "a_score_of_what_is_hidden": {"q": FOUR, "k": FOUR, "causal": True, "hidden": -1.5},
    "f64": {"q": FOUR, "k": FOUR, "dtype": D.F64, "causal": True},
    "f16": {"q": FOUR, "k": FOUR, "dtype": D.F16, "causal": True},
    "bf16": {"q": (1, 70, 32), "k": (1, 70, 32), "dtype": D.BF16, "heads": 2},
}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", list(CASES))
def test_beside_the_definition(case: str) -> None:
    agree(gradients(**CASES[case]))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("cpu", ["haswell", "x86-64-v2"])
def test_machines(cpu: str) -> None:
    agree(gradients((1, 2, 83, 24), (1, 2, 131, 24), causal=True), target(cpu))


def test_the_interpreter_sees_no_access_out_of_bounds() -> None:
    facts = replace(target(), primitives=find("reference").target(Request()).primitives)
    facts = replace(facts, vector_bytes=16)
    agree(gradients((1, 2, 35, 8), (1, 1, 37, 8), mask=(37,), causal=True), facts, "reference")


def test_a_query_that_may_look_nowhere_has_no_cotangent() -> None:
    """It finds the mean of all values, whatever it and the keys are."""
    made = gradients(FOUR, FOUR, mask=(70, 70))
    feeds = drawn(made)
    feeds["mask"][3] = False
    found = run(made, feeds, target())
    wanted = interpret(made.graph, feeds, {}, float64=True)
    assert not found["q"][:, :, 3].any()
    np.testing.assert_allclose(found["v"], wanted["v"], rtol=1e-5, atol=1e-5)


def test_threads_give_the_same_bits() -> None:
    made = gradients((2, 4, 80, 16), (2, 4, 80, 16), causal=True)
    feeds = drawn(made)
    alone, shared = (run(made, feeds, target(threads=n)) for n in (1, 2))
    for name, found in alone.items():
        assert (found == shared[name]).all()


def test_results_that_nobody_wants_are_not_computed() -> None:
    made = gradients((1, 2, 64, 16), (1, 2, 64, 16))
    graph = replace(made.graph, outputs={"k": made.graph.outputs["k"]})
    lowered = lower(replace(made, graph=graph), target())
    (kernel,) = [
        k
        for k in lowered.program.kernels
        if k.name.startswith("attention_gradient") and not k.name.endswith(("keys", "values"))
    ]
    assert (
        len(kernel.parameters) == 8
    )  # q, y, top, total, ct, panels of keys and values, and its own


def test_open_sizes() -> None:
    """One program for every number of queries and keys, those below a tile too."""
    symbol = Symbol("n", 1, 2048, 1024)  # whose scores no second-level cache holds
    n = Sym((((symbol,), 1),))
    made = replace(gradients((1, 4, n, 32), (1, 4, n, 32), causal=True), dims={"n": symbol})
    program = compile_model(made, sizes="symbolic")
    assert any("attention_gradient" in kernel.name for kernel in program.program.kernels)
    for size in (1, 63, 130):
        shape = (1, 4, size, 32)
        one = gradients(shape, shape, causal=True)
        feeds = drawn(one)
        wanted = interpret(one.graph, feeds, {}, float64=True)
        for name, found in program(**feeds).items():
            np.testing.assert_allclose(found, wanted[name], rtol=1e-5, atol=1e-5)


def test_no_scores_are_kept() -> None:
    """Of two layers of attention there is less memory than one array of scores takes."""
    made = gradients((1, 8, 512, 32), (1, 8, 512, 32), causal=True)
    program = lower(made, find("cpu").target(Request())).program
    assert program.arena_bytes < 8 * 512 * 512 * 4 // 2


def test_what_is_differentiated_twice() -> None:
    """The derivative of a gradient goes through what the kernel means."""

    def loss(q: Any) -> Any:
        return xlac.sum(xlac.sin(xlac.attention(q, q, q)))

    q = np.random.default_rng(3).standard_normal((1, 1, 3, 2))
    t = np.random.default_rng(4).standard_normal(q.shape)
    slope = xlac.grad(loss)
    _, found = xlac.jvp(slope, (q,), (t,))
    wanted = (slope(q + 1e-6 * t) - slope(q - 1e-6 * t)) / 2e-6
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-8)
