"""Manual computations among ranks: the programs of JAX's shard_map, divided as they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.spmd.test_shard_map_text import PART, summed, text
from xlac.frontends.loader import load
from xlac.frontends.stablehlo import load as load_stablehlo
from xlac.ir.graph import Graph, Node, apply
from xlac.ir.interpret import interpret
from xlac.ir.ranks import interpret_ranks
from xlac.model import Model
from xlac.ops import build
from xlac.ops.collective.group import Collective
from xlac.ops.collective.manual import ManualComputation
from xlac.ops.control.control import Cond, Scan
from xlac.ops.tensor.leaf import param
from xlac.ops.walks import every_node
from xlac.ranks.program import RankProgram, rank_program
from xlac.spmd.cost import NetworkLink, RankDevice
from xlac.spmd.mesh import Mesh, assembled, distributed
from xlac.spmd.model import collectives, mesh_of, of_rank
from xlac.spmd.partition import Partitioned
from xlac.spmd.search import PlanSearch
from xlac_sdk.dtypes import DType
from xlac_sdk.host.ranks.threads import ThreadRank, together
from xlac_sdk.host.registry import find
from xlac_sdk.source import SourceError, UnsupportedError
from xlac_sdk.target import Request

CORPUS = Path(__file__).parents[1] / "stablehlo" / "corpus"
TARGET = find("reference").target(Request())


def divided(model: Model, mesh: Mesh | None = None) -> Partitioned:
    """The graph of a rank."""
    return of_rank(model, mesh or mesh_of(model.ranks, {}), 0, TARGET)[1]


def of_all(made: Partitioned, model: Model, given: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The whole outputs, from those of all ranks."""
    mesh = made.mesh
    parts = {name: distributed(array, mesh, made.inputs[name]) for name, array in given.items()}
    found = interpret_ranks(made.graph, mesh.axes, parts)
    whole = []
    for name, node in model.graph.outputs.items():
        array = found[name]
        own = array.reshape(mesh.ranks, *array.shape[len(mesh.axes) :])
        shape = tuple(size for size in node.shape if isinstance(size, int))
        whole.append(assembled(dict(enumerate(own)), mesh, made.outputs[name], shape))
    return whole


@pytest.mark.parametrize("name", ["collectives", "layer_grad", "nested", "ring_attention"])
def test_ranks_give_what_jax_gives(name: str) -> None:
    data = np.load(CORPUS / f"shard_map_{name}.npz")
    model = load(CORPUS / f"shard_map_{name}.mlir")
    made = divided(model)
    assert not any(isinstance(n.op, ManualComputation) for n in every_node(made.graph))
    inputs = [data[f"in_{n}"] for n in range(len(model.inputs))]
    given = {param(n).name: a for n, a in zip(model.inputs, inputs, strict=True)}
    for n, array in enumerate(of_all(made, model, given)):
        np.testing.assert_allclose(array, data[f"out_{n}"], 2e-5, 2e-5)


def test_a_layer_exchanges_only_what_it_says() -> None:
    model = load(load_stablehlo(text(summed("[[0, 1], [2, 3]]"))))
    made = divided(model)
    assert made.inputs == {"arg0": (("data",), ("model",))}
    assert made.outputs == {"out0": (("data",), ())}
    ((node, reason),) = collectives(made)
    assert isinstance(node.op, Collective) and node.op.axes == ("model",)
    assert reason == "all_reduce 'main.y' is in the model"


def test_what_exchanges_nothing_is_no_collective() -> None:
    body = f"""%p = stablehlo.partition_id : tensor<ui32>
      %q = stablehlo.convert %p : (tensor<ui32>) -> tensor<f32>
      %r = stablehlo.broadcast_in_dim %q, dims = [] : (tensor<f32>) -> {PART}
      %y = stablehlo.add %r, %arg1 : {PART}"""
    out = 'out_shardings=[<@mesh, [{"data"}, {"model"}]>]'
    model = load(load_stablehlo(text(body, "tensor<4x8xf32>", out=out)))
    made = divided(model)
    assert not collectives(made)
    zero = np.zeros((4, 8), np.float32)
    found = of_all(made, model, {"arg0": zero})[0]
    assert found[::2, ::4].tolist() == [[0, 1], [2, 3]]


