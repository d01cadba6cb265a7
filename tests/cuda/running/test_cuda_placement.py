"""Models with some nodes on a GPU and some on the processor: values cross through the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from placed import assert_equal, drawn_places, placed, random_inputs
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


@pytest.mark.parametrize("name", ["digits", "lstm_stream", "tagger"])
def test_a_shipped_model(name: str) -> None:
    model = specialized(load(FOLDER / f"{name}.yaml"))
    ours, single = placed(model, drawn_places(model, ["cuda", "cpu"], 3)), xlac.compile(model)
    for call in range(2):
        assert_equal(ours, single, random_inputs(model, call))
