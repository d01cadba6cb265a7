"""The whole pipeline keeps the meaning of graphs, reaches an end, and takes time linear in their
nodes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from graph_seams import seams
from graphs import Case, cases, make, tolerance
from hypothesis import HealthCheck, given, settings
from pass_graphs import graph, x
from shipped import MODELS

from xlac.codegen.claims import is_kept
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ops import build
from xlac.ops.reduction.window import Window
from xlac.passes.pipeline import DEFAULT, optimize
from xlac.passes.rewrite.pattern import Equation
from xlac.passes.rewrite.rule import Structural
from xlac.passes.rewrite.trace import Trace
from xlac.passes.weights import Weights
from xlac_sdk.dtypes import DType
from xlac_sdk.source import SourceError
from xlac_sdk.target import Target

TARGET = Target("generic")
SPECS = Path(__file__).parents[2] / "specs"


def agrees(case: Case, precision: str = "default") -> Graph:
    """The optimised graph, after checking that it computes what the graph did."""
    weights, trace = Weights(case.weights), Trace()
    graph = optimize(
        case.graph,
        TARGET,
        weights=weights,
        precision=precision,
        trace=trace,
        verify_each=True,
        is_kept=is_kept,
    )
    assert not trace.gave_up, "rules undo each other"
    halves = any(t.dtype.is_half for node in case.graph.nodes() for t in node.results)
    for wide in (True, False):
        with np.errstate(all="ignore"):
            before = interpret(case.graph, case.inputs, case.weights, float64=wide)
            after = interpret(graph, case.inputs, weights, float64=wide)
        for name, array in before.items():
            assert after[name].dtype == array.dtype and after[name].shape == array.shape
            limit = tolerance(DType.BF16) if halves else tolerance(DType.F32)
            a, b = array.astype(np.float64), after[name].astype(np.float64)
            scale = 1 + float(np.abs(a).max(initial=0))
            assert np.allclose(a, b, rtol=limit, atol=limit * scale), (
                f"{name} in {'float64' if wide else 'its own type'}"
            )
    again = optimize(
        graph, TARGET, weights=weights, precision=precision, verify_each=True, is_kept=is_kept
    )
    assert again is graph, "the pipeline finds more to do in what it made"
    return graph


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_random_graphs_keep_their_meaning(case: Case) -> None:
    agrees(case)


@pytest.mark.parametrize("seed", range(60))
def test_larger_graphs_keep_their_meaning(seed: int) -> None:
    agrees(make(Random(seed), 40))


@pytest.mark.parametrize("seed", range(40))
def test_fast_precision_stays_near(seed: int) -> None:
    case = make(Random(1000 + seed), 12)
    weights = Weights(case.weights)
    graph = optimize(
        case.graph, TARGET, weights=weights, precision="fast", verify_each=True, is_kept=is_kept
    )
    with np.errstate(all="ignore"):
        before = interpret(case.graph, case.inputs, case.weights, float64=True)
        after = interpret(graph, case.inputs, weights, float64=True)
    halves = any(t.dtype.is_half for node in case.graph.nodes() for t in node.results)
    for name, array in before.items():
        limit = 0.2 if halves else 1e-4
        scale = 1 + float(np.abs(array.astype(np.float64)).max(initial=0))
        assert np.allclose(
            array.astype(np.float64), after[name].astype(np.float64), rtol=limit, atol=limit * scale
        )


def settles(case: Case, precision: str) -> None:
    """Asserts that the pipeline finds nothing to do in what it made."""
    weights, changed = Weights(case.weights), []
    graph = optimize(case.graph, TARGET, weights=weights, precision=precision, is_kept=is_kept)

    def observe(name: str, before: Graph, after: Graph, seconds: float) -> None:
        if after is not before:
            changed.append(name)

    optimize(
        graph, TARGET, weights=weights, precision=precision, is_kept=is_kept, observers=[observe]
    )
    assert not changed, f"{changed} find more to do in what the pipeline made"


@pytest.mark.parametrize("precision", ["default", "fast"])
@pytest.mark.parametrize("seed", (30, 106, 331, 506, 1043, 1125))
def test_a_second_pipeline_finds_nothing_to_do(seed: int, precision: str) -> None:
    """Of these, each left something to fold or to move for a second pipeline: what simplifying
    makes constant, or takes readers from.
    """
    steps = 12 if seed < 1000 else 40
    for more in ((), (seams,) * 3):
        settles(make(Random(seed), steps, more), precision)


@pytest.mark.sampled(80)
@pytest.mark.parametrize("first", range(0, 2400, 20))
def test_random_pipelines_find_nothing_to_do_again(first: int) -> None:
    for seed in range(first, first + 20):
        case = make(Random(seed), 12, (seams,) * (seed % 2 * 3))
        settles(case, "fast" if seed % 4 < 2 else "default")


@pytest.mark.parametrize("spec", MODELS, ids=lambda p: p.stem)
@pytest.mark.sampled(2)
def test_shipped_specs_settle(spec: Path) -> None:
    from xlac.driver import specialized
    from xlac.frontends.loader import load

    model, trace = specialized(load(spec)), Trace()
    weights = Weights(model.weights)
    graph = optimize(
        model.graph,
        TARGET,
        weights=weights,
        precision=model.precision,
        trace=trace,
        verify_each=True,
        is_kept=is_kept,
    )
    assert not trace.gave_up
    assert (
        optimize(graph, TARGET, weights=weights, precision=model.precision, is_kept=is_kept)
        is graph
    )


def chain(length: int) -> Graph:
    """A long graph with something for most passes to do."""
    x = build.param("x", DType.F32, (6, 4))
    weight = build.param("w", DType.F32, (4, 4), "weight")
    y = x
    for step in range(length):
        match step % 5:
            case 0:
                y = build.add(build.mul(y, 1.0), build.exp(build.sub(x, 0.0)))
            case 1:
                y = build.transpose(build.maximum(build.transpose(y), 0.25))
            case 2:
                y = build.dot(y, weight, ((1,), (0,)))
            case 3:
                y = build.reshape(build.mul(build.reshape(y, (24,)), 0.5), (6, 4))
            case _:
                y = build.sub(y, build.back(build.reduce(y, "max", 1), y.shape, (1,)))
    return Graph("chain", (x,), {"y": y})


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Counts how often a rule is tried on a node."""
    count = [0]
    for kind in (Equation, Structural):
        original = kind.rewrite

        def counted(self: Any, node: Node, site: Any, original: Any = original) -> Node | None:
            count[0] += 1
            return original(self, node, site)  # type: ignore[no-any-return]

        monkeypatch.setattr(kind, "rewrite", counted)
    yield count


