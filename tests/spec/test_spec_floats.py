"""A finite number of a spec never becomes infinite without a word: it is an error at its place."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from xlac.ops.tensor.leaf import Const
from xlac.spec.load import load
from xlac_sdk.source import SourceError

SPEC = """xlac: 1
model: m
params: {{big: {big}}}
inputs: {{x: "{dtype}[3]"}}
graph:
  y: {entry}
outputs: [y]
"""

BEYOND = [
    ("f32", "x * 1e39", 10), ("f32", "x + -1e39", 10), ("f32", "clip(x, 0.0, 1e39)", 19),
    ("f32", "where(x > 1e39, x, x)", 16), ("f32", "x * $big", 10), ("f32", "x * ${1e38 * 100}", 10),
    ("f32", f"x * {10**40}", 10), ("f32", "x * 1e400", 10), ("f64", "x * 1e400", 10),
    ("f32", "1e39", 6), ("f32", "1e400", 6), ("f32", "3.4028236e38 * x", 6),
    ("f16", "x + 70000", 10), ("f16", "x + 65520.0", 10), ("bf16", "x + 3.4e38", 10),
    ("f32", "{op: constant, value: 1e39}", 28),
    ("f64", "{op: constant, value: 1e400, dtype: f64}", 28),
    ("f32", "{op: constant, value: [1, 1e39]}", 28),
    ("f16", "{op: constant, value: -70000.0, dtype: f16}", 28), ("f32", "'full([3], 1e39)'", 17),
    ("f32", "{op: leaky_relu, in: x, alpha: 1e39}", 37), ("f32", "leaky_relu(x, alpha=1e39)", 26),
    ("f32", "{op: mul, in: [x, 1e39]}", 24),
]  # fmt: skip
FINE = [
    ("f32", "x * inf", np.inf), ("f32", "x * -inf", -np.inf),
    ("f32", "{op: constant, value: .inf}", np.inf), ("f64", "x * 1e39", 1e39),
    ("f64", "{op: constant, value: 1e308, dtype: f64}", 1e308),
    ("f32", "x * 3.4028234e38", np.float32(3.4028234e38)), ("f16", "x + 65519.0", 65504.0),
    ("f32", "x * -3.4028235e38", np.float32(-3.4028235e38)),
    ("f32", "{op: constant, value: -.inf}", -np.inf),
]  # fmt: skip


def written(folder: Path, dtype: str, entry: str) -> Path:
    file = folder / "m.yaml"
    file.write_text(SPEC.format(dtype=dtype, entry=entry, big="1e39"))
    return file


@pytest.mark.parametrize(
    ("dtype", "entry", "column"), BEYOND, ids=[f"{dtype}: {entry}" for dtype, entry, _ in BEYOND]
)
def test_a_number_beyond_its_type_is_an_error_at_its_place(
    dtype: str, entry: str, column: int, tmp_path: Path
) -> None:
    with pytest.raises(SourceError, match=r"XL2006|XL4015") as caught:
        load(written(tmp_path, dtype, entry))
    assert f"m.yaml:6:{column}:" in str(caught.value)
    assert re.search("written inf", str(caught.value))


@pytest.mark.parametrize(
    ("dtype", "entry", "value"), FINE, ids=[f"{dtype}: {entry}" for dtype, entry, _ in FINE]
)
def test_infinities_that_are_written_and_numbers_with_room_stay(
    dtype: str, entry: str, value: float, tmp_path: Path
) -> None:
    nodes = load(written(tmp_path, dtype, entry)).graph.nodes()
    assert value in [float(n.op.value) for n in nodes if isinstance(n.op, Const)]
