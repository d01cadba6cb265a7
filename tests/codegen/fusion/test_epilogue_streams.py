"""What a contraction computes beside its result: nothing that reads several tensors as large on a
CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from loops_harness import MASKED, graph_of, param

import xlac
from xlac.codegen.claims import kind_taken
from xlac.fusion.group import Group, Kind
from xlac.fusion.partition import partition
from xlac.ir.graph import Node
from xlac.model import Model
from xlac.ops import build
from xlac_sdk.target import Target

SIDE = 192
CPU = MASKED.with_facts(l2_bytes=SIDE * SIDE * 4)  # a result is larger than half of it


def product(side: int = SIDE) -> Node:
    return build.apply(
        "dot", param("a", (side, 32)), param("b", (32, side)), contract_lhs=(1,), contract_rhs=(0,)
    )


@cache
def beside(name: str, side: int) -> Node:
    return param(name, (side, side))


def momentum(g: Node) -> list[Node]:
    v = build.add(build.mul(beside("v", g.shape[0]), 0.9), g)
    return [v, build.sub(beside("w", g.shape[0]), build.mul(v, 0.1))]


def adam(g: Node) -> list[Node]:
    w, m, v = (beside(name, g.shape[0]) for name in "wmv")
    m = build.add(m, build.mul(0.1, build.sub(g, m)))
    v = build.add(build.mul(v, 0.9), build.mul(0.1, build.mul(g, g)))
    return [m, v, build.sub(w, build.div(m, build.add(build.sqrt(v), 1e-8)))]


def decayed(g: Node) -> list[Node]:
    return momentum(build.add(build.mul(g, 0.5), build.mul(beside("w", g.shape[0]), 0.01)))


def around(outputs: list[Node], target: Target = CPU) -> Group:
    """The group of the product."""
    groups = partition(graph_of(*outputs), target, kind_taken=kind_taken).groups
    (found,) = (g for g in groups if g.kind is Kind.DOT)
    return found


@pytest.mark.parametrize("update", [momentum, adam, decayed])
def test_an_update_comes_after_its_gradient(update: Callable[[Node], list[Node]]) -> None:
    g = product()
    found = around(update(g))
    assert {n.name for n in found.inputs if n.shape == g.shape} == set()
    (left,) = found.outputs
    assert left is g or (update is decayed and left.op.mnemonic == "mul")


def test_what_reads_one_tensor_stays() -> None:
    whole = build.maximum(build.add(build.mul(product(), 2.0), beside("r", SIDE)), 0.0)
    assert around([whole]).outputs == (whole,)
    # the same tensor twice is one
    twice = build.add(build.mul(product(), beside("r", SIDE)), beside("r", SIDE))
    assert around([twice]).outputs == (twice,)


def test_what_vectors_would_gather_is_transposed_before() -> None:
    """An epilogue reads no operand across its columns; a transposed result may."""
    across = build.add(product(), build.transpose(beside("r", SIDE)))
    assert [n.op.mnemonic for n in around([across]).inputs] == ["param", "param", "transpose"]
    rows = build.add(build.transpose(product()), build.transpose(beside("r", SIDE)))
    assert {n.op.mnemonic for n in around([rows]).inputs} == {"param"}
    assert {
        n.op.mnemonic
        for n in around([across], replace(CPU, device="gpu", warp=32, processors=100)).inputs
    } == {"param"}


def test_small_results_and_gpus_keep_their_epilogues() -> None:
    small = momentum(product(16))
    assert set(around(small).outputs) == set(small)
    large = momentum(product())
    assert set(around(large, replace(CPU, device="gpu", warp=32, processors=100)).outputs) == set(
        large
    )


@pytest.mark.parametrize("update", [momentum, adam, decayed])
def test_results_are_the_same(update: Callable[[Node], list[Node]]) -> None:
    graph = graph_of(*update(product(640)))
    model = Model(graph, {})
    rng = np.random.default_rng(0)
    given = [np.abs(rng.standard_normal(n.shape)).astype(np.float32) for n in graph.inputs]
    ours = xlac.compile(model)(*given)
    wanted = xlac.compile(model, target="reference")(*given)
    for name, array in wanted.items():
        np.testing.assert_allclose(ours[name], array, 1e-5, 1e-5)
