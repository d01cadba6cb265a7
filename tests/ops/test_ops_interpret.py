"""Interpreting graphs: deep ones, what is dropped, in float64, with inputs that do not fit."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
from op_values import F16, F32, I64, value

from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.op import OPS, Array
from xlac.ops import build
from xlac_sdk.dtypes import DType


def test_deep_graphs_do_not_recurse_and_let_go() -> None:
    x = build.param("x", I64, ())
    node = x
    for _ in range(20_000):
        node = build.add(node, 1)
    assert value(node, x=np.int64(5)) == 20_005


def test_values_are_dropped_after_their_last_use(monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[weakref.ref[Any]] = []
    most = 0

    def evaluate(self: Any, *arrays: Array) -> Array:
        nonlocal most
        result = arrays[0] + 1.0
        alive.append(weakref.ref(result))
        most = max(most, sum(r() is not None for r in alive))
        return result

    monkeypatch.setattr(OPS["exp"], "evaluate", evaluate)
    node = build.param("x", DType.F64, (10,))
    for _ in range(20):
        node = build.exp(node)
    value(node, x=np.zeros(10))
    assert most <= 3


def test_float64_shows_the_meaning_apart_from_rounding() -> None:
    x = build.param("x", F16, (3,))
    y = build.cast(build.add(build.cast(x, F32), 1e-5), F16)
    graph = Graph("g", (x,), {"y": y, "bits": Node.of(OPS["bitcast"](DType.U16), x)})
    inputs = {"x": np.ones(3, np.float16)}
    assert (
        interpret(graph, inputs)["y"].dtype == np.float16
        and (interpret(graph, inputs)["y"] == 1).all()
    )
    wide = interpret(graph, inputs, float64=True)
    np.testing.assert_allclose(wide["y"], 1.00001, 1e-9)
    assert wide["bits"].tolist() == [0x3C00] * 3
    total = build.reduce(build.param("x", F32, (1000,)), "add")
    tenths = np.full(1000, 0.1, np.float32)
    assert (
        interpret(Graph("g", (total.inputs[0],), {"y": total}), {"x": tenths}, float64=True)["y"]
        == float(np.float32(0.1)) * 1000
    )


def test_wrong_inputs() -> None:
    x = build.param("x", F32, (3,))
    graph = Graph("g", (x,), {"y": build.add(x, 1)})
    with pytest.raises(KeyError, match="x"):
        interpret(graph, {})
    with pytest.raises(ValueError, match=r"parameter 'x' is f32\[3\], got float64\[3\]"):
        interpret(graph, {"x": np.zeros(3)})
    w = build.param("w", F32, (3,), "weight")
    found = interpret(
        Graph("g", (x,), {"y": build.add(x, w)}),
        {"x": np.ones(3, np.float32)},
        {"w": np.ones(3, np.float32)},
    )
    assert found["y"].tolist() == [2, 2, 2]
