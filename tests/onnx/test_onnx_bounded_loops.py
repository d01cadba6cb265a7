"""Loops whose most steps a file says, and that data ends sooner: they have gradients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xlac.autodiff.gradient import linearize
from xlac.frontends.loader import load
from xlac.ir.graph import Graph, walk
from xlac.ir.interpret import interpret
from xlac.ops import build
from xlac.ops.control.bounded import BoundedWhile
from xlac_sdk.dtypes import DType

onnx = pytest.importorskip("onnx")


def written(folder: Path, most: int, *, stacked: bool = False) -> Path:
    """Halves x until it is below 0.1, at most so often."""
    from onnx import TensorProto as T
    from onnx import helper as h

    def value(name: str, kind: int, shape: list[int]) -> object:
        return h.make_tensor_value_info(name, kind, shape)

    def constant(name: str, kind: int, number: float) -> object:
        return h.make_node("Constant", [], [name], value=h.make_tensor(name, kind, [], [number]))

    body = h.make_graph(
        [
            constant("half", T.DOUBLE, 0.5),
            constant("least", T.DOUBLE, 0.1),
            h.make_node("Mul", ["v", "half"], ["w"]),
            h.make_node("Greater", ["w", "least"], ["more"]),
            h.make_node("Identity", ["w"], ["part"]),
        ],
        "body",
        [value("i", T.INT64, []), value("c", T.BOOL, []), value("v", T.DOUBLE, [])],
        [value("more", T.BOOL, []), value("w", T.DOUBLE, []), value("part", T.DOUBLE, [])][
            : 3 if stacked else 2
        ],
    )
    graph = h.make_graph(
        [
            constant("most", T.INT64, most),
            h.make_node(
                "Loop", ["most", "", "x"], ["y", "parts"][: 2 if stacked else 1], body=body
            ),
        ],
        "loop",
        [value("x", T.DOUBLE, [])],
        [value("y", T.DOUBLE, [])],
    )
    file = folder / "loop.onnx"
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), file)
    return file


@pytest.mark.parametrize(("most", "steps"), [(20, 4), (2, 2)])
def test_a_loop_with_a_bound_has_a_gradient(most: int, steps: int, tmp_path: Path) -> None:
    graph = load(written(tmp_path, most)).graph
    assert any(isinstance(n.op, BoundedWhile) for n in walk(graph.outputs.values()))
    found = linearize(list(graph.outputs.values()), graph.inputs)
    one = build.constant(1.0, DType.F64)
    (gradient,) = found.transposed([one])
    outputs = {"y": found.values[0], "g": gradient}
    answer = interpret(Graph("g", graph.inputs, outputs), {"x": np.asarray(1.0)})
    assert answer["y"] == answer["g"] == 0.5**steps
