"""Entries that lost files, are damaged or make no sense are not believed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from kept_models import ROW, backend, cache_of

import xlac
from xlac.cache import compilations


def test_an_entry_that_lost_a_file_is_made_again(spec: Path, compiled: list[object]) -> None:
    for constants in range(2):
        xlac.compile(spec, dims={"n": 2})
        xlac.compile(spec, dims={"n": 2})
        assert len(compiled) == 1 + constants
        (found,) = (spec.parent / "cache").glob(f"??/*/{compilations.CONSTANTS}")
        found.unlink()


@pytest.mark.parametrize("file", [compilations.PROGRAM, compilations.CONSTANTS])
@pytest.mark.parametrize("how", ["cut", "changed"])
def test_a_damaged_entry_is_thrown_away(
    spec: Path, compiled: list[object], file: str, how: str
) -> None:
    before = xlac.compile(spec, dims={"n": 2})(ROW)
    (place,) = (spec.parent / "cache").glob(f"??/*/{file}")
    data = place.read_bytes()
    place.write_bytes(
        data[: len(data) // 2] if how == "cut" else data[:-9] + bytes(reversed(data[-9:])) + b" "
    )
    np.testing.assert_array_equal(xlac.compile(spec, dims={"n": 2})(ROW), before)
    assert len(compiled) == 2


def test_entries_that_make_no_sense_are_not_believed(
    spec: Path, compiled: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    xlac.compile(spec, dims={"n": 2})
    (place,) = (spec.parent / "cache").glob(f"??/*/{compilations.PROGRAM}")
    whole = json.loads(place.read_text())
    monkeypatch.setattr("xlac.cache.seals.whole", lambda file, told: True)
    for number, change in enumerate(
        ({"slots": 3}, {"inputs": [99]}, {"built_for": {}}, {"slots": [{}]}, {"facts": None}), 2
    ):
        place.write_text(json.dumps({**whole, **change}))
        assert compilations.load(cache_of(spec), place.parent.name, backend()) is None, number
