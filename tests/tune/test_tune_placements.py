"""Tuning where values are computed: what is faster together is kept, results stay equal, and the
file gives the same program.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlac.codegen.schedules.document import read, write
from xlac.codegen.schedules.tuned import TunedChoice, TuningRecords, machine_of
from xlac.debug.tune.placed_programs import asked_of
from xlac.debug.tune.placement_tuning import PlacementTuning
from xlac.debug.tune.process import WorkerLost
from xlac.debug.tune.stamped_model import TunedModel
from xlac.debug.tune.worker import TuningWorker
from xlac.driver import lower
from xlac.frontends.loader import load
from xlac.fusion.group import Placement
from xlac_sdk.host.registry import find
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.target import Request

FACTORS = {"r left": 0.5, "a apart": 0.9, "b stored": 0.8, "b apart": 1.3, "c inline": 0.99}
"""How many times as long a made-up model takes with one placement or rewrite; they multiply."""


class MadeUpModel:
    """Answers as `worker.py` would for a rewrite r, and values a, b, c, d of which d cannot be
    measured; in place everything takes `in_place` times as long as the search sees.
    """

    def __init__(self, in_place: float = 1.0) -> None:
        self.in_place, self.closed, self.races = in_place, 0, 0

    def ask(self, request: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        if request["ask"] == "rewrites":
            rewrite = {"name": "r", "what": "rewrite r", "others": ["left"], "share": 1.0}
            return {"choices": [rewrite]}
        if request["ask"] == "choices":
            assert "r" in request["best"], "rewrites come first"
            words = {"a": ["apart"], "b": ["stored", "apart"], "c": ["inline"], "d": ["apart"]}
            shares = {"a": 0.5, "b": 0.4, "c": 0.3, "d": 0.2, "e": 0.001}
            return {
                "choices": [
                    {"name": n, "what": f"value {n}", "others": words.get(n, ["apart"]), "share": s}
                    for n, s in shares.items()
                ]
            }
        best = self.factor(request["best"])
        if request["ask"] == "confirm_placements":
            return {"pairs": [(noise, best * noise * self.in_place) for noise in (1.0, 1.02, 1.1)]}
        self.races += 1
        if "d" in request["other"]:
            raise WorkerLost(Diagnostic("XL5044", "it crashed"))
        return {"why": "measured", "ratio": self.factor(request["other"]) / best}

    def factor(self, placed: Mapping[str, str]) -> float:
        return float(np.prod([FACTORS[f"{name} {word}"] for name, word in placed.items()]))

    def close(self) -> None:
        self.closed += 1


def tuned(model: MadeUpModel, records: TuningRecords | None = None) -> PlacementTuning:
    ticks = iter(range(1_000_000))
    tuning = PlacementTuning(
        model, records or TuningRecords({}), 200.0, False, print, lambda: 0.1 * next(ticks)
    )
    tuning.run()
    return tuning


def test_what_is_faster_together_is_kept() -> None:
    model = MadeUpModel()
    tuning = tuned(model)
    records = tuning.records
    assert records.placements() == {"a": Placement.APART, "b": Placement.STORED}
    assert records.rewrites() == {"r": False}
    assert list(records.values) == ["r", "a", "b", "c", "d"], "e takes too little of a call"
    assert records.values["a"].faster == pytest.approx((1 / 0.36, 1 / 0.36))
    assert model.closed == 3 and tuning.lost == 1
    again = MadeUpModel()
    assert tuned(again, records).records == records and not again.races and not again.closed


def test_what_is_no_faster_in_place_is_dropped_and_not_tried_again() -> None:
    records = tuned(MadeUpModel(in_place=1 / 0.365)).records
    assert not records.placements() and not records.rewrites()
    assert list(records.values) == ["r", "a", "b", "c", "d"]


def test_an_interrupt_confirms_what_was_found() -> None:
    class Interrupted(MadeUpModel):
        def ask(self, request: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
            if self.races == 5:
                self.races += 1
                raise KeyboardInterrupt
            return super().ask(request, seconds)

    tuning = tuned(Interrupted())
    assert tuning.interrupted and tuning.records.placements() == {"a": Placement.APART}


SPEC = {
    "xlac": 1,
    "model": "small",
    "inputs": {"x": "f32[24, 96]"},
    "graph": {"s": "exp(x) * 2", "a": "sum(s, axis=0)", "b": "sum(s, axis=1)"},
    "outputs": ["a", "b"],
}
CPU = find("cpu").target(Request())


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    file = tmp_path / "small.yaml"
    file.write_text(json.dumps(SPEC))
    return file


@pytest.fixture
def worker(spec: Path) -> TuningWorker:
    model = load(spec)
    given = [np.ones((24, 96), np.float32)]
    return TuningWorker(
        TunedModel(
            lower(model, CPU),
            lambda asked: lower(model, CPU, wanted=asked, every=False),
            find("cpu"),
            given,
            lambda compiled: None,
        )
    )


def raced(worker: TuningWorker, **fields: Any) -> Mapping[str, Any]:
    request = {"ask": "race_placements", "best": {}, "seconds": 0.001, "rounding": False}
    return worker.answer({**request, "limit": 1e9, **fields})


def test_a_model_is_raced_with_values_elsewhere(
    worker: TuningWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    choices = worker.answer({"ask": "choices", "best": {}, "seconds": 0.01})["choices"]
    assert all(0 < one["share"] <= 1 for one in choices)
    product = next(one for one in choices if one["what"].startswith("s (mul)"))
    name, now = product["name"], product["now"]
    assert raced(worker, other={name: now})["why"] == "same"
    for word in product["others"]:
        answer = raced(worker, other={name: word})
        assert answer["why"] == "measured" and answer["ratio"] > 0
    assert raced(worker, other={"v0": "apart"})["why"] == "same", "it is of another model"
    apart = {name: "apart"}
    pairs = worker.answer({"ask": "confirm_placements", "best": apart, "seconds": 0.01})["pairs"]
    assert len(pairs) == 5 and all(before > 0 < after for before, after in pairs)
    groups = worker.answer({"ask": "groups", "seconds": 0.01, "placed": apart})["groups"]
    assert len(groups) == 3
    programs = worker.placed_programs
    usual = programs.program({}).outputs
    monkeypatch.setattr(
        programs.program(apart), "outputs", {k: a + a.dtype.type(1) for k, a in usual.items()}
    )
    for rounding in (False, True):
        assert raced(worker, other=apart, rounding=rounding)["why"] == "rounding"


def test_placements_are_written_and_read(spec: Path, tmp_path: Path, worker: TuningWorker) -> None:
    choices = worker.answer({"ask": "choices", "best": {}, "seconds": 0.01})["choices"]
    name = next(one["name"] for one in choices if one["what"].startswith("s (mul)"))
    records = TuningRecords(
        machine_of(CPU),
        values={
            name: TunedChoice("s", (1.2, 1.4), "apart"),
            "v1": TunedChoice("of another model", (1.1, 1.2), "inline"),
            "v2": TunedChoice("tried"),
        },
    )
    titles = {name: value.what for name, value in records.values.items()}
    text = write({}, titles, "Tuned", records, records.placements())
    file = tmp_path / "small.tuning.yaml"
    file.write_text(text)
    asked = read(file)
    assert asked.tuned == records and asked.placements.asked == records.placements()
    found = lower(load(spec), CPU, wanted=asked)
    alone = lower(load(spec), CPU, wanted=asked_of({name: "apart"}))
    assert [k.name for k in found.program.kernels] == [k.name for k in alone.program.kernels]
    assert len(found.program.kernels) == 3
    file.write_text(text.replace("  v1: inline\n", "").replace("    v1:", "    v3:"))
    assert read(file).tuned is not None
    file.write_text(text.replace("    v1:", "    v3:"))
    with pytest.raises(SourceError, match="values lacks v1, which is to be inline"):
        read(file)
