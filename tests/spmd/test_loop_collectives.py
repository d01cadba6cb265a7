"""Loops and branches whose bodies exchange values: partitioned, interpreted and compiled."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import parted
import pytest
from graph_products import looped
from graphs import make
from test_partition import annotated

from xlac.autodiff.gradient import linearize
from xlac.ir.graph import Graph, Node, apply, pick
from xlac.ir.interpret import interpret
from xlac.ir.ranks import interpret_ranks
from xlac.ir.types import Type
from xlac.model import MeshSection, Model, SaidSharding
from xlac.ops import build
from xlac.ops.control.control import Cond, Scan, While
from xlac.ranks.program import rank_program
from xlac.ranks.story import tell_ranks
from xlac.spmd.cost import NetworkLink, RankDevice
from xlac.spmd.mesh import Mesh, Sharding
from xlac.spmd.model import collectives, expanded, repeats
from xlac.spmd.partition import Partitioned, partitioned
from xlac.spmd.run_time import Rates
from xlac.spmd.same_ways import check_ways
from xlac_sdk.dtypes import DType
from xlac_sdk.host.ranks.threads import ThreadRank, together
from xlac_sdk.host.registry import find
from xlac_sdk.programs.program import Branch, Repeat, exchanges, walk
from xlac_sdk.programs.program import While as WhileSteps
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.source import VerifyError
from xlac_sdk.target import Request

TARGET = find("reference").target(Request())
DATA, MODEL, BOTH = parted.MESHES
RNG = np.random.default_rng(5)


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies are divided wherever they can be, whatever it costs."""
    monkeypatch.setattr("xlac.spmd.loops.says", lambda body: True)


def drawn(*nodes: Node) -> dict[str, Any]:
    return {n.name or n.op.name: RNG.standard_normal(n.shape).astype(np.float32) for n in nodes}  # type: ignore[attr-defined]


def kinds(made: Partitioned) -> Counter[str]:
    """The collectives around loops, and inside of them with a star."""
    own = set(made.graph.nodes())
    return Counter(n.op.mnemonic + "*" * (n not in own) for n, _ in collectives(made))


def recurrence(length: int = 5, rows: int = 4, width: int = 8) -> tuple[Graph, Node, Node]:
    """h = tanh(x[t] + h w), whose product adds up over the axis by which h is divided."""
    x = build.param("x", DType.F32, (length, rows, width))
    w = build.param("w", DType.F32, (width, width), "weight")
    row = Type(DType.F32, (rows, width))

    def step(h: Node, s: Node, w: Node) -> tuple[Node, Node]:
        new = build.apply1("tanh", build.add(s, build.dot(h, w, ((1,), (0,)))))
        return new, new

    body = build.graph("step", [row, row, w.type], step)
    first = build.spread(build.as_node(0.5, DType.F32), (rows, width), ())
    scan = Node.of(Scan(body, length, 1, 1), first, x, w)
    return Graph("g", (x,), {"last": pick(scan, 0), "all": pick(scan, 1)}), x, w


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("mesh", [MODEL, Mesh((("model", 3),)), BOTH])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_recurrence_whose_weights_are_divided(mesh: Mesh, axis: int) -> None:
    """By rows each step adds up parts, by columns it gathers h; in unequal parts, too."""
    graph, x, w = recurrence()
    sharding: Sharding = (("model",), ()) if axis == 0 else ((), ("model",))
    given: dict[str, Sharding] = {"w": sharding}
    if "data" in mesh.sizes:
        given["x"] = ((), ("data",), ())
    made = partitioned(graph, mesh, given)
    found = kinds(made)
    assert any(name.endswith("*") for name in found), found
    assert made.weights["w"] == sharding
    assert "all_gather" not in found  # w stays where it is
    parted.check(graph, made, drawn(x), drawn(w))
    assert set(repeats(made.graph).values()) <= {1, 5}


def test_what_costs_more_inside_is_gathered_before() -> None:
    """On a link of the usual latency one message before a small loop is less than five inside."""
    graph, x, w = recurrence()
    made = partitioned(graph, MODEL, {"w": (("model",), ())})
    assert kinds(made) == {"all_gather": 1}
    parted.check(graph, made, drawn(x), drawn(w))
    slow = Rates(NetworkLink(5e-6, 10e9), RankDevice(1e3, 1e9))  # computation is dear
    assert any(
        name.endswith("*")
        for name in kinds(partitioned(graph, MODEL, {"w": (("model",), ())}, rates=slow))
    )


