"""Models of open sizes: a program for each set of sizes is kept, or one for all of them."""

from __future__ import annotations

from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
from kept_models import backend

import xlac
from xlac.cache import compilations
from xlac.options import CompileOptions
from xlac.placement.automatic import AutomaticPlaces
from xlac.runtime.compiled import Compiled

LATER = {"AutomaticPlaces": AutomaticPlaces}  # what the options import for type checkers alone


def test_of_open_sizes_the_program_of_each_is_kept(spec: Path, lowered: list[object]) -> None:
    first = xlac.compile(spec)
    rows = {n: np.arange(4 * n, dtype=np.float32).reshape(n, 4) for n in (1, 2, 5)}
    found = {n: first(row) for n, row in rows.items()}
    assert lowered[:2] == [(1, 4), (2, 4)] and len(lowered) == 3, "5 comes after 2: n is open"
    again = xlac.compile(spec)
    for n, row in rows.items():
        np.testing.assert_array_equal(again(row), found[n])
    np.testing.assert_array_equal(xlac.compile(spec, dims={"n": 2})(rows[2]), found[2])
    assert len(lowered) == 3, "all three were found, by whoever says the size too"
    again(np.zeros((3, 4), np.float32))
    assert len(lowered) == 3


def test_one_program_for_all_sizes_where_that_is_asked_for(
    spec: Path, compiled: list[object]
) -> None:
    once = xlac.compile(spec, sizes="symbolic")
    assert isinstance(once, Compiled) and [size.name for size in once.program.sizes] == ["n"]
    for n in range(1, 9):
        row = np.arange(4 * n, dtype=np.float32).reshape(n, 4)
        np.testing.assert_allclose(once(row), xlac.compile(spec, dims={"n": n})(row), rtol=1e-5)
    assert len(compiled) == 9
    again = xlac.compile(spec, sizes="symbolic")
    assert (
        isinstance(again, Compiled)
        and again.program.sizes == once.program.sizes
        and len(compiled) == 9
    )
    (size,) = again.program.sizes
    assert (size.min, size.max, size.opt) == (1, 8, 2)
    for n in (1, 5, 8):
        row = np.arange(4 * n, dtype=np.float32).reshape(n, 4)
        np.testing.assert_array_equal(again(row), once(row))
    with pytest.raises(xlac.SourceError, match=r"n=9 is outside its bounds 1\.\.8"):
        again(np.zeros((9, 4), np.float32))


def test_what_is_asked_of_sizes_is_part_of_the_question(spec: Path) -> None:
    asked = {
        compilations.question(spec, backend(), CompileOptions(sizes=sizes))
        for sizes in get_args(get_type_hints(CompileOptions, localns=LATER)["sizes"])
    }
    assert len(asked) == 2


def test_state_begins_anew_in_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: list[object]
) -> None:
    monkeypatch.setenv("XLAC_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "total.yaml"
    file.write_text(
        "xlac: 1\nmodel: total\ninputs: {x: 'f32[]'}\nstate: {sum: {type: 'f32[]', next: "
        "y}}\ngraph: {y: sum + x}\noutputs: [y]\n"
    )
    first, second = xlac.compile(file), xlac.compile(file)
    assert len(compiled) == 1
    assert [float(first(np.float32(2))) for _ in range(3)] == [2, 4, 6]
    assert [float(second(np.float32(2))) for _ in range(3)] == [2, 4, 6]
    first.reset()
    assert float(first(np.float32(2))) == 2 and float(second(np.float32(2))) == 8
