"""Stages on a device with OpenCL beside stages of the processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import assert_stages_like_numpy

import xlac
from xlac.placement import arrange, predict, split
from xlac_sdk.host.calls.in_flight import begin

LARGE = """\
xlac: 1
inputs: {x: "f32[600, 600]", w: "f32[600, 600]"}
graph:
  first: exp(x)
  near: w * 2.0
  second: log(near)
  y: first + second
outputs: [y, first]
place: {near: cpu, y: c, "*": opencl}
"""


@pytest.fixture(autouse=True)
def divided(device: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages are divided however small they are."""
    monkeypatch.setattr(split, "WORTH", -1.0)


@pytest.mark.parametrize("gain", [-1.0, 1.0])
def test_arrays_that_the_device_uses_where_they_are(
    tmp_path: Path, gain: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of 1 MiB and more; in one thread, and in three."""
    monkeypatch.setattr(arrange, "GAIN", gain)
    monkeypatch.setattr(predict, "processors", lambda: 64.0)
    path = tmp_path / "m.yaml"
    path.write_text(LARGE, "utf-8")
    model: Any = xlac.compile(path)
    assert len(model._code.order.threads) == (3 if gain < 0 else 1)
    assert len(model._code.order.overlapping) == 2
    generator = np.random.default_rng(0)
    for _ in range(3):
        x, w = (generator.uniform(1, 2, (600, 600)).astype(np.float32) for _ in range(2))
        found = model(x=x, w=w)
        np.testing.assert_allclose(found["first"], np.exp(x), rtol=1e-5)
        np.testing.assert_allclose(found["y"], np.exp(x) + np.log(w * 2), rtol=1e-5)


def test_calls_in_parts_take_turns(tmp_path: Path) -> None:
    """Also those that end before they start."""
    path = tmp_path / "m.yaml"
    path.write_text("xlac: 1\ninputs: {x: 'f32[8]'}\ngraph: {y: x + 1.0}\noutputs: [y]\n", "utf-8")
    code: Any = xlac.compile(path, target="opencl").executable
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    for started in (False, True, True):
        call = begin(code)
        call.send("x", x)
        if started:
            call.start({"y": y})
            call.wait("y")
            np.testing.assert_array_equal(y, 2.0)
        call.end()
        y[...] = 0
    code.run({"x": x}, {"y": y})
    np.testing.assert_array_equal(y, 2.0)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("targets", [("cpu", "opencl"), ("opencl", "c", "reference")])
def test_random_graphs_in_random_stages(
    seed: int, targets: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a half of the cases each target has a thread of its own, however small stages are."""
    if seed % 2:
        monkeypatch.setattr(arrange, "GAIN", -1.0)
    assert_stages_like_numpy(seed, targets)
