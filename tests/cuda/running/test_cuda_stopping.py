"""Between the host's steps a call looks whether it is to stop; what it has half changed is refused
until reset.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xlac
from xlac.driver import executable, lower
from xlac.spec.load import load
from xlac_cuda.backend import CudaBackend
from xlac_cuda.run.steps import BLOCKING
from xlac_sdk.target import Request

ENDLESS = """
xlac: 1
model: endless
inputs: {n: "i32[]", x: "f32[64]"}
state: {total: {type: "f32[64]", next: total + x}}
graph:
  more: total + x
  loop:
    while: (value < 2) & (n > 0)
    carry: {value: "0 * reduce_max(more)"}
    next: {value: value * 0.5}
outputs: {k: loop.value, after: reduce_max(more)}
"""


def test_a_loop_of_the_host_is_stopped(
    backend: CudaBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BLOCKING, "1")  # no graphs, whose loops a GPU runs by itself
    file = tmp_path / "endless.yaml"
    file.write_text(ENDLESS)
    model = executable(lower(load(file), backend.target(Request())), backend)
    none, some, x = np.zeros((), "i4"), np.ones((), "i4"), np.ones(64, "f4")
    assert model(none, x)["after"] == 1
    with pytest.raises(TimeoutError, match="XL4041"), xlac.timeout(0.1):
        model(some, x)
    with pytest.raises(xlac.SourceError, match="XL6041"):
        model(none, x)
    model.reset()
    assert model(none, x)["after"] == 1 and model(none, x)["after"] == 2
    model.executable.close()  # type: ignore[attr-defined]
