"""A model written as a spec loads to the same graph and builds to the same bytes."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import numpy as np
import pytest
from graphs import make
from shipped import MODELS
from spec_rereading import F32, again, bare, of, same, sources, vector

from xlac.debug.conformance import cases, model_of
from xlac.exporters.spec import text
from xlac.exporters.spec.names import clean
from xlac.exporters.spec.values import constant
from xlac.ir.dims import symbol
from xlac.ir.graph import Graph, Node
from xlac.ir.op import OPS, Array
from xlac.ir.text import show
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.control import effect
from xlac.ops.tensor.leaf import Const, Param
from xlac.spec.load import load
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin, UnsupportedError

ALL = bool(os.environ.get("XLAC_EXPORT_ALL"))


@pytest.mark.parametrize("batch", range(4))
@pytest.mark.sampled(4)
def test_random_graphs_load_to_the_same_graph(batch: int, tmp_path: Path) -> None:
    for seed in range(batch * 25, batch * 25 + 25):
        case = make(Random(seed), 14)
        same(Model(case.graph, case.weights), tmp_path)


@pytest.mark.parametrize("target", ["c", "cpu"])
@pytest.mark.sampled(4)
def test_random_graphs_build_to_the_same_bytes(target: str, tmp_path: Path) -> None:
    """Nodes of these graphs have no names, so the comments that tell names are compared from the
    second writing on.
    """
    for seed in range(10):
        case = make(Random(seed), 12)
        model = Model(case.graph, case.weights)
        found = again(model, tmp_path)
        direct, through = sources(model, target), sources(found, target)
        assert {k: bare(v) for k, v in direct.items()} == {
            k: bare(v) for k, v in through.items()
        }, f"seed {seed}"
        assert sources(again(found, tmp_path), target) == through, f"seed {seed}"


SPECS = Path(__file__).parents[2] / "specs"


@pytest.mark.parametrize(
    "file", [f for f in MODELS if f.stem not in ("resnet50", "mobilenet_v2")], ids=lambda p: p.stem
)
@pytest.mark.sampled(8)
def test_shipped_specs_build_to_the_same_bytes(file: Path, tmp_path: Path) -> None:
    model = load(file)
    found = again(model, tmp_path)
    assert show(found.graph) == show(model.graph)
    assert sources(found, "c") == sources(model, "c")


@pytest.mark.parametrize("name", sorted(OPS))
@pytest.mark.sampled(16)
def test_every_sample_of_every_op_loads_to_the_same_graph(name: str, tmp_path: Path) -> None:
    chosen = list(cases(OPS[name]))[: None if ALL else 10]
    if chosen:
        same(model_of(chosen)[0], tmp_path)


def test_symbolic_sizes_keep_their_bounds(tmp_path: Path) -> None:
    batch, tokens = symbol("batch size", 1, 8, 4, 2), symbol("T", 0, 64, 16)
    x = Node.of(Param("x", Type(F32, (batch, tokens, 4))))
    y = build.reshape(build.concat([x, x], 1), (batch * 2 * tokens, 4))
    cut = build.cut(y, 0, 0, (batch * tokens) // 2)
    named = {"batch size": batch.parts[0][0][0], "T": tokens.parts[0][0][0]}
    found = again(
        of({"y": y, "z": cut}, x, dims=named, precision="fast", doc="two: sizes"), tmp_path
    )
    assert {k: (s.min, s.max, s.opt, s.multiple_of) for k, s in found.dims.items()} == {
        "batch_size": (1, 8, 4, 2),
        "T": (0, 64, 16, 1),
    }
    assert show(again(found, tmp_path).graph) == show(found.graph)
    assert str(found.graph.outputs["y"].type) == "f32[2*T*batch_size, 4]"


# ---- names -------------------------------------------------------------------------------------


def test_foreign_names_are_kept_as_origins(tmp_path: Path) -> None:
    """Clean names in the file; what the source called a node is what the graph, and every message,
    calls it.
    """
    x = Node.of(Param("input.1", Type(F32, (4,))), origin=Origin("input.1"))
    w = Node.of(Param("onnx::Mul_7", Type(F32, (4,)), "weight"), origin=Origin("onnx::Mul_7"))
    a = Node.of(build.apply1("mul", x, w).op, x, w, origin=Origin("/layer.0/Mul"))
    b = Node.of(build.apply1("tanh", a).op, a, origin=Origin("/layer.0/Mul"))
    c = Node.of(build.apply1("exp", b).op, b, origin=Origin("7"))
    d = Node.of(build.apply1("neg", c).op, c, origin=Origin("a $ “b”\n"))
    model = Model(
        Graph("m", (x,), {"out:0": d, "out 1": b}), {"onnx::Mul_7": np.ones(4, np.float32)}
    )
    found = again(model, tmp_path)
    assert show(found.graph) == show(model.graph)
    written = (tmp_path / "again.yaml").read_text()
    assert (
        "layer.0.Mul~1: {op: mul" in written
        and "n7: {op: exp" in written
        and 'from: "onnx::Mul_7"' in written
    )
    assert list(found.weights) == ["onnx::Mul_7"] and set(found.graph.outputs) == {"out:0", "out 1"}


@pytest.mark.parametrize(("name", "wanted"), [
    ("h1", "h1"), ("layer.0.up", "layer.0.up"),
    ("/encoder/layer.0/MatMul", "encoder.layer.0.MatMul"), ("123", "n123"), ("a.0b", "a.n0b"),
    ("while", "while_"), ("x.in", "x.in_"), ("true", "true_"), ("", "n"), ("$", "n"),
    ("a b", "a_b"), ("é", "n"), ("a/", "a"), ("x" * 500, "x" * 240),
])  # fmt: skip
def test_names_are_cleaned(name: str, wanted: str) -> None:
    assert clean(name) == wanted and clean(wanted) == wanted


# ---- constants ---------------------------------------------------------------------------------

NUMBERS = [
    0.1,
    -0.0,
    1 / 3,
    1e-45,
    5e-324,
    65504.0,
    float("inf"),
    float("-inf"),
    float("nan"),
    3.4e38,
    1e-8,
]


@pytest.mark.parametrize("dtype", list(DType), ids=str)
def test_constants_are_exact(dtype: DType, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    arrays: list[Array] = [np.empty(s, dtype.numpy) for s in ((0,), (3, 0), (0, 2, 2))]
    for shape in ((), (1,), (5,), (2, 3), (40,), (3, 4, 5)):
        raw = rng.integers(0, 256, (*shape, dtype.nbytes), np.uint8)
        raw = raw % 2 if dtype is DType.BOOL else raw
        arrays.append(np.ascontiguousarray(raw).view(dtype.numpy).reshape(shape))
    if dtype.is_float:
        with np.errstate(all="ignore"):
            arrays.append(np.array(NUMBERS).astype(dtype.compute.numpy).astype(dtype.numpy))
    elif dtype is not DType.BOOL:
        arrays.append(np.array([np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max], dtype.numpy))
    arrays.append(np.full((70, 3), arrays[3]))
    model = of({f"y{i}": Node.of(Const(a)) for i, a in enumerate(arrays)})
    found = again(model, tmp_path)
    for i, want in enumerate(arrays):
        got = found.graph.outputs[f"y{i}"].op.value  # type: ignore[attr-defined]
        assert (
            got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()
        ), i


def test_numbers_are_short() -> None:
    assert constant(np.array([0.1, 2.0], np.float32)) == {"value": [0.1, 2.0], "dtype": "f32"}
    assert constant(np.full((4, 4), 0.5, np.float16)) == {"type": "f16[4, 4]", "value": 0.5}
    assert constant(np.array([0x7FC00001], np.uint32).view(np.float32)) == {
        "type": "f32[1]",
        "bits": [0x7FC00001],
    }


def test_large_constants_go_to_the_weights_file(tmp_path: Path) -> None:
    table = np.random.default_rng(0).normal(size=(30, 20)).astype(np.float32)
    x = vector("x", F32, 30, 20)
    found = same(of({"y": build.add(x, build.constant(table))}, x), tmp_path)
    assert not found.weights and (tmp_path / "again.safetensors").stat().st_size < 3000
    from safetensors.numpy import load_file

    (stored,) = load_file(tmp_path / "again.safetensors").values()
    np.testing.assert_array_equal(stored, table)


def test_a_graph_that_no_spec_can_say_is_named() -> None:
    x = vector("x")
    strange = Node.of(effect.CustomCall("f", (("key", object()),), (Type(F32),)), x)
    with pytest.raises(UnsupportedError, match="XL1022"):
        text(of({"y": strange}, x))
