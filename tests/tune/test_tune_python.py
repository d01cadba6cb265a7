"""Tuning from Python: `xlac.tune`, and `tune=` where models are compiled."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.codegen.schedules.document import read
from xlac.codegen.schedules.tuned import TunedGroup, TuningRecords
from xlac.debug.tune import python_api
from xlac.debug.tune.sent_model import SentModel
from xlac.debug.tune.tune import ModelTuning
from xlac.driver import lower, specialized
from xlac.frontends.loader import load
from xlac.ir.text import show
from xlac.options import CompileOptions
from xlac_sdk.host.registry import find
from xlac_sdk.source import LimitError, SourceError
from xlac_sdk.support.limits import checkpoint, uncounted, within
from xlac_sdk.target import Request

SPEC = """\
xlac: 1
model: product
inputs: {x: "f32[24, 64]", w: "f32[64, 48]"}
weights: {init: {seed: 0}}
graph: {h: "relu(matmul(x, w))", y: {op: linear, in: h, units: 8}}
outputs: [y]
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    file = tmp_path / "product.yaml"
    file.write_text(SPEC)
    return file


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found is kept for the test alone."""
    monkeypatch.setenv("XLAC_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each search, none of which measures."""
    seconds: list[float] = []

    def run(self: ModelTuning, worker: Any = None) -> TuningRecords:
        seconds.append(self.seconds)
        return self.records

    monkeypatch.setattr(ModelTuning, "run", run)
    return seconds


def arrays(model: Any) -> Mapping[str, Any]:
    rng = np.random.default_rng(0)
    return {
        s.name: rng.standard_normal(s.extents({})).astype(s.dtype.numpy)
        for s in model.program.inputs
    }


def test_a_model_is_lowered_alike_where_it_is_measured(tmp_path: Path) -> None:
    """Its text, weights and options lead to the same code: of shipped specs, one with several
    types, loops and bodies among them.
    """
    backend = find("cpu")
    target = backend.target(Request())
    for name in ("digits", "lstm_3x60", "branch_cond"):
        model = load(f"specs/{name}.yaml", dims={})
        sent = SentModel(specialized(model), target, "cpu", "", None, {})
        folder = tmp_path / name
        folder.mkdir()
        sent.write(folder)
        again = SentModel.read(folder)
        assert show(again.model.graph) == show(sent.model.graph)
        codes = [backend.emit(lower(one.model, target).program, target) for one in (sent, again)]
        assert codes[0] == codes[1]


def test_tuning_from_python(spec: Path, tmp_path: Path) -> None:
    """What half a second finds is taken by xlac.compile, in the file too, for equal results."""
    file, lines = tmp_path / "found.yaml", list[str]()
    x = np.ones((24, 64), np.float32)
    found = xlac.tune(spec, seconds=0.5, output=file, inputs={"x": x}, tell=lines.append)
    records = read(file).tuned
    assert records == read(found).tuned and records is not None
    assert records.groups or records.values  # a busy machine does not come to the groups
    models = [xlac.compile(str(spec), schedules=s) for s in (found, str(file), None)]
    results = {np.asarray(m(**arrays(m))).tobytes() for m in models}
    assert len(results) == 1


def test_what_was_tuned_is_not_tuned_again(spec: Path, searched: list[float]) -> None:
    """The cache has it; a longer time is searched on for the difference."""
    for asked in (True, 60, 20.0, 90):
        model = load(str(spec))
        xlac.compile(model, tune=asked)
    assert searched == [60.0, 30.0]
    xlac.compile(str(spec), tune=90, threads=2)  # another machine, to schedules
    assert searched == [60.0, 30.0, 90.0]
    xlac.compile(str(spec), tune=90, threads=2)
    xlac.compile(str(spec), tune=False)
    assert searched == [60.0, 30.0, 90.0]


def test_found_schedules_are_compiled(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program of `tune=` is that of the schedules that the search found."""

    def run(self: ModelTuning) -> TuningRecords:
        records = self.records
        lowered = lower(load(str(spec)), find("cpu").target_for(CompileOptions().request))
        for name, (_, parts) in lowered.schedules.table().items():
            main: Any = parts["main"]
            if main.template == "gemm":
                narrow = {**parts, "main": replace(main, tile=replace(main.tile, vectors=1))}
                group = TunedGroup("a product", 2.0, 1.0, (1.5, 2.5), 7, True, narrow)
                records = records.with_group(name, group)
        assert records.groups
        return records

    monkeypatch.setattr(ModelTuning, "run", run)
    tuned, plain = xlac.compile(str(spec), tune=5), xlac.compile(str(spec))
    kernels = [[repr(k) for k in one.program.kernels] for one in (tuned, plain)]
    assert kernels[0] != kernels[1]
    given = arrays(plain)
    assert np.asarray(tuned(**given)).tobytes() == np.asarray(plain(**given)).tobytes()


def test_open_sizes_are_tuned_at_those_of_a_call(searched: list[float], tmp_path: Path) -> None:
    spec = tmp_path / "open.yaml"
    spec.write_text(
        "xlac: 1\nmodel: rows\ndims: {n: {max: 64, opt: 8}}\ninputs: {x: 'f32[n, 16]'}\n"
        "graph: {y: 'sum(exp(x), axis=1)'}\noutputs: [y]\n"
    )
    model = xlac.compile(load(str(spec)), tune=3)
    assert searched == []
    assert model(x=np.zeros((5, 16), np.float32)).tolist() == [16.0] * 5
    assert searched == [3.0]
    with pytest.raises(SourceError, match="XL4115"):
        xlac.compile(load(str(spec)), tune=3, sizes="symbolic")


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), "10", 10**41])
def test_a_time_that_is_none(wrong: Any, spec: Path) -> None:
    for door in (
        lambda: xlac.compile(str(spec), tune=wrong),
        lambda: xlac.tune(str(spec), seconds=wrong),
        lambda: xlac.jit(tune=wrong),
    ):
        with pytest.raises(SourceError, match=r"seconds above 0.*XL4115"):
            door()


def test_requests_that_cannot_be_met(spec: Path) -> None:
    with pytest.raises(SourceError, match="does not go with schedules"):
        xlac.compile(str(spec), tune=1, schedules={"schedules": {}})
    with pytest.raises(SourceError, match="unknown input 'z'"):
        xlac.tune(str(spec), inputs={"z": 1})


def test_jitted_functions_are_tuned(searched: list[float]) -> None:
    @xlac.jit(tune=2)
    def f(x: Any) -> Any:
        return xlac.exp(x) + 1

    assert f(np.zeros(3, np.float32)).tolist() == [2.0] * 3
    assert searched == [2.0]


def test_limits_do_not_count_the_search() -> None:
    with within(seconds=0.05), within(seconds=0.04):
        with uncounted():
            time.sleep(0.06)
            checkpoint()
        checkpoint()
        time.sleep(0.05)
        with pytest.raises(LimitError, match=r"more than 0\.04 s"):
            checkpoint()


def test_the_process_that_measures_says_what_is_wrong(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that cannot be read there ends the search with an error, not with silence."""
    monkeypatch.setattr(python_api, "WORKER", "raise SystemExit(3)")
    with pytest.raises(xlac.XlacError, match=r"ended with 3.*XL5044"):
        xlac.tune(str(spec), seconds=0.2)
