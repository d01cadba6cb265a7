"""Exported modules give what ours give when XLA compiles them, and when our own importer reads them
back.

`make test-export` runs every sample of every operation, `make test` a few of each.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from graphs import make
from shipped import MODELS
from stablehlo_runs import F32, I32, agree, inputs_of, of, read_back, run

from xlac.cli import status
from xlac.exporters.stablehlo import text, write
from xlac.exporters.stablehlo.erf import erf
from xlac.exporters.stablehlo.literals import constant_text
from xlac.frontends.loader import load
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.control import control, effect
from xlac.ops.reduction import order, reduction
from xlac.ops.reduction.window import Window
from xlac.ops.tensor.scatter import Scatter
from xlac_sdk.dtypes import DType
from xlac_sdk.source import UnsupportedError

ALL = bool(os.environ.get("XLAC_EXPORT_ALL"))
SPECS = Path(__file__).parents[2] / "specs"
LARGE = {
    "resnet50",
    "mobilenet_v2",
    "elementwise_chain",
    "mul_add_reduce",
    "softmax",
    "bias_relu_softmax",
    "bert_layer",
    "gpt2_decode",
}


@pytest.mark.parametrize(
    "file", [f for f in MODELS if ALL or f.stem not in LARGE], ids=lambda p: p.stem
)
def test_shipped_specs(file: Path) -> None:
    dims = {
        name: min(s.max, max(s.min, 3)) // s.multiple_of * s.multiple_of or s.multiple_of
        for name, s in load(file).dims.items()
    }
    model = load(file, dims=dims)
    agree(model, inputs_of(model), 2e-4)


def test_random_graphs() -> None:
    coarse = {DType.F64: 1e-9, DType.F32: 2e-4, DType.F16: 4e-2, DType.BF16: 2.5e-1}
    for seed in range(200 if ALL else 6):
        case = make(Random(seed), 10)
        most = max(
            (coarse[t.dtype] for n in case.graph.nodes() for t in n.results if t.dtype.is_float),
            default=0.0,
        )
        agree(Model(case.graph, case.weights), case.inputs, most)


def test_loops_and_choices(tmp_path: Path) -> None:
    x, n, seq = (
        build.param(*a)
        for a in (("x", DType.F32, (4,)), ("n", DType.I32, ()), ("seq", DType.F32, (5, 4)))
    )
    vec = Type(DType.F32, (4,))
    test = build.graph("t", [I32, vec, I32], lambda i, a, n: build.compare(i, "lt", n))
    body = build.graph(
        "b", [I32, vec, I32], lambda i, a, n: (build.add(i, 1), build.mul(a, 0.5), n)
    )
    loop = Node.of(control.While(test, body), build.constant(0), x, n)
    step = build.graph(
        "s", [vec, vec, vec], lambda h, s, w: (build.add(h, build.mul(s, w)), build.sub(s, h))
    )
    scan = Node.of(control.Scan(step, 5, 1, 1, True), x, seq, x)
    branches = tuple(
        build.graph(f"b{k}", [vec], lambda a, k=k: build.add(a, float(k))) for k in range(3)
    )
    chosen = Node.of(control.Cond(branches), n, x)
    called = Node.of(control.Call(branches[1], "b1"), x)
    model = of(
        {
            "half": build.pick(loop, 1),
            "h": build.pick(scan, 0),
            "y": build.pick(scan, 1),
            "c": chosen,
            "k": called,
        },
        x,
        n,
        seq,
    )
    for number in (0, 1, 2, 7, -3):
        given = {**inputs_of(model), "n": np.asarray(number, np.int32)}
        agree(model, given)
    read_back(text(model), model, given, tmp_path)


def test_bodies() -> None:
    x, i = build.param("x", DType.F32, (3, 5)), build.param("i", DType.I32, (3, 5))

    def best(a: Node, p: Node, b: Node, q: Node) -> tuple[Node, Node]:
        first = build.compare(a, "ge", b)
        return build.select(first, a, b), build.select(first, p, q)

    arg = Node.of(
        reduction.Reduce((1,), "body", build.graph("best", [F32, I32, F32, I32], best)),
        x,
        i,
        build.constant(-np.inf, DType.F32),
        build.constant(0),
    )
    ones, more = (1, 1), build.graph("add", [F32, F32], lambda a, b: build.add(a, b))
    window = Node.of(
        Window("body", more, (1, 2), ones, (0, 0), (0, 0), ones, ones), x, build.constant(0.0)
    )
    sort = Node.of(
        order.Sort(1, body=build.graph("less", [F32, F32], lambda a, b: build.compare(a, "gt", b))),
        x,
    )
    at = build.constant(np.array([[2], [0], [7]], np.int32))
    into = Scatter((1,), (0,), (), (), (0,), 1, "body", more)
    scatter = Node.of(into, x, at, build.cast(i, DType.F32))
    model = of(
        {"v": build.pick(arg, 0), "p": build.pick(arg, 1), "w": window, "s": sort, "t": scatter},
        x,
        i,
    )
    agree(model, {"x": inputs_of(model)["x"], "i": np.arange(15, dtype=np.int32).reshape(3, 5)})


@pytest.mark.parametrize("combine", ["add", "assign", "body"])
def test_windows_that_are_partly_outside(combine: str, tmp_path: Path) -> None:
    """Ours are dropped where they are outside, XLA's whole."""
    x, u = build.param("x", DType.F32, (5, 4)), build.param("u", DType.F32, (6, 2, 3))
    at = build.constant(
        np.array([[0, 0], [-1, 1], [4, 2], [9, 0], [2, -2], [2**31 - 1, 3]], np.int32)
    )
    more = build.graph("more", [F32, F32], lambda a, b: build.add(build.mul(a, 2.0), b))
    body = more if combine == "body" else None
    model = of(
        {"y": Node.of(Scatter((1, 2), (), (), (), (0, 1), 1, combine, body), x, at, u)}, x, u
    )
    agree(model, inputs_of(model))
    read_back(text(model), model, inputs_of(model), tmp_path)


