"""Partitioned graphs, all ranks interpreted, equal the graphs that they were made from."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import parted
import pytest
from graphs import make
from shipped import FOLDER, MODELS

from xlac.autodiff.gradient import linearize
from xlac.driver import specialized
from xlac.frontends.loader import load
from xlac.ir.dims import Sym, Symbol
from xlac.ir.graph import Graph
from xlac.ir.op import Array
from xlac.model import MeshSection, Model, SaidSharding
from xlac.ops import build
from xlac.ops.sampling import draw_one
from xlac.ops.tensor.leaf import Param, param
from xlac.spmd.mesh import Mesh, Sharding
from xlac.spmd.model import collectives, expanded, mesh_of, of_rank
from xlac.spmd.partition import Partitioned, partitioned
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.source import SourceError
from xlac_sdk.target import Request

TARGET = find("reference").target(Request())
COUNT = int(os.environ.get("XLAC_FUZZ_GRAPHS", "60"))
BATCH = 10  # graphs of one test
DATA, MODEL, BOTH = parted.MESHES


def kinds(made: Partitioned) -> Counter[str]:
    return Counter(node.op.mnemonic for node, _ in collectives(made))


def annotated(graph: Graph, mesh: Mesh, random: Random) -> dict[str, Sharding]:
    """Any way to divide some of the parameters, into equal parts or not."""
    given: dict[str, Sharding] = {}
    for node in graph.nodes():
        if not isinstance(node.op, Param) or random.random() < 0.2:
            continue
        left, axes = [name for name, _ in mesh.axes], []
        for size in node.shape:
            options = [(), *((name,) for name in left), tuple(left), tuple(reversed(left))]
            names = random.choice(options)
            if size == 1:
                names = ()
            left = [name for name in left if name not in names]
            axes.append(names)
        given[node.op.name] = tuple(axes)
    return given


@pytest.mark.sampled(3)
@pytest.mark.parametrize("batch", range(-(-COUNT // BATCH)))
def test_random_graphs_with_random_annotations(batch: int) -> None:
    for seed in range(batch * BATCH, min((batch + 1) * BATCH, COUNT)):
        case, random = make(Random(seed)), Random(seed)
        graph = expanded(case.graph, TARGET)
        mesh = random.choice(parted.MESHES)
        made = partitioned(graph, mesh, annotated(graph, mesh, random))
        parted.check(graph, made, case.inputs, case.weights)


def inputs_of(model: Model) -> dict[str, Array]:
    rng = np.random.default_rng(1)
    return {param(n).name: draw_one("normal", n.type, rng) for n in model.graph.inputs}


BERT = {
    **dict.fromkeys(("q.weight", "k.weight", "v.weight", "up.weight"), (("model",), ())),
    **dict.fromkeys(("o.weight", "down.weight"), ((), ("model",))),
}
SPLITS: dict[str, dict[str, Sharding]] = {
    "bert_layer": BERT,
    "digits": {"h1.weight": (("model",), ())},
    "gpt2_decode": {"qkv.weight": ((), ("model",))},
    "layernorm_gelu": {"x": ((), ("model",))},
    "softmax": {"x": ((), ("model",))},
}
"""How shipped specs are divided along `model`."""

HEAVY = set(
    "resnet50 mobilenet_v2 gpt2_decode bert_layer tagger elementwise_chain mul_add_reduce "
    "bias_relu_softmax layernorm_gelu softmax".split()
)


INDIVISIBLE = {"mlp_small"}  # one row


def shipped(path: Path) -> Model:
    """The spec at sizes that two ranks divide."""
    model = load(path, dims={}, params={})
    small = {"batch": 4, "B": 4, "sequence": 6, "past": 6, "T": 6}
    return specialized(model, {n: small.get(n, s.opt) for n, s in model.dims.items()})


@pytest.mark.parametrize(
    "name",
    [pytest.param(p.stem, marks=[pytest.mark.long] if p.stem in HEAVY else []) for p in MODELS],
)
def test_shipped_specs(name: str) -> None:
    model = shipped(FOLDER / f"{name}.yaml")
    graph, given = expanded(model.graph, TARGET), inputs_of(model)
    said = {n: SaidSharding(axes) for n, axes in SPLITS.get(name, {}).items()}
    ranks = {n.op.name for n in graph.nodes() if isinstance(n.op, Param)}
    assert said.keys() <= ranks
    weights = dict(model.weights)
    section = MeshSection({"data": None, "model": None}, said)
    for data, ways in ((2, 1), (1, 2), (2, 2)) if said else ((2, 1),):
        mesh = mesh_of(section, {"data": data, "model": ways})
        own = Model(model.graph, weights, ranks=section, state=model.state)
        if name in INDIVISIBLE:
            with pytest.raises(SourceError, match="nothing is divided along 'data'"):
                of_rank(own, mesh, 0, TARGET)
            continue
        _, made = of_rank(own, mesh, 0, TARGET)
        parted.check(graph, made, given, weights)


def test_an_encoder_layer_has_two_sums() -> None:
    """Of a Megatron-style layer: one after attention, one after the feed-forward part, and as many
    backwards with respect to its input.
    """
    model = shipped(FOLDER / "bert_layer.yaml")
    graph = expanded(model.graph, TARGET)
    assert kinds(partitioned(graph, MODEL, BERT)) == {"all_reduce": 2}
    assert kinds(partitioned(graph, BOTH, {**BERT, "hidden": (("data",), (), ())})) == {
        "all_reduce": 2
    }


def test_gradients_are_reduced_once() -> None:
    """Data parallel: one sum for each weight's gradient and one for the loss."""
    x, y = build.param("x", DType.F32, (8, 4)), build.param("y", DType.F32, (8, 3))
    w = build.param("w", DType.F32, (4, 3), "weight")
    off = build.sub(build.dot(x, w, contract=((1,), (0,))), y)
    loss = build.apply1("reduce", build.mul(off, off), axes=(0, 1), combine="add")
    (by_w,) = linearize([loss], [w]).transposed([build.as_node(1.0, DType.F32)])
    graph = expanded(Graph("g", (x, y), {"loss": loss, "by_w": by_w}), TARGET)
    made = partitioned(graph, DATA, {"x": (("data",), ()), "y": (("data",), ())})
    assert kinds(made) == {"all_reduce": 2}
    rng = np.random.default_rng(0)
    drawn = {n: rng.standard_normal(s) for n, s in (("x", (8, 4)), ("y", (8, 3)), ("w", (4, 3)))}
    arrays = {n: a.astype(np.float32) for n, a in drawn.items()}
    parted.check(graph, made, arrays, {"w": arrays["w"]})


