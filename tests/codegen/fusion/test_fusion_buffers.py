"""Fusion within the buffers of a launch: kernels have at most so many, and compute the same."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from graphs import make
from loops_harness import MASKED, check_graph, graph_of, param

from xlac.codegen.claims import kind_taken
from xlac.driver import executable, lower
from xlac.fusion.group import WITHOUT_KERNELS, Group, is_immediate
from xlac.fusion.partition import partition
from xlac.ir.graph import Graph, Node
from xlac.model import Model
from xlac.ops import build
from xlac.ops.tensor.view import Broadcast
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request, Target

GPU = Target("any", warp=32, block_threads=256, shared_bytes=1 << 15)


def groups(graph: Graph, target: Target) -> list[Group]:
    found = partition(graph, target, kind_taken=kind_taken).groups
    return [group for group in found if group.kind not in WITHOUT_KERNELS]


def buffers(group: Group) -> int:
    return sum(not is_immediate(n) for n in group.inputs) + len(group.outputs)


def long_sum(count: int, axis: int | None = None) -> Node:
    """A sum of so many parameters; reduced, and read again, with an axis."""
    total = param("p0", (6, 40))
    for n in range(1, count):
        total = build.add(total, build.exp(param(f"p{n}", (6, 40))))
    if axis is None:
        return total
    rows = Node.of(Broadcast((6, 40), (1 - axis,)), build.reduce(total, "add", axis))
    return build.mul(build.sub(total, rows), param("scale", (6, 40)))


@pytest.mark.parametrize("most", [3, 4, 8])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("target", [MASKED, GPU], ids=["cpu", "gpu"])
def test_long_expressions_are_cut(target: Target, axis: int | None, most: int) -> None:
    graph = graph_of(long_sum(15, axis))
    whole = groups(graph, target)
    cut = groups(graph, replace(target, most_buffers=most))
    assert max(map(buffers, whole)) > most >= max(map(buffers, cut))
    assert len(cut) < sum(len(group.nodes) for group in whole), "more than fusion's absence"
    assert any(
        "more buffers than a launch takes" in why for g in cut for why in g.barriers.values()
    )
    if target is MASKED:
        check_graph(graph, [replace(target, most_buffers=most)])


def test_results_side_by_side_are_cut() -> None:
    x = param("x", (6, 40))
    graph = graph_of(*(build.add(build.exp(x), float(n)) for n in range(7)))
    found = groups(graph, replace(MASKED, most_buffers=4))
    assert max(map(buffers, found)) <= 4 and len(found) <= 4
    check_graph(graph, [replace(MASKED, most_buffers=4)])


def test_groups_that_fit_are_as_they_were() -> None:
    graph = graph_of(long_sum(5, 1))
    one, two = (groups(graph, t) for t in (MASKED, replace(MASKED, most_buffers=30)))
    assert [g.nodes for g in one] == [g.nodes for g in two]


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.sampled(40)
def test_random_graphs(seed: int) -> None:
    """On a target with so few buffers that much is cut, results are those without a limit."""
    case = make(Random(seed), 14)
    backend = find("c")
    plain = backend.target(Request())
    results = []
    for target in (plain, replace(plain, most_buffers=4)):
        lowered = lower(Model(case.graph, dict(case.weights)), target)
        compiled = executable(lowered, backend)
        found = compiled(**case.inputs)
        results.append(found if isinstance(found, dict) else {"": found})
    for name, want in results[0].items():
        a, b = (np.asarray(r).astype(np.float64) for r in (results[1][name], want))
        np.testing.assert_allclose(a, b, rtol=2e-2, atol=2e-2, err_msg=name)
