"""Exported ONNX models run by ONNX Runtime or, where it lacks a kernel, by ONNX's own evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlac.exporters.onnx import proto
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.model import Model
from xlac_sdk.dtypes import DType

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
ort.set_default_logger_severity(4)
SPECS = Path(__file__).parents[2] / "specs"


def run(made: Any, feeds: Mapping[str, Array]) -> tuple[dict[str, Array], str]:
    """The outputs of an ONNX model, and why ONNX Runtime did not give them, if it did not."""
    names = [o.name for o in made.graph.output]
    feeds = {i.name: feeds[i.name] for i in made.graph.input}
    bf16 = [
        v.name
        for v in (*made.graph.input, *made.graph.output)
        if v.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16
    ]
    why = "NumPy has no bf16 to hand over" if bf16 else ""
    if not why:
        try:
            session = ort.InferenceSession(
                made.SerializeToString(), providers=["CPUExecutionProvider"]
            )
            return dict(zip(names, session.run(None, feeds), strict=True)), ""
        except Exception as error:
            why = (
                str(error)
                .split(" : ", 3)[-1]
                .split(" with name")[0]
                .split(" node '")[0]
                .strip()[:120]
            )
    from onnx.reference import ReferenceEvaluator

    with np.errstate(all="ignore"):
        found = ReferenceEvaluator(made, new_ops=[gather_elements()]).run(None, feeds)
    return {n: np.asarray(v) for n, v in zip(names, found, strict=True)}, why


def gather_elements() -> Any:
    """What ONNX's evaluator uses for it: its own takes no more than 64 along the axis."""
    from onnx.reference.op_run import OpRun

    class GatherElements(OpRun):  # type: ignore[misc]
        def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
            return (np.take_along_axis(data, indices, axis),)

    return GatherElements


def inputs_of(model: Model, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    found = {}
    for node in model.graph.inputs:
        shape, dtype = tuple(int(s) for s in node.shape), node.type.dtype  # type: ignore[arg-type]
        kind = rng.integers(0, 2, shape) if not dtype.is_float else rng.normal(0, 1, shape)
        found[node.op.name] = np.asarray(kind).astype(dtype.numpy)  # type: ignore[attr-defined]
    return found


def agree(
    model: Model, given: Mapping[str, Array], tolerance: float = 2e-5, made: Any = None
) -> None:
    made = made if made is not None else proto(model)
    onnx.checker.check_model(made)
    found, why = run(made, given)
    assert not why
    for name, want in interpret(model.graph, given, model.weights).items():
        scale = (
            max(1.0, float(np.abs(np.asarray(want, np.float64)).max(initial=0.0)))
            if want.dtype.kind == "f"
            else 1.0
        )
        np.testing.assert_allclose(
            found[name] / scale, want / scale, rtol=0, atol=tolerance, err_msg=name
        )


def of(outputs: Mapping[str, Node], *inputs: Node, **more: Any) -> Model:
    return Model(Graph("made", tuple(inputs), dict(outputs)), {}, **more)


F32, I32 = Type(DType.F32), Type(DType.I32)