def test_sums_that_are_added_are_one() -> None:
    """Three sums over ranks, added; one that is read besides is a second."""
    x = build.param("x", DType.F32, (8, 4))
    one, two, three = (
        build.apply1("reduce", build.mul(x, float(n)), axes=(0, 1), combine="add")
        for n in (2, 3, 5)
    )
    total = build.add(build.add(one, two), three)
    given = {"x": (("data",), ())}
    arrays = {"x": np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)}
    graph = Graph("g", (x,), {"total": total})
    made = partitioned(graph, DATA, given)
    assert kinds(made) == {"all_reduce": 1}
    parted.check(graph, made, arrays, {})
    graph = Graph("g", (x,), {"total": total, "two": two})
    made = partitioned(graph, DATA, given)
    assert kinds(made) == {"all_reduce": 2}
    parted.check(graph, made, arrays, {})


ROWS_DATA: Sharding = (("data",), ())


@pytest.mark.parametrize("mesh", [Mesh((("data", 3),)), Mesh((("data", 4), ("model", 2)))])
def test_parts_that_are_not_equal(mesh: Mesh) -> None:
    """Five rows among three or four ranks. What is in the padding is no number where the logarithm
    of zero is multiplied by it, and decides no largest, no product and no sum.
    """
    x, w = build.param("x", DType.F32, (5, 3)), build.param("w", DType.F32, (3, 7), "weight")
    product = build.dot(x, w, contract=((1,), (0,)))
    y = build.mul(build.log(product), product)
    outputs = {
        name: build.apply1("reduce", y, axes=(0, 1), combine=name)
        for name in ("add", "mul", "max", "min")
    }
    outputs |= {"y": y, "gram": build.dot(y, y, contract=((0,), (0,)))}
    given = {"x": ROWS_DATA}
    if "model" in mesh.sizes:
        given["w"] = ((), ("model",))
    rng = np.random.default_rng(0)
    arrays = {n.op.name: rng.uniform(0.1, 0.6, n.shape).astype(np.float32) for n in (x, w)}  # type: ignore[attr-defined, arg-type]
    (by_w,) = linearize([outputs["add"]], [w]).transposed([build.as_node(1.0, DType.F32)])
    graph = expanded(Graph("g", (x,), {**outputs, "by_w": by_w}), TARGET)
    parted.check(graph, partitioned(graph, mesh, given), arrays, arrays)


