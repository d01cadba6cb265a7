"""ONNX in, YAML out, built: the same graph and the same bytes as a direct build."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from alike import equal

from xlac.driver import lower, specialized
from xlac.exporters.onnx import write as export
from xlac.exporters.spec import write
from xlac.frontends.loader import load
from xlac.ir.graph import Graph, Node
from xlac.ir.op import OPS
from xlac.ir.origins import spread
from xlac.ir.text import show
from xlac.model import Model
from xlac.ops import build
from xlac_sdk.host.registry import find
from xlac_sdk.source import Origin, SourceError
from xlac_sdk.target import Request

STRIDE = 2 if os.environ.get("XLAC_EXPORT_ALL") else 120  # of ONNX's own node tests, one in so many


def sources(model: Model, target: str) -> dict[str, str]:
    backend = find(target)
    facts = backend.target(Request())
    return dict(backend.emit(lower(specialized(model), facts).program, facts))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.long
def test_onnx_through_yaml_is_onnx_directly(tmp_path: Path) -> None:
    node = pytest.importorskip("onnx.backend.test.case.node")
    built = 0
    for case in node.collect_testcases(None)[::STRIDE]:
        try:
            model = load(case.model)
        except SourceError:
            continue  # what cannot be imported is counted by the importer's own tests
        write(model, tmp_path / "m.yaml")
        found = load(tmp_path / "m.yaml")
        equal(model.graph, found.graph)
        for target in ("c", "cpu") if built % 10 == 0 else ("c",):
            assert sources(found, target) == sources(model, target), case.name
        built += 1
    assert built >= 9


def test_every_node_of_an_import_can_be_named() -> None:
    x = build.param("x", OPS["iota"]().dtype, (4,))
    inner = build.mul(x, x)
    named = build.placed(build.add(inner, 1), Origin("Sum_3"))
    branch = build.graph("b", [x.type], lambda a: build.mul(a, 2))
    chosen = OPS["cond"](branches=(branch, branch))  # type: ignore[call-arg]
    last = Node.of(chosen, build.constant(0), named)
    graph = Graph("g", (x,), {"y": last})
    found = spread(graph)
    assert {n.name for n in found.nodes() if n.inputs or n.op.mnemonic == "const"} == {"Sum_3", "y"}
    (cond,) = (n for n in found.nodes() if n.op.mnemonic == "cond")
    assert {n.name for n in cond.op.bodies()[0].nodes() if n.inputs} == {"y"}
    assert spread(found) is found and re.match("y", found.outputs["y"].name)


@pytest.mark.skipif(
    not os.environ.get("XLAC_EXPORT_ALL"), reason="make test-export runs whole models"
)
@pytest.mark.parametrize(
    "name", ["squeezenet", "shufflenet", "inception_v1", "densenet121", "resnet50"]
)
def test_light_models_there_and_back(name: str, tmp_path: Path) -> None:
    onnx, ort = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    file = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"light_{name}.onnx"
    model = load(file)
    write(model, tmp_path / "m.yaml")
    found = load(tmp_path / "m.yaml")
    assert show(found.graph, arrays=False) == show(model.graph, arrays=False)
    assert sources(found, "c") == sources(model, "c")
    made, *_ = export(found, tmp_path / "m.onnx")
    sessions = [
        ort.InferenceSession(str(f), providers=["CPUExecutionProvider"]) for f in (file, made)
    ]
    given = {
        i.name: np.random.default_rng(0).normal(size=i.shape).astype(np.float32)
        for i in sessions[0].get_inputs()
    }
    first, second = (session.run(None, given) for session in sessions)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
