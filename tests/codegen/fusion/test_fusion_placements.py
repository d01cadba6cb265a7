"""Where values are computed, as data: every choice gives a right program, and the compiler's own
choices, given back, the same one.
"""

from __future__ import annotations

import random

import pytest
from loops_harness import MASKED, PLAIN, check_graph, graph_of, param
from test_fusion_random import random_graph

from xlac.codegen.claims import kind_taken
from xlac.codegen.schedules.digest import structure
from xlac.fusion.group import Partition, Placement
from xlac.fusion.partition import partition
from xlac.fusion.placement import Placements, choices, named_choices, names
from xlac.ir.graph import Graph, Node
from xlac.ops import build


def cut(graph: Graph, asked: dict[str, Placement] | None = None) -> Partition:
    return partition(graph, MASKED, kind_taken=kind_taken, placements=Placements(asked or {}))


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.sampled(8)
def test_values_of_random_graphs_may_be_computed_anywhere(seed: int) -> None:
    graph, draw = random_graph(seed), random.Random(seed)
    asked = Placements(
        {name: draw.choice([*Placement]) for name in names(graph).values() if draw.random() < 0.6}
    )
    check_graph(graph, (MASKED, PLAIN), rtol=2e-4, seed=seed, placements=asked)


@pytest.mark.parametrize("seed", range(40, 100))
@pytest.mark.sampled(24)
def test_choices_given_back_give_the_same_groups(seed: int) -> None:
    graph = random_graph(seed)
    own = cut(graph)
    asked = {name: placement for name, (_, placement) in named_choices(own).items()}
    again = cut(graph, asked)
    assert list(map(structure, again.groups)) == list(map(structure, own.groups))
    assert not any(Placements(asked).kept(again).values())


@pytest.mark.parametrize("seed", range(100, 160))
@pytest.mark.sampled(24)
def test_any_value_that_is_not_kept_can_be(seed: int) -> None:
    """Alone: of two neighbours, one is then read by no kernel that could have computed it."""
    graph = random_graph(seed)
    for node, placement in choices(cut(graph)):
        asked = {names(graph)[node]: Placement.APART}
        apart = cut(graph, asked)
        assert placement is not Placement.APART
        assert set(Placements(asked).kept(apart).values()) == {""}
        assert any(node in group.outputs for group in apart.groups)
        readers = [g for g in apart.groups if node in g.inputs]
        assert all(node not in g.members for g in readers)


def shared() -> tuple[Node, Graph]:
    """A value that two kernels read: a sum over rows and one over columns."""
    x = param("x", (64, 96))
    value = build.mul(build.exp(x), 2.0)
    return value, graph_of(build.reduce(value, "add", 0), build.reduce(value, "add", 1))


@pytest.mark.parametrize("placement", Placement)
def test_what_is_asked_for_is_done(placement: Placement) -> None:
    value, graph = shared()
    asked = {names(graph)[value]: placement}
    groups = cut(graph, asked).groups
    computing = [group for group in groups if value in group.members]
    writing = [group for group in groups if value in group.outputs]
    match placement:
        case Placement.INLINE:
            assert len(groups) == len(computing) == 2 and not writing
        case Placement.STORED:
            assert len(groups) == 2 and computing == writing == [groups[0]]
        case Placement.APART:
            assert len(groups) == 3 and computing == writing == [groups[0]]
            assert all(value in group.inputs for group in groups[1:])
    assert Placements(asked).kept(cut(graph, asked)) == {names(graph)[value]: ""}


def test_names_are_of_what_surrounds_a_value() -> None:
    """Equal layers have equal names, other sizes and other readers have others."""
    value, graph = shared()
    again, same = shared()
    assert names(graph)[value] == names(same)[again]
    other = graph_of(build.reduce(value, "add", 0), build.reduce(value, "max", 1))
    assert names(other)[value] != names(graph)[value]
