"""Outputs with sizes that data decides: what a spec says of them, and what a caller gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
import xlac_runtime
from xlac.cli import status
from xlac.exporters.spec import write
from xlac.frontends.loader import load
from xlac_sdk.host import manifest
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


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_a_caller_of_an_artefact_gets_the_same(target: str, tmp_path: Path) -> None:
    folder, x = tmp_path / "out", np.asarray([1, -1, 2, 0, 3, -3], np.float32)
    file = spec(tmp_path, "{chosen: [count]}")
    assert status(["build", str(file), "--target", target, "-o", str(folder)]) == 0
    for program in (xlac.load(folder), xlac_runtime.load(folder)):
        assert program.outputs == ("chosen", "flag")
        assert "chosen: f32[<=6], flag: bool[6]" in repr(program)
        found = program(x)
        assert list(found) == ["chosen", "flag"]
        np.testing.assert_array_equal(found["chosen"], [1, 2, 3])


@pytest.mark.parametrize(
    "change",
    [
        {"format": 4},
        {"results": {"extents": {"chose": {"0": "count"}}}},
        {"results": {"extents": {"chosen": {"1": "count"}}}},
        {"results": {"extents": {"chosen": {"-1": "count"}}}},
        {"results": {"extents": {"chosen": {"0": "flag"}}}},
        {"results": {"extents": {"chosen": {"0": 1}}}},
        {"results": {"forms": {"chosen": ["chosen", ["cont", None]]}}},
        {"results": {"forms": {"chosen": 2}}},
        {"results": {"kinds": {}}},
        {"results": [1]},
    ],
)
def test_a_manifest_with_other_results_is_damaged(change: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "out"
    file = spec(tmp_path, "{chosen: [count]}")
    assert status(["build", str(file), "--target", "reference", "-o", str(folder)]) == 0
    facts = json.loads((folder / manifest.NAME).read_text("utf-8"))
    assert facts["results"] == {"extents": {"chosen": {"0": "count"}}}
    facts = {name: fact for name, fact in (facts | change).items() if name != "sha256"}
    text = json.dumps(facts | {"sha256": manifest.digest(facts)})
    (folder / manifest.NAME).write_text(text, "utf-8")
    with pytest.raises(SourceError, match="results"):
        xlac.load(folder)


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
