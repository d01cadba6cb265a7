"""Outputs with sizes that data decides: what a spec says of them, and what a caller gets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xlac
from xlac.exporters.spec import write
from xlac.frontends.loader import load
from xlac_sdk.source import SourceError

SPEC = """
xlac: 1
model: picked
inputs: {x: "f32[6]"}
graph:
  positions, count: {op: compact, in: x > 0, bound: 6}
  chosen: take(x, positions)
outputs: {chosen: chosen, count: count, flag: x > 0}
extents: EXTENTS
"""


def spec(folder: Path, extents: str) -> Path:
    file = folder / "picked.yaml"
    file.write_text(SPEC.replace("EXTENTS", extents), encoding="utf-8")
    return file


def test_a_caller_gets_what_is_real(tmp_path: Path) -> None:
    program = xlac.compile(spec(tmp_path, "{chosen: [count]}"), target="reference")
    assert program.outputs == ("chosen", "flag")
    found = program(x=np.asarray([1, -1, 2, 0, 3, -3], np.float32))
    np.testing.assert_array_equal(found["chosen"], [1, 2, 3])


def test_it_is_written_as_it_was_read(tmp_path: Path) -> None:
    model = load(spec(tmp_path, "{chosen: [count]}"))
    write(model, tmp_path / "again.yaml", lambda *told: None)
    assert load(tmp_path / "again.yaml").extents == model.extents == {"chosen": {0: "count"}}


@pytest.mark.parametrize(
    ("extents", "code"),
    [
        ("{chose: [count]}", "XL2002"),
        ("{chosen: [cont]}", "XL2002"),
        ("{chosen: [count, null]}", "XL2009"),
        ("{chosen: [flag]}", "XL2009"),
        ("{chosen: count}", "XL1012"),
    ],
)
def test_what_cannot_be_is_refused(extents: str, code: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=code):
        load(spec(tmp_path, extents))
