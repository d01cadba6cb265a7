"""--quantize int8: weights are stored in 8 bits and converted as they are read; the loss is told
and is what it is.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_harness import SPECS, build, needs, run

import xlac
from xlac.driver import Lowered, executable, lower, specialized
from xlac.frontends.loader import load
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.model import Model
from xlac.ops import build as ops
from xlac.ops.reduction.conv import Conv
from xlac.passes.quantize import drawn, loss, quantised
from xlac.passes.weights import Weights
from xlac_sdk.backend import Backend
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.programs.program import Role
from xlac_sdk.target import Request


@pytest.mark.parametrize("target", ["c", "cpu"])
@pytest.mark.parametrize("spec", ["digits", "lstm_3x60", "mlp_small"])
@pytest.mark.sampled(4)
def test_weights_are_an_eighth_of_a_double(spec: str, target: str) -> None:
    """A program over int8 weights agrees with the unquantised graph over weights that were rounded
    as they are.
    """
    backend = find(target)
    model = specialized(load(SPECS / f"{spec}.yaml"))
    made = lower(model, backend.target(Request()), int8=True)
    assert made.quantised is not None and made.quantised.names
    held = {s.dtype for s in made.program.slots if s.role is Role.CONSTANT}
    assert DType.I8 in held and DType.BF16 in held
    integers = sum(
        s.nbytes for s in made.program.slots if s.role is Role.CONSTANT and s.dtype is DType.I8
    )
    floats = sum(made.model.weights[name].size for name in made.quantised.names)
    assert floats <= integers <= floats * 1.25 + 4096  # panels are filled up
    agrees(made, backend)


@pytest.mark.parametrize("target", ["c", "cpu"])
@pytest.mark.parametrize("groups", [1, 2, 16])
@pytest.mark.sampled(4)
def test_convolutions(groups: int, target: str) -> None:
    """Whole, in groups and depthwise, with what follows them."""
    backend = find(target)
    x, kernel = (
        ops.param("x", DType.F32, (2, 7, 6, 16)),
        ops.param("w", DType.F32, (3, 3, 16 // groups, 32 if groups < 16 else 16), "weight"),
    )
    conv = Node.of(
        Conv(("NHWC", "HWIO", "NHWC"), (1, 1), (1, 1), (1, 1), (1, 1), (1, 1), groups), x, kernel
    )
    weights = {"w": np.random.default_rng(1).standard_normal(kernel.shape).astype(np.float32)}
    model = Model(Graph("conv", (x,), {"y": ops.apply1("relu", ops.add(conv, 0.5))}), weights)
    made = lower(model, backend.target(Request()), int8=True)
    assert made.quantised is not None and len(made.quantised.names) == 1
    agrees(made, backend)


def agrees(made: Lowered, backend: Backend) -> None:
    assert made.quantised is not None
    (given, _) = drawn(made.model.graph)
    found = executable(made, backend)(**given)
    expected = interpret(made.model.graph, given, made.quantised.restored(), float64=True)
    for name, value in expected.items():
        got = found[name] if isinstance(found, dict) else found
        np.testing.assert_allclose(
            np.asarray(got).reshape(value.shape), value, rtol=3e-5, atol=3e-6
        )


def test_the_loss_is_told_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = build("lstm_3x60", tmp_path / "lstm", "--quantize", "int8")
    said = capsys.readouterr().out
    told = re.search(
        r"6 weights in int8: results are off by (\S+) at most, (\S+) of the largest", said
    )
    assert told is not None
    kept: dict[str, Any] = json.loads((folder / "manifest.json").read_text())["provenance"][
        "options"
    ]["quantize"]
    assert kept == {
        "weights": "int8",
        "quantised": 6,
        "absolute": float(told[1]),
        "relative": float(told[2]),
    }
    assert 0 < kept["relative"] < 0.02
    x = np.random.default_rng(5).standard_normal((1, 32, 60)).astype(np.float32)
    exact = xlac.compile(SPECS / "lstm_3x60.yaml", target="cpu", dims={"B": 1, "T": 32})(x)
    errors = [
        np.abs(np.asarray(a) - np.asarray(b)).max()
        for a, b in zip(values(xlac.load(folder)(x)), values(exact), strict=True)
    ]
    assert 0 < max(errors) < 3 * kept["absolute"]


def test_the_bar_for_32_bit_arm(tmp_path: Path) -> None:
    needs("arm-linux-gnueabihf-gcc")
    folder = build("lstm_3x60", tmp_path / "lstm", "--quantize", "int8", "--size")
    made = tmp_path / "lstm.o"
    run("arm-linux-gnueabihf-gcc", "-Os", "-c", folder / "lstm_3x60.c", "-o", made)
    assert int(run("arm-linux-gnueabihf-size", made).splitlines()[1].split()[3]) <= 95_000


def test_integers_fill_their_range_and_no_more() -> None:
    rng = np.random.default_rng(3)
    weight = (rng.standard_normal((40, 9)) * 10.0 ** rng.integers(-20, 20, 9)).astype(np.float32)
    weight[:, 4] = 0

    x = ops.param("x", DType.F32, (2, 40))
    product = ops.dot(x, ops.param("w", DType.F32, weight.shape, "weight"), ((1,), (0,)))
    graph = Graph("product", (x,), {"y": product})
    changed, done = quantised(graph, Weights({"w": weight}))
    integers, scales = (done.weights[n] for n in done.names["w"][:2])
    most = np.abs(integers.astype(np.int32)).max(axis=0)
    assert (
        integers.dtype == np.int8
        and (most[:4] >= 126).all()
        and most.max() <= 127
        and not integers[:, 4].any()
    )
    error = np.abs(integers * scales.astype(np.float32) - weight)
    assert (error <= np.abs(weight).max(axis=0) / 127 * 0.51).all()
    assert changed is not graph
    given = [{"x": rng.standard_normal((2, 40)).astype(np.float32)} for _ in range(2)]
    assert loss(graph, done.weights, done, given).relative < 0.02


def values(given: Any) -> list[Any]:
    return (
        list(given.values())
        if isinstance(given, dict)
        else list(given)
        if isinstance(given, tuple)
        else [given]
    )