@pytest.mark.usefixtures("inside")
def test_gradients_of_a_recurrence_are_reduced_once() -> None:
    """What each step adds to the gradient of the weights is summed over ranks after the loop."""
    graph, x, w = recurrence()
    loss = build.reduce(build.mul(graph.outputs["all"], graph.outputs["all"]), "add")
    (by_w,) = linearize([loss], [w]).transposed([build.as_node(1.0, DType.F32)])
    whole = expanded(Graph("g", (x,), {"loss": loss, "by_w": by_w}), TARGET)
    for mesh in (DATA, Mesh((("data", 3),))):
        made = partitioned(whole, mesh, {"x": ((), ("data",), ())})
        assert kinds(made) == {"all_reduce": 2}
        parted.check(whole, made, drawn(x), drawn(w))


@pytest.mark.usefixtures("inside")
def test_a_sum_that_does_not_begin_with_zero() -> None:
    x, start = build.param("x", DType.F32, (6, 4)), build.param("start", DType.F32, (3,))
    w = build.param("w", DType.F32, (4, 3), "weight")

    def step(total: Node, s: Node, w: Node) -> tuple[Node]:
        return (build.add(total, build.dot(s, w, ((0,), (0,)))),)

    body = build.graph("step", [start.type, Type(DType.F32, (4,)), w.type], step)
    loop = Node.of(Scan(body, 6, 1, 1), start, x, w)
    graph = Graph("g", (x, start), {"y": loop})
    made = partitioned(graph, MODEL, {"x": ((), ("model",))})
    assert kinds(made) == {"all_reduce": 1}
    parted.check(graph, made, drawn(x, start), drawn(w))
    part = build.apply1("shard", loop, axes=("model",))
    whole = Graph("g", (x, start), {"y": part})
    made = partitioned(whole, MODEL, {"x": ((), ("model",)), "w": (("model",), ())})
    assert kinds(made) == {"reduce_scatter": 1}
    parted.check(graph, made, drawn(x, start), drawn(w))


def search(limit: float = 40.0) -> tuple[Graph, Node, Node]:
    """x grows by w until its squares add up to `limit`: what ends the loop needs all parts of x."""
    x = build.param("x", DType.F32, (4, 6))
    w = build.param("w", DType.F32, (6, 6), "weight")

    def going(x: Node, w: Node) -> tuple[Node]:
        return (build.compare(build.reduce(build.mul(x, x), "add"), "lt", limit),)

    def turn(x: Node, w: Node) -> tuple[Node, Node]:
        return build.add(build.mul(x, 1.3), build.mul(build.dot(x, w, ((1,), (0,))), 0.1)), w

    types = [x.type, w.type]
    loop = Node.of(
        While(build.graph("going", types, going), build.graph("turn", types, turn)), x, w
    )
    return Graph("g", (x,), {"x": pick(loop, 0)}), x, w


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize(
    ("mesh", "sharding"),
    [(DATA, (("data",), ())), (MODEL, ((), ("model",))), (BOTH, (("data",), ("model",)))],
)
def test_a_loop_that_ends_by_what_all_ranks_have(mesh: Mesh, sharding: Sharding) -> None:
    graph, x, w = search()
    made = partitioned(graph, mesh, {"x": sharding})
    assert any(name.startswith("all_reduce*") for name in kinds(made))
    assert None in repeats(made.graph).values()
    (loop,) = (n for n in made.graph.nodes() if n.op.mnemonic == "while")
    assert loop.op.alike  # type: ignore[attr-defined]
    parted.check(graph, made, drawn(x), drawn(w))


def branches() -> tuple[Graph, Node, Node]:
    """A row sum, or the row."""
    x, index = build.param("x", DType.F32, (6, 5)), build.param("index", DType.I32, ())

    def total(x: Node) -> tuple[Node]:
        return (build.spread(build.reduce(x, "add", (1,)), (6, 5), (0,)),)

    def same(x: Node) -> tuple[Node]:
        return (build.mul(x, 3.0),)

    made = tuple(build.graph(name, [x.type], f) for name, f in (("total", total), ("same", same)))
    return Graph("g", (x, index), {"y": Node.of(Cond(made), index, x)}), x, index


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("chosen", [0, 1])
def test_a_branch_with_a_sum_inside(chosen: int) -> None:
    graph, x, _ = branches()
    made = partitioned(graph, MODEL, {"x": ((), ("model",))})
    assert kinds(made)["all_reduce*"] == 1
    parted.check(graph, made, {**drawn(x), "index": np.asarray(chosen, np.int32)}, {})


