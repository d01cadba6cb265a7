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


def nested(name: str) -> Node:
    """An operation with a body of f32 over x f32[4]: a tenth of a sum is added to x."""
    a, b, x = (build.param(n, F32, s) for n, s in (("a", ()), ("b", ()), ("x", (4,))))
    add = Graph("add", (a, b), {"sum": build.add(build.mul(a, np.float32(0.1)), b)})
    zero = build.constant(np.float32(0))
    match name:
        case "reduce":
            return Node.of(OPS["reduce"]((0,), "body", add), x, zero)
        case "window":
            places = {"strides": (1,), "low": (0,), "high": (0,), "base_dilation": (1,)}
            given = {**places, "window_dilation": (1,), "window": (2,)}
            window = OPS["window"](combine="body", body=add, **given)
            return Node.of(window, x, zero)
        case "scatter":
            rows = {"inserted_window_dims": (0,), "scatter_dims_to_operand_dims": (0,)}
            scatter = OPS["scatter"](combine="body", body=add, index_vector_dim=1, **rows)
            indices = build.constant(np.array([0, 2], np.int32))
            return Node.of(scatter, x, indices, build.constant(np.array([0.1, 0.2], np.float32)))
        case _:
            less = Graph("less", (a, b), {"less": build.compare(a, "lt", b)})
            return Node.of(OPS["sort"](0, body=less), x)


@pytest.mark.parametrize("name", ["reduce", "window", "scatter", "sort"])
def test_bodies_are_interpreted_in_float64_too(name: str) -> None:
    given = {"x": np.array([0.1, 0.7, 0.3, 0.2], np.float32)}
    node = nested(name)
    graph = Graph("g", tuple(n for n in node.inputs if n.op.mnemonic == "param"), {"y": node})
    narrow, wide = interpret(graph, given)["y"], interpret(graph, given, float64=True)["y"]
    assert wide.dtype == np.float64
    np.testing.assert_allclose(wide, narrow, rtol=1e-6)
    assert name == "sort" or (wide != narrow).any()


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
