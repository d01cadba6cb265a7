"""Calls of models in stages: like those of any compiled model."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from placed import assert_equal, results

import xlac
from xlac_sdk.source import SourceError

SPEC = """\
xlac: 1
model: several
dims: {n: {min: 1, max: 64, opt: 8}}
inputs: {x: "f32[n, 4]", at: "i32[2]"}
graph:
  low: x * 2.0
  rows: {op: take, in: [low, at], axis: 0}
  both: {op: concat, in: [rows, low], axis: 0}
  far: log(both)
  wide: reshape(far, [(n + 2) * 4])
  y: wide + 1.0
outputs: [y, low, x]
"""
PLACES = {"low": "c", "far": "reference", "wide": "c", "both": "cpu"}


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "several.yaml"
    path.write_text(SPEC, "utf-8")
    return path


def inputs(rows: int, seed: int = 0) -> dict[str, Any]:
    x = np.random.default_rng(seed).uniform(1, 2, (rows, 4)).astype(np.float32)
    return {"x": x, "at": np.array([0, rows - 1], np.int32)}


@pytest.mark.parametrize("sizes", ["symbolic", "specialize"])
def test_sizes_that_a_value_does_not_tell(spec: Path, sizes: Any) -> None:
    """The last stage gets an array of (n + 2) * 4 elements, and n beside it."""
    ours, single = xlac.compile(spec, place=PLACES, sizes=sizes), xlac.compile(spec)
    for rows in (1, 5, 3, 64):
        assert_equal(ours, single, inputs(rows))
    with pytest.raises(SourceError, match="n=65 is outside its bounds"):
        ours(**inputs(65))


def test_arrays_of_the_caller_are_checked_once_for_all_stages(spec: Path) -> None:
    ours: Any = xlac.compile(spec, place=PLACES, sizes="symbolic")
    given, out = inputs(3), {n: np.empty(1, np.float32) for n in ("y", "low", "x")}
    with pytest.raises(SourceError, match="'y'"):
        ours.run(given, out)
    with pytest.raises(SourceError, match="'x'"):
        ours(given["x"].astype(np.float64), given["at"])
    expected = results(ours, given)
    out = {name: np.empty_like(array) for name, array in expected.items()}
    for _ in range(100):  # backends have a faster call after some
        ours.run(given, out)
    for name, array in expected.items():
        np.testing.assert_array_equal(out[name], array)
    with pytest.raises(SourceError, match="shares memory with input"):
        ours.run(given, {**out, "x": given["x"]})


def test_calls_of_several_threads(spec: Path) -> None:
    ours, single = xlac.compile(spec, place=PLACES, sizes="symbolic"), xlac.compile(spec)
    given = [inputs(1 + number % 7, number) for number in range(64)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda one: results(ours, one), given))
    for one, outputs in zip(given, found, strict=True):
        for name, array in results(single, one).items():
            np.testing.assert_allclose(outputs[name], array, rtol=2e-5)


def test_a_failed_check_names_the_node(spec: Path) -> None:
    ours = xlac.compile(spec, place=PLACES, checked=True)
    assert_equal(ours, xlac.compile(spec), inputs(3))
    for change, node in (({"at": np.array([0, 3], np.int32)}, "rows"), ({}, "far")):
        given = {**inputs(3), **change}
        given["x"] = given["x"] if change else -given["x"]
        with pytest.raises(xlac.CheckFailed) as failed:
            ours(**given)
        assert failed.value.node == node


def test_sizes_that_depend_on_data(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(
        'xlac: 1\ninputs: {x: "f32[8]"}\n'
        "graph:\n  kept, count: {op: compact, in: x > 0.0, bound: 8}\n  few: x * 2.0\n"
        "outputs: {kept: kept, count: count, few: few}\n"
        "extents: {kept: [count]}\n",
        "utf-8",
    )
    ours, single = xlac.compile(path, place={"kept": "c"}), xlac.compile(path)
    x = np.array([1, -1, 2, -2, 3, 0, 0, 4], np.float32)
    assert results(ours, {"x": x})["kept"].shape == (4,)
    assert_equal(ours, single, {"x": x})


def test_a_model_without_nodes_is_one_stage(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(
        'xlac: 1\ninputs: {x: "f32[2]", z: "f32[2]"}\n'
        "graph: {y: exp(x)}\noutputs: {same: z, y: y, more: y}\n",
        "utf-8",
    )
    ours, single = xlac.compile(path, place={"y": "c"}), xlac.compile(path)
    given = {"x": np.ones(2, np.float32), "z": np.zeros(2, np.float32)}
    assert_equal(ours, single, given)