@pytest.mark.parametrize("dtype", list(DType), ids=str)
def test_constants_are_exact(dtype: DType) -> None:
    rng = np.random.default_rng(1)
    arrays: list[Array] = [np.empty((0, 3), dtype.numpy)]
    for shape in ((), (5,), (2, 3), (40,), (3, 4, 5)):
        raw = rng.integers(0, 256, (*shape, dtype.nbytes), np.uint8)
        raw = raw % 2 if dtype is DType.BOOL else raw
        arrays.append(np.ascontiguousarray(raw).view(dtype.numpy).reshape(shape))
    module = text(of({f"y{i}": build.constant(a) for i, a in enumerate(arrays)}))
    for got, want in zip(run(module, []), arrays, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        if not dtype.is_float:
            np.testing.assert_array_equal(got, want)
        else:
            np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))


def test_numbers_are_short() -> None:
    assert constant_text(np.array([0.1, 2.0], np.float32)) == "dense<[0.1, 2.0]> : tensor<2xf32>"
    assert constant_text(np.full((4, 4), 1e-30, np.float32)) == "dense<1.0e-30> : tensor<4x4xf32>"
    assert constant_text(np.array(np.inf, np.float16)) == "dense<0x7C00> : tensor<f16>"
    assert constant_text(np.array([True, False])) == "dense<[true, false]> : tensor<2xi1>"


def test_the_error_function_is_accurate_everywhere() -> None:
    from math import erf as exact

    x = np.concatenate(
        [np.linspace(-7, 7, 4001), [0.0, -0.0, 1e-300, 0.46875, 4.0, 30.0, np.inf, -np.inf, np.nan]]
    )
    node = build.param("x", DType.F64, x.shape)
    found = interpret(Graph("erf", (node,), {"y": erf(node)}), {"x": x}, {})["y"]
    np.testing.assert_allclose(found, [exact(v) for v in x], rtol=2e-15, atol=0)


def test_everything_that_cannot_be_said_is_said_at_once() -> None:
    x = build.param("x", DType.F32, (4,))
    calls = [Node.of(effect.CustomCall(f"f{k}", (("a", k),), (F32,)), x) for k in range(2)]
    with pytest.raises(UnsupportedError) as caught:
        text(of({"a": calls[0], "b": calls[1]}, x))
    assert [d.code for d in caught.value.diagnostics] == ["XL7402"]
    plain = text(of({"a": Node.of(effect.CustomCall("f", (), (F32,)), x)}, x))
    assert 'call_target_name = "f"' in plain


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "d.mlir"
    assert (
        status(
            [
                "export",
                str(SPECS / "digits.yaml"),
                "--to",
                "stablehlo",
                "--dim",
                "batch=2",
                "-o",
                str(made),
            ]
        )
        == 0
    )
    assert "d.mlir" in capsys.readouterr().out
    model = load(SPECS / "digits.yaml", dims={"batch": 2})
    assert made.read_text() == text(model)
    seen: list[Any] = []
    write(model, made, lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1]
    given = inputs_of(model)
    read_back(made.read_text(), model, given, tmp_path)