def test_an_axis_is_moved_where_neither_has_equal_parts() -> None:
    """To other axes of the mesh, and from one axis of the value to the other."""
    x = build.param("x", DType.F32, (5, 7))
    one = build.apply1("shard", build.exp(x), axes=(None, "data"))
    two = build.apply1("shard", one, axes=(("data", "model"), None))
    three = build.apply1("shard", two, axes=("data", None))
    graph = Graph("g", (x,), {"one": one, "two": two, "three": three})
    made = partitioned(graph, BOTH, {"x": ROWS_DATA})
    assert kinds(made) == {"all_to_all": 1, "all_gather": 2}
    whole = build.exp(x)
    parted.check(
        Graph("g", (x,), dict.fromkeys(graph.outputs, whole)),
        made,
        {"x": np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)},
        {},
    )


def test_a_sum_wanted_in_parts_is_scattered() -> None:
    x, w = build.param("x", DType.F32, (4, 8)), build.param("w", DType.F32, (8, 6), "weight")
    product = build.dot(x, w, contract=((1,), (0,)))
    part = build.apply1("shard", product, axes=(("model",), None))
    made = partitioned(
        Graph("g", (x,), {"y": part}), MODEL, {"x": ((), ("model",)), "w": (("model",), ())}
    )
    assert kinds(made) == {"reduce_scatter": 1}
    arrays = {"x": np.ones((4, 8), np.float32), "w": np.ones((8, 6), np.float32)}
    parted.check(Graph("g", (x,), {"y": product}), made, arrays, arrays)


def test_a_state_keeps_its_division() -> None:
    model = shipped(FOLDER / "lstm_stream.yaml")
    _, made = of_rank(model, DATA, 0, TARGET)
    for name, after in model.state.items():
        assert made.inputs[name] == made.outputs[after] == (("data",), ())
    assert not kinds(made)


def test_loops_run_on_parts() -> None:
    _, made = of_rank(shipped(FOLDER / "lstm_3x60.yaml"), DATA, 0, TARGET)
    assert not kinds(made)
    (loop,) = (n for n in made.graph.nodes() if n.op.mnemonic == "scan")
    assert all(2 in t.shape for t in loop.results)


def test_ranks_hold_their_parts_of_weights() -> None:
    model = shipped(FOLDER / "digits.yaml")
    said = {"h1.weight": SaidSharding((("model",), ()))}
    own = Model(model.graph, model.weights, ranks=MeshSection({"model": 2}, said))
    whole = model.weights["h1.weight"]
    for rank in range(2):
        mine, _ = of_rank(own, MODEL, rank, TARGET)
        half = len(whole) // 2
        np.testing.assert_array_equal(
            mine.weights["h1.weight"], whole[half * rank : half * (rank + 1)]
        )
        assert mine.weights.keys() == model.weights.keys()


@pytest.mark.parametrize(
    ("section", "given", "problem"),
    [
        ({"data": None}, {}, "leaves the size of mesh axis 'data' open"),
        ({"data": 2}, {"dta": 2}, "no axis 'dta'"),
    ],
)
def test_a_mesh_that_is_not_known(
    section: dict[str, int | None], given: dict[str, int], problem: str
) -> None:
    with pytest.raises(SourceError, match=problem):
        mesh_of(MeshSection(section), given)


def test_sizes_that_are_not_known() -> None:
    x = build.param("x", DType.F32, (Sym((((Symbol("n", 1, 8, 4),), 1),)), 4))
    section = MeshSection({"model": 2}, {"x": SaidSharding((("model",), ()))})
    model = Model(Graph("g", (x,), {"y": build.exp(x)}), {}, ranks=section)
    with pytest.raises(SourceError, match="has no fixed size") as caught:
        of_rank(model, mesh_of(section, {}), 0, TARGET)
    assert caught.value.diagnostics[0].code == "XL7804"


def test_the_command_line_wins() -> None:
    section = MeshSection({"data": None, "model": 2})
    assert mesh_of(section, {"data": 4}).axes == (("data", 4), ("model", 2))
    assert mesh_of(section, {"data": 1, "model": 8}).ranks == 8
    assert mesh_of(None, {"rows": 3}).axes == (("rows", 3),)