def test_work_grows_linearly(tried: list[int]) -> None:
    found = []
    for length in (500, 2000):
        tried[0] = 0
        optimize(
            chain(length), TARGET, weights={"w": np.zeros((4, 4), np.float32)}, is_kept=is_kept
        )
        found.append(tried[0])
    assert found[1] < 4.4 * found[0], found


def test_doubling_does_not_multiply() -> None:
    x = build.param("x", DType.F32, (2,))
    y = x
    for _ in range(24):
        y = build.concat([y, y], 0)
    graph = optimize(Graph("doubled", (x,), {"y": y}), TARGET, weights={}, is_kept=is_kept)
    assert sum(len(node.inputs) for node in graph.nodes()) <= 2 * 24


@pytest.mark.long
def test_twenty_thousand_nodes() -> None:
    graph = chain(4600)
    assert len(list(graph.nodes())) > 20_000
    assert (
        optimize(graph, TARGET, weights={"w": np.zeros((4, 4), np.float32)}, is_kept=is_kept)
        is not graph
    )


def test_observers_are_told_of_every_pass() -> None:
    seen = []
    graph = chain(10)
    optimize(
        graph,
        TARGET,
        weights={},
        observers=[lambda name, before, after, seconds: seen.append((name, before, after))],
        is_kept=is_kept,
    )
    assert [name for name, *_ in seen] == [stage.name for stage in DEFAULT.stages]
    assert seen[0][1] is graph
    assert all(a[2] is b[1] for a, b in itertools.pairwise(seen))


def test_a_part_of_the_pipeline() -> None:
    part = DEFAULT.between("inline", "cse")
    assert [stage.name for stage in part.stages] == ["inline", "simplify-2", "cse"]
    with pytest.raises(SourceError, match="there is no pass 'fuse'"):
        DEFAULT.between(None, "fuse")


def test_half_the_passes_then_the_other_half() -> None:
    weights = Weights({"w": np.zeros((4, 4), np.float32)})
    whole = optimize(chain(20), TARGET, weights=weights, is_kept=is_kept)
    parts = DEFAULT.between(None, "hoist-loop-invariants"), DEFAULT.between("dce", None)
    first = optimize(chain(20), TARGET, weights=weights, pipeline=parts[0], is_kept=is_kept)
    second = optimize(first, TARGET, weights=weights, pipeline=parts[1], is_kept=is_kept)
    assert [n.op.mnemonic for n in second.nodes()] == [n.op.mnemonic for n in whole.nodes()]


def test_the_same_object_when_nothing_changes() -> None:
    x = build.param("x", DType.F32, (3,))
    graph = Graph("one", (x,), {"y": build.exp(x)})
    assert optimize(graph, TARGET, weights={}, is_kept=is_kept) is graph


def test_means_of_windows_far_beyond_the_image_are_of_what_they_see() -> None:
    mean = build.apply1("avg_pool2d", x(2, 3, 7, 7), kernel=1280, stride=1280, ceil_mode=True)
    before = graph(mean)
    after = optimize(before, TARGET, weights={}, is_kept=is_kept)
    places = [prod(node.op.window) for node in after.nodes() if isinstance(node.op, Window)]
    assert all(count <= 49 for count in places), places
    assert len(places) <= 1, "the number of elements under each window is not a constant"
