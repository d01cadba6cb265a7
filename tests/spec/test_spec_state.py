"""The values that states have before the first call, and after `reset`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xlac
from xlac_sdk.source import SourceError

SPEC = """\
xlac: 1
model: m
dims: {n: {max: 4}}
inputs: {x: "f32[3]", y: "f16[n]"}
state:
  zero: {type: "f32[3]", next: zero + x}
  mean: {type: "f32[3]", init: x, next: 0.5 * mean + 0.5 * x}
  calls: {type: "i8[]", init: -7, next: calls + i8(1)}
  rows: {type: "f64[2, 2]", init: "[[1, 0], [0.5, 1]]", next: rows * 2.0}
  open: {type: "f16[n]", init: 3, next: open + y}
  on: {type: "bool[2]", init: true, next: "on & (calls < 0)"}
  started: {type: "i32[]", init: 2 ** 20, next: started + 1}
graph: {sum: zero + mean}
outputs: {sum: sum, calls: calls + i8(0), rows: rows, open: open, on: on, started: started}
"""


@pytest.mark.parametrize("target", ["reference", "c", "cpu"])
@pytest.mark.parametrize("sizes", ["specialize", "symbolic"])
def test_states_begin_as_init_says(tmp_path: Path, target: str, sizes: str) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(SPEC)
    model = xlac.compile(path, target, sizes=sizes)
    x, y = np.float32([1, 2, 3]), np.float16([1, 2])
    for _ in range(2):
        first, second = model(x=x, y=y), model(x=5 * x, y=y)
        assert first["sum"].tolist() == x.tolist()
        assert second["sum"].tolist() == (2 * x).tolist()
        assert (first["calls"], second["calls"]) == (-7, -6)
        assert second["rows"].tolist() == [[2, 0], [1, 2]]
        assert (first["open"].tolist(), second["open"].tolist()) == ([3, 3], [4, 5])
        assert first["on"].all() and first["started"] == 2**20 == second["started"] - 1
        model.reset()


@pytest.mark.parametrize(
    "old, new, code, said",
    [
        ("init: -7", "init: 0.5", "XL2013", "its init has fractions"),
        ("init: -7", "init: 500", "XL2006", ""),
        ("init: -7", "init: x", "XL2013", "state 'calls' is i8[], and its init f32[3]"),
        ("init: x", "init: mean", "XL2002", "unknown value 'mean'"),
        ("init: x", "init: sum", "XL2002", "unknown value 'sum'"),
        ("init: x", 'init: "[1, 2]"', "XL2013", "its init f32[2]"),
        ("init: 3", "init: [3]", "XL1012", ""),
    ],
)
def test_mistakes(tmp_path: Path, old: str, new: str, code: str, said: str) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(SPEC.replace(old, new))
    with pytest.raises(SourceError) as raised:
        xlac.compile(path, "reference")
    (found,) = raised.value.diagnostics
    assert found.code == code and said in found.message
    assert found.span is not None and SPEC.splitlines()[found.span.line - 1].count(old)
