"""Models with some nodes on a GPU and some on the processor: values cross through the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shipped import FOLDER

import xlac
from xlac import driver
from xlac.driver import specialized
from xlac.frontends.loader import load
from xlac_cuda.backend import CudaBackend
from xlac_sdk.host.registry import find

SPEC = """\
xlac: 1
dims: {n: {min: 1, max: 16, opt: 4}}
inputs: {x: "f32[n, 8]"}
state: {calls: {type: "f32[]", next: now}}
weights: {init: {seed: 0}}
graph:
  now: calls + 1.0
  up: {op: linear, in: x, units: 32}
  scaled: up * now
  down: {op: linear, in: relu(scaled), units: 8}
  y: down + x * now
outputs: [y]
"""


def assert_equal(ours: Any, single: Any, given: dict[str, Any]) -> None:
    """Asserts that two programs with one output give the same, but for the order of sums."""
    np.testing.assert_allclose(ours(**given), single(**given), rtol=2e-5, atol=2e-5)


@pytest.fixture(autouse=True)
def cuda(backend: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name cuda means the backend of these tests."""
    monkeypatch.setattr(driver, "find", lambda name: backend if name == "cuda" else find(name))


@pytest.mark.parametrize("other", ["cpu", "c", "reference"])
def test_state_and_open_sizes(tmp_path: Path, other: str) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(SPEC, "utf-8")
    places = {"up": "cuda", "y": "cuda", "*": other}
    ours: Any = xlac.compile(path, place=places, sizes="symbolic")
    single = xlac.compile(path)
    assert {stage.target.name for stage in ours.stages} == {"cuda", other}
    for rows in (1, 4, 3, 16):
        x = np.random.default_rng(rows).standard_normal((rows, 8), np.float32)
        assert_equal(ours, single, {"x": x})
    ours.reset()
    single.reset()
    assert_equal(ours, single, {"x": x})


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("digits", {"a1": "cuda"}),
        ("lstm_stream", {"middle": "cuda", "high.gates": "cuda"}),
        ("tagger", {"*_rows": "cuda", "l2": "cuda"}),
    ],
)
def test_a_shipped_model(name: str, places: dict[str, str]) -> None:
    model = specialized(load(FOLDER / f"{name}.yaml"))
    ours, single = xlac.compile(model, place=places), xlac.compile(model)
    for call in range(2):
        generator, given = np.random.default_rng(call), {}
        for node in model.inputs:
            shape, dtype = node.type.shape, node.type.dtype.numpy
            given[node.op.name] = generator.integers(0, 2, shape).astype(dtype)
        assert_equal(ours, single, given)