def test_what_is_said_inside_of_a_body_holds() -> None:
    """A `shard` node in a body divides even where it costs more."""
    x = build.param("x", DType.F32, (3, 4, 6))
    row = Type(DType.F32, (4, 6))

    def step(h: Node, s: Node) -> tuple[Node]:
        part = build.apply1("shard", build.add(h, s), axes=(None, "model"))
        return (build.mul(part, build.reduce(part, "max")),)

    body = build.graph("step", [row, row], step)
    scan = Node.of(Scan(body, 3, 1, 1), build.spread(build.as_node(0.1, DType.F32), (4, 6), ()), x)
    made = partitioned(Graph("g", (x,), {"y": scan}), MODEL, {})
    assert kinds(made)["all_reduce*"] == 1 and made.outputs["y"] == ((), ("model",))
    parted.check(Graph("g", (x,), {"y": scan}), made, drawn(x), {})


def test_ways_that_differ_are_refused() -> None:
    """A branch by a rank's own number, with a sum inside."""
    mesh = (("model", 2),)
    x = build.param("x", DType.F32, (4,))
    total = build.graph(
        "a", [x.type], lambda x: (apply("all_reduce", x, mesh=mesh, axes=("model",)),)
    )
    same = build.graph("b", [x.type], lambda x: (x,))
    own = apply("axis_index", mesh=mesh, axes=("model",))
    graph = Graph("g", (x,), {"y": Node.of(Cond((total, same), alike=True), own, x)})
    with pytest.raises(VerifyError, match="may take different ways"):
        check_ways(graph, {})
    with pytest.raises(ValueError, match="take different ways"):
        interpret_ranks(graph, mesh, {"x": np.ones((2, 4), np.float32)})


@pytest.mark.usefixtures("inside")
@pytest.mark.sampled(3)
@pytest.mark.parametrize("batch", range(6))
def test_random_loops_with_random_annotations(batch: int) -> None:
    """Bodies are divided wherever they can be."""
    count = 0
    for seed in range(batch * 30, batch * 30 + 30):
        case, random = make(Random(seed), 6, (looped,) * 40), Random(seed)
        graph = expanded(case.graph, TARGET)
        mesh = random.choice(parted.MESHES)
        made = partitioned(graph, mesh, annotated(graph, mesh, random))
        count += sum(name.endswith("*") for name in kinds(made))
        parted.check(graph, made, case.inputs, case.weights)
    assert count


def compiled(
    graph: Graph, mesh: Mesh, said: dict[str, Sharding], target: str, **arrays: Any
) -> Any:
    """What ranks that are threads compute, and the program of one of them."""
    backend = find(target)
    weights = {n: arrays.pop(n) for n in list(arrays) if n == "w"}
    axes = MeshSection(dict(mesh.axes), {n: SaidSharding(s) for n, s in said.items()})
    model = Model(graph, weights, ranks=axes)

    def one(rank: ThreadRank) -> Any:
        made = rank_program(
            model, mesh, rank.rank, backend, backend.target(Request()), idle_axes=True
        )
        got = made.compiled(backend)(**made.parts(arrays))
        return made, got if isinstance(got, dict) else {next(iter(graph.outputs)): got}

    found = together(mesh.ranks, one)
    program = found[0][0]
    verify_program(program.lowered.program)
    wanted = interpret(graph, arrays, weights)
    for name, want in wanted.items():
        got = program.whole_output(name, {n: own[name] for n, (_, own) in enumerate(found)})
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
    return program


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_programs_exchange_inside_of_loops(target: str) -> None:
    graph, x, w = recurrence()
    program = compiled(graph, MODEL, {"w": (("model",), ())}, target, **drawn(x, w))
    loops = [s for s in walk(program.lowered.program.steps) if isinstance(s, Repeat)]
    assert any(exchanges(loop.body) for loop in loops)
    text = tell_ranks(program, NetworkLink())
    assert ", 5 times: " in text

    graph, x, w = search()
    program = compiled(graph, DATA, {"x": (("data",), ())}, target, **drawn(x, w))
    steps = program.lowered.program.steps
    (loop,) = (s for s in walk(steps) if isinstance(s, WhileSteps))
    assert loop.alike and exchanges(loop.condition)
    assert ", in each turn of a loop: " in tell_ranks(program, NetworkLink())
    other = tuple(replace(s, alike=False) if s is loop else s for s in steps)
    wrong = replace(program.lowered.program, steps=other)
    with pytest.raises(VerifyError, match="inside a branch or a loop of unknown length"):
        verify_program(wrong)

    graph, x, _ = branches()
    for chosen in (0, 1):
        index = np.asarray(chosen, np.int32)
        program = compiled(graph, MODEL, {"x": ((), ("model",))}, target, **drawn(x), index=index)
        assert any(isinstance(s, Branch) and s.alike for s in walk(program.lowered.program.steps))
