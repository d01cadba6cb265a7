"""The shipped specs load, and have the parameters and the meaning that they are known by."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from shipped import MODELS
from spec_models import random, run

from xlac.ir.verify import verify
from xlac.spec.load import load
from xlac.spec.summary import summarize

SPECS = Path(__file__).parents[3] / "specs"


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("resnet50", 25_557_032),
        ("mobilenet_v2", 3_504_872),
        ("lstm_3x60", 87_120),
        ("digits", 9_610),
    ],
)
def test_parameters(name: str, parameters: int) -> None:
    assert (
        summarize(load(SPECS / f"{name}.yaml", weights=False))["totals"]["parameters"] == parameters
    )


@pytest.mark.parametrize("file", MODELS, ids=lambda p: p.stem)
def test_shipped_specs_load_and_verify(file: Path) -> None:
    verify((found := load(file, weights=False)).graph)
    assert found.graph.outputs


def test_the_stacked_lstm_is_an_lstm() -> None:
    found = load(SPECS / "lstm_3x60.yaml", dims={"B": 2, "T": 5})
    x = random(2, 5, 60)
    out = run(found, x=x)
    h = [np.zeros((2, 60))] * 3
    c = [np.zeros((2, 60))] * 3
    w = found.weights
    for t in range(5):
        y = x[:, t].astype(np.float64)
        for k in range(3):
            name = f"rnn.layer.{k}.gates"
            gates = y @ w[f"{name}.weight_0"].T + h[k] @ w[f"{name}.weight_1"].T + w[f"{name}.bias"]
            i, f, g, o = np.split(gates, 4, axis=1)
            c[k] = 1 / (1 + np.exp(-f)) * c[k] + 1 / (1 + np.exp(-i)) * np.tanh(g)
            h[k] = y = 1 / (1 + np.exp(-o)) * np.tanh(c[k])
    np.testing.assert_allclose(out["h_n"], np.stack(h), atol=1e-5)
    np.testing.assert_allclose(out["y"][:, -1], h[-1], atol=1e-5)
