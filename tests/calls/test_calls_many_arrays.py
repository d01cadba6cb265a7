"""Programs of more arrays than Python's ctypes passes to a function."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import xlac
from xlac.cli import status

COUNT = 1030
NAMES = [f"x{number}" for number in range(COUNT)]
SPEC = f"""\
xlac: 1
model: wide
inputs: {{{", ".join(f"{name}: 'f32[1]'" for name in NAMES)}}}
graph:
  y: {{op: concat, in: [{", ".join(NAMES)}]}}
outputs: [y]
"""


def test_artefacts_take_them_in_a_table(tmp_path: Path) -> None:
    (tmp_path / "wide.yaml").write_text(SPEC)
    folder = str(tmp_path / "out")
    assert status(["build", str(tmp_path / "wide.yaml"), "--emit", "so,h", "-o", folder]) == 0
    assert "wide_run_table" in (tmp_path / "out" / "wide.h").read_text()
    arrays = [np.full(1, n, np.float32) for n in range(COUNT)]
    made = xlac.load(folder)(*arrays)
    np.testing.assert_array_equal(made, np.arange(COUNT, dtype=np.float32))


def test_the_c_target_runs_them_in_this_process(tmp_path: Path) -> None:
    (tmp_path / "wide.yaml").write_text(SPEC)
    model = xlac.compile(tmp_path / "wide.yaml", target="c")
    made = model(*(np.full(1, n, np.float32) for n in range(COUNT)))
    np.testing.assert_array_equal(made, np.arange(COUNT, dtype=np.float32))
