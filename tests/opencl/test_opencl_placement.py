"""Models with some nodes on a device with OpenCL and some on the processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac

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


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("sizes", ["symbolic", "specialize"])
@pytest.mark.parametrize("other", ["cpu", "c", "reference"])
def test_state_and_open_sizes(tmp_path: Path, other: str, sizes: Any) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(SPEC, "utf-8")
    places = {"up": "opencl", "y": "opencl", "*": other}
    ours, single = xlac.compile(path, place=places, sizes=sizes), xlac.compile(path)
    for rows in (1, 4, 3, 16):
        x = np.random.default_rng(rows).standard_normal((rows, 8), np.float32)
        np.testing.assert_allclose(ours(x), single(x), rtol=2e-5, atol=2e-5)
    ours.reset()
    single.reset()
    np.testing.assert_allclose(ours(x), single(x), rtol=2e-5, atol=2e-5)