def test_operands_are_divided_as_it_says() -> None:
    """What one computation gives by rows, the next takes by columns."""
    whole = "tensor<4x8xf32>"
    shardings = ('<@mesh, [{"data"}, {"model"}]>', '<@mesh, [{"model"}, {"data"}]>')
    body = "\n".join(
        f"""    %{n} = sdy.manual_computation(%{"arg0" if not n else n - 1}) in_shardings=[{given}]
        out_shardings=[{given}] manual_axes={{"data", "model"}} (%x: {PART}) {{
      %y = stablehlo.exponential %x : {PART}
      sdy.return %y : {PART}
    }} : ({whole}) -> {whole}"""
        for n, given in enumerate(shardings)
    )
    source = f"""module {{ sdy.mesh @mesh = <["data"=2, "model"=2]>
  func.func public @main(%arg0: {whole}) -> {whole} {{
{body}
    return %1 : {whole}
  }} }}"""
    model = load(load_stablehlo(source))
    made = divided(model)
    assert {node.op.mnemonic for node, _ in collectives(made)} <= {"all_gather", "all_to_all"}
    x = np.linspace(-2, 1, 32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_allclose(of_all(made, model, {"arg0": x})[0], np.exp(np.exp(x)), 1e-5)


def test_a_computation_in_a_loop() -> None:
    mesh = (("data", 2), ("model", 3))
    inner = build.param("p", DType.F32, (2, 2))
    total = apply("all_reduce", inner, mesh=mesh, axes=("model",))
    place = build.cast(apply("axis_index", mesh=mesh, axes=("data",)), DType.F32)
    body = Graph("body", (inner,), {"y": build.add(build.mul(total, 0.25), place)})
    divisions = ((("data",), ("model",)),)
    op = ManualComputation(body, mesh, ("data", "model"), divisions, divisions)
    carried = build.param("c", DType.F32, (4, 6))
    step = Graph("step", (carried,), {"c": Node.of(op, carried)})
    x = build.param("x", DType.F32, (4, 6))
    loop = Node.of(Scan(step, 3, 1, 0), x)
    model = Model(Graph("g", (x,), {"y": loop}), {}, {})
    made = divided(model, Mesh(mesh))
    given = {"x": np.arange(24, dtype=np.float32).reshape(4, 6)}
    wanted = given["x"]
    for _ in range(3):
        wanted = model.graph.outputs["y"].op.body.outputs["c"].op.evaluate(wanted)  # type: ignore[attr-defined]
    np.testing.assert_allclose(of_all(made, model, given)[0], wanted, 1e-6)
    scans = [n for n in made.graph.nodes() if isinstance(n.op, Scan)]
    inside = [n for n in every_node(scans[0].op.body) if isinstance(n.op, Collective)]  # type: ignore[attr-defined]
    assert {n.op.mnemonic for n in inside} == {"all_reduce", "axis_index"}


def decided(axis: str) -> Model:
    """Ranks of 2 x 3 that add up what they have along `model`, or not, as their number says."""
    mesh = (("data", 2), ("model", 3))
    x, own = build.param("x", DType.F32, (4, 6)), build.param("p", DType.F32, (2, 2))
    total = apply("all_reduce", own, mesh=mesh, axes=("model",))
    ways = (Graph("sum", (own,), {"y": total}), Graph("twice", (own,), {"y": build.mul(own, 2.0)}))
    number = apply("axis_index", mesh=mesh, axes=(axis,))
    body = Graph("body", (own,), {"y": Node.of(Cond(ways), number, own)})
    divisions = ((("data",), ("model",)),)
    op = ManualComputation(body, mesh, ("data", "model"), divisions, divisions)
    return Model(Graph("g", (x,), {"y": Node.of(op, x)}), {}, {})


def test_ranks_that_exchange_values_take_one_way() -> None:
    mesh = Mesh((("data", 2), ("model", 3)))
    model, given = decided("data"), {"x": np.arange(24, dtype=np.float32).reshape(4, 6)}
    found = of_all(divided(model, mesh), model, given)[0]
    np.testing.assert_array_equal(found, interpret(model.graph, given)["y"])
    with pytest.raises(UnsupportedError, match="'model' may take different ways") as caught:
        divided(decided("model"), mesh)
    assert caught.value.diagnostics[0].code == "XL7822"


def test_a_plan_has_the_mesh_of_the_model() -> None:
    search = PlanSearch(TARGET, NetworkLink(), RankDevice())
    (plan,) = search.plans(decided("data"), 6)
    assert plan.mesh == Mesh((("data", 2), ("model", 3)))
    with pytest.raises(SourceError, match="by hand on the mesh data=2,model=3, and not on 4 ranks"):
        search.plans(decided("data"), 4)


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("name", ["collectives", "layer_grad", "nested", "ring_attention"])
def test_programs_of_ranks(name: str, target: str) -> None:
    """Compiled, and run by threads that stand for ranks."""
    data = np.load(CORPUS / f"shard_map_{name}.npz")
    file = CORPUS / f"shard_map_{name}.mlir"
    model, backend = load(file), find(target)
    mesh = mesh_of(model.ranks, {})
    inputs = {param(n).name: data[f"in_{at}"] for at, n in enumerate(model.inputs)}

    def one(rank: ThreadRank) -> tuple[RankProgram, Any]:
        made = rank_program(model, mesh, rank.rank, backend, backend.target(Request()))
        found = made.compiled(backend)(**made.parts(inputs))
        return made, found if isinstance(found, dict) else {"out0": found}

    made = together(mesh.ranks, one)
    for n, output in enumerate(model.graph.outputs):
        whole = made[0][0].whole_output(
            output, {rank: own[output] for rank, (_, own) in enumerate(made)}
        )
        np.testing.assert_allclose(whole, data[f"out_{n}"], 2e-5, 2e-5)


def test_another_mesh_is_refused() -> None:
    model = load(load_stablehlo(text(summed("[[0, 1], [2, 3]]"))))
    with pytest.raises(SourceError, match="on the mesh data=2,model=2, and not on data=4,model=2"):
        divided(model, mesh_of(model.ranks, {"data": 4}))


def test_a_collective_outside_is_refused() -> None:
    mesh = (("data", 2),)
    x = build.param("x", DType.F32, (4,))
    total = apply("all_reduce", x, mesh=mesh, axes=("data",))
    with pytest.raises(UnsupportedError):
        divided(Model(Graph("g", (x,), {"y": total}), {}, {}), Mesh(mesh))
