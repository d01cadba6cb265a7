"""The cut: stages follow the order of the graph, and are as few as there can be."""

from __future__ import annotations

import random
from itertools import count, pairwise

import pytest

from xlac.ir.graph import Graph, Node, apply
from xlac.ops import build
from xlac.placement.cut import DeviceStage, cut
from xlac_sdk.dtypes import DType


def drawn_graph(generator: random.Random, nodes: int) -> Graph:
    """A random graph of additions, every node of which is needed."""
    made = [build.param("x", DType.F32, (4,))]
    computed: list[Node] = []
    for _ in range(nodes):
        pair = [generator.choice(made[-4:]) for _ in range(2)]
        computed.append(apply("add", *pair))
        made.append(computed[-1])
    read = {given for node in computed for given in node.inputs}
    ends = [node for node in computed if node not in read]
    return Graph("g", (made[0],), {f"y{n}": node for n, node in enumerate(ends)})


def fewest(graph: Graph, targets: dict[Node, str]) -> int:
    """The least number of stages, by trying every order of targets."""
    order = [node for node in graph.order if node in targets]
    best = {(frozenset[Node](), "")}
    for number in count():
        if any(len(done) == len(order) for done, _ in best):
            return number
        after = set()
        for done, last in best:
            for target in set(targets.values()) - {last}:
                now = set(done)
                for node in order:
                    if targets[node] == target and all(
                        given in now for given in node.inputs if given in targets
                    ):
                        now.add(node)
                after.add((frozenset(now), target))
        best = after
    raise AssertionError


def check(graph: Graph, stages: list[DeviceStage], targets: dict[Node, str]) -> None:
    """Asserts that stages have every node once, after its operands, on its target."""
    done: set[Node] = set()
    for stage in stages:
        for node in stage.nodes:
            assert targets[node] == stage.target
            assert all(given in done for given in node.inputs if given in targets)
            assert node not in done
            done.add(node)
    assert done == set(targets)
    assert all(a.target != b.target for a, b in pairwise(stages))


@pytest.mark.parametrize("seed", range(60))
def test_two_targets_have_the_fewest_stages(seed: int) -> None:
    generator = random.Random(seed)
    graph = drawn_graph(generator, generator.randint(1, 12))
    computed = [node for node in graph.order if node.inputs]
    targets = {node: generator.choice("ab") for node in computed}
    stages = cut(graph, targets)
    check(graph, stages, targets)
    assert len(stages) == fewest(graph, targets)


@pytest.mark.parametrize("seed", range(60))
def test_three_targets_follow_the_order_of_the_graph(seed: int) -> None:
    generator = random.Random(seed)
    graph = drawn_graph(generator, generator.randint(1, 20))
    targets = {node: generator.choice("abc") for node in graph.order if node.inputs}
    check(graph, cut(graph, targets), targets)


def test_what_is_large_is_made_where_it_is_read() -> None:
    """A broadcast of the first target that is read in its second stage alone is made there."""
    x = build.param("x", DType.F32, (4,))
    first = apply("exp", x)
    part = build.cut(first, 0, 0, 1)
    wide = apply("broadcast", build.reshape(part, ()), shape=(4,), axes=())
    far = apply("sin", first)
    y = apply("add", far, wide)
    graph = Graph("g", (x,), {"y": y})
    targets = {node: "a" for node in graph.order if node.inputs}
    targets[far] = "b"
    stages = cut(graph, targets)
    check(graph, stages, targets)
    assert [stage.target for stage in stages] == ["a", "b", "a"]
    assert wide in stages[2].nodes and part in stages[0].nodes
