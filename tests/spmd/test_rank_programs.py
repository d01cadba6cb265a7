"""Programs with collectives: as steps, checked, and run by threads that stand for ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from shipped import FOLDER

from xlac.driver import executable, lower, specialized
from xlac.frontends.loader import load
from xlac.ir.graph import Graph, Node, apply
from xlac.ir.interpret import interpret
from xlac.ir.ranks import interpret_ranks
from xlac.model import MeshSection, Model, SaidSharding
from xlac.ops import build
from xlac.ops.collective.group import MeshAxes
from xlac.ranks.program import memory_of, rank_program
from xlac.spmd.mesh import Mesh
from xlac.spmd.model import mesh_of
from xlac_sdk.dtypes import DType
from xlac_sdk.host.ranks.communicator import group_of
from xlac_sdk.host.ranks.threads import ThreadRank, together
from xlac_sdk.host.registry import find
from xlac_sdk.programs.program import Launch, Program, exchanges
from xlac_sdk.programs.steps import CollectiveDone, CollectiveStart
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.source import UnsupportedError, VerifyError
from xlac_sdk.target import Request, Target

MESH: MeshAxes = (("data", 2), ("model", 2))
RNG = np.random.default_rng(3)


def section(mesh: MeshAxes = MESH) -> MeshSection:
    return MeshSection(dict(mesh), rank=0)


def by_threads(graph: Graph, target: str, **arrays: np.ndarray) -> dict[str, Any]:  # type: ignore[type-arg]
    """What every rank computes from its own arrays, with the axes of the mesh first."""
    backend = find(target)

    def one(rank: ThreadRank) -> dict[str, Any]:
        model = Model(graph, {}, ranks=section())
        program = executable(lower(model, backend.target(Request())), backend)
        place = np.unravel_index(rank.rank, (2, 2))
        got = program(**{name: array[place] for name, array in arrays.items()})
        return got if isinstance(got, dict) else {program.outputs[0]: got}

    made = together(4, one)
    return {n: np.stack([m[n] for m in made]).reshape(2, 2, *made[0][n].shape) for n in made[0]}


def over(mnemonic: str, *inputs: Node, axes: tuple[str, ...], **about: Any) -> Node:
    return apply(mnemonic, *inputs, mesh=MESH, axes=axes, **about)


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_every_collective_of_a_program(target: str) -> None:
    x = build.param("x", DType.F32, (4, 6))
    y = build.mul(x, 2.0)
    outputs = {
        "sum": over("all_reduce", y, axes=("model",)),
        "most": over("all_reduce", x, axes=("data", "model"), combine="max"),
        "product": over("all_reduce", x, axes=("data",), combine="mul"),
        "half": over("all_reduce", build.cast(x, DType.BF16), axes=("model",)),
        "whole": over("all_gather", y, axes=("data",), axis=1),
        "part": over("reduce_scatter", x, axes=("model",), axis=1),
        "turned": over("all_to_all", x, axes=("model", "data"), split=0, concat=1),
        "moved": over("collective_permute", x, axes=("data",), pairs=((0, 1),)),
        "same": over("collective_broadcast", y, axes=("model",), root=1),
        "number": over("axis_index", axes=("model", "data")),
        "truth": over("all_gather", build.compare(x, "gt", 0.0), axes=("data",)),
    }
    graph = Graph("g", (x,), outputs)
    given = RNG.standard_normal((2, 2, 4, 6)).astype(np.float32)
    wanted = interpret_ranks(graph, MESH, {"x": given})
    got = by_threads(graph, target, x=given)
    for name, want in wanted.items():
        np.testing.assert_allclose(
            got[name].astype(np.float64), want.astype(np.float64), rtol=1e-6, err_msg=name
        )


def flight() -> Program:
    """A program with work between the start and the done of its collective."""
    x, y = (build.param(name, DType.F32, (64, 64)) for name in "xy")
    total = over("all_reduce", build.exp(x), axes=("model",))
    other = build.dot(y, y, contract=((1,), (0,)))
    graph = Graph("g", (x, y), {"z": build.add(total, build.dot(other, y, contract=((1,), (0,))))})
    made = lower(Model(graph, {}, ranks=section()), find("cpu").target(Request()))
    return made.program


def test_work_stands_between_start_and_done() -> None:
    program = flight()
    verify_program(program)
    kinds = [type(step) for step in program.steps]
    start, done = kinds.index(CollectiveStart), kinds.index(CollectiveDone)
    assert Launch in kinds[start:done]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda s: [n for n in s if not isinstance(n, CollectiveDone)], "under way"),
        (lambda s: s[: 1 + [type(n) for n in s].index(CollectiveStart)], "is not done at the end"),
        (lambda s: [n for n in s if not isinstance(n, CollectiveStart)], "was not started so"),
        (lambda s: [n for n in s for _ in range(1 + isinstance(n, CollectiveStart))], "twice"),
        (lambda s: sorted(s, key=lambda n: isinstance(n, CollectiveDone)), "under way"),
    ],
)
def test_programs_that_break_the_rules_are_refused(change: Any, problem: str) -> None:
    program = flight()
    with pytest.raises(VerifyError, match=problem):
        verify_program(replace(program, steps=tuple(change(program.steps))))


def test_a_collective_of_another_mesh_is_refused() -> None:
    program = flight()
    with pytest.raises(VerifyError, match="of a mesh"):
        verify_program(replace(program, facts={"mesh": [["rows", 2]]}))


def test_a_process_that_is_alone_is_told_so() -> None:
    x = build.param("x", DType.F32, (4,))
    graph = Graph("g", (x,), {"y": over("all_reduce", x, axes=("model",))})
    backend = find("cpu")
    made = lower(Model(graph, {}, ranks=section()), backend.target(Request()))
    with pytest.raises(UnsupportedError, match="for 4 ranks, mesh data=2,model=2"):
        executable(made, backend)


def test_targets_without_collectives_say_so() -> None:
    x = build.param("x", DType.F32, (4,))
    graph = Graph("g", (x,), {"y": over("all_reduce", x, axes=("model",))})
    with pytest.raises(UnsupportedError) as caught:
        lower(Model(graph, {}, ranks=section()), Target("scalar"))
    assert caught.value.diagnostics[0].code == "XL7801"


def test_c_of_this_process_has_no_collectives() -> None:
    x = build.param("x", DType.F32, (4,))
    graph = Graph("g", (x,), {"y": over("all_reduce", x, axes=("model",))})
    backend = find("c")
    made = lower(Model(graph, {}, ranks=section()), backend.target(Request()))
    with pytest.raises(UnsupportedError, match="C that runs in this process"):
        backend.emit(made.program, made.target)


def test_groups_are_those_of_the_mesh() -> None:
    mesh = [("data", 2), ("model", 3)]
    assert group_of(mesh, ["model"], 4) == ((3, 4, 5), 1)
    assert group_of(mesh, ["data"], 4) == ((1, 4), 1)
    assert group_of(mesh, ["model", "data"], 4) == ((0, 3, 1, 4, 2, 5), 3)


SIZES = [{"data": 2, "model": 1}, {"data": 1, "model": 2}, {"data": 2}, {"data": 3, "model": 3}]


@pytest.mark.parametrize("sizes", SIZES)
def test_a_spec_on_ranks_equals_one_process(sizes: dict[str, int]) -> None:
    said = {"h1.weight": SaidSharding((("model",), ()))} if "model" in sizes else {}
    axes = MeshSection({"data": None, "model": None} if said else {"data": None}, said)
    model = replace(specialized(load(FOLDER / "digits.yaml", dims={}, params={})), ranks=axes)
    mesh: Mesh = mesh_of(axes, sizes)
    backend = find("cpu")
    image = RNG.standard_normal(model.inputs[0].type.shape).astype(np.float32)  # type: ignore[arg-type]

    def one(rank: ThreadRank) -> Any:
        made = rank_program(model, mesh, rank.rank, backend, backend.target(Request()))
        return made, made.compiled(backend)(**made.parts({"image": image}))

    made = together(mesh.ranks, one)
    (program, _), *_ = made
    assert len({m.digest for m, _ in made}) == 1
    got = program.whole_output("probs", {n: array for n, (_, array) in enumerate(made)})
    (want,) = interpret(model.graph, {"image": image}, dict(model.weights)).values()
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)
    alone = specialized(load(FOLDER / "digits.yaml", dims={}, params={}))
    whole = lower(alone, backend.target(Request())).program
    weights = sum(array.nbytes for array in whole.constants.values())
    split = sizes.get("model", 1) > 1
    assert (memory_of(program)["weights"] < weights) == split
    assert bool(exchanges(program.lowered.program.steps)) == split
