"""The process that measures: results that must stay equal, and crashes."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from xlac.codegen.schedules.schedule import to_data
from xlac.debug.tune.process import TuningProcess, WorkerLost
from xlac.debug.tune.worker import TunedModel, TuningWorker, serve
from xlac.driver import lower
from xlac.frontends.loader import load
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

SPEC = {
    "xlac": 1,
    "model": "small",
    "inputs": {"x": "f32[4, 96]"},
    "graph": {"s": "sum(x, axis=1)", "y": "exp(x) * 2"},
    "outputs": ["s", "y"],
}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> TuningWorker:
    file = tmp_path_factory.mktemp("tune") / "small.yaml"
    file.write_text(json.dumps(SPEC))
    backend = find("cpu")
    model, target = load(str(file)), backend.target(Request())
    inputs = [np.ones((4, 96), np.float32)]
    tuned = TunedModel(
        lower(model, target),
        lambda asked: lower(model, target, wanted=asked),
        backend,
        inputs,
        lambda compiled: None,
    )
    return TuningWorker(tuned)


def part(worker: TuningWorker, kind: str) -> tuple[str, dict[str, Any]]:
    """The group of a kind, and its schedules as data."""
    for name, group in worker.by_name.items():
        if group.kind.value == kind:
            schedules = worker.model.lowered.schedules(group).schedules
            return name, {one: to_data(made) for one, made in schedules.items()}
    raise AssertionError(f"no group of kind {kind}: {list(worker.by_name.values())}")


def raced(worker: TuningWorker, kind: str, rounding: bool = False, **fields: Any) -> dict[str, Any]:
    """The answer about the schedules of a group with fields of its main kernel changed."""
    name, parts = part(worker, kind)
    other = {**parts, "main": {**parts["main"], **fields}}
    request = {
        "ask": "race",
        "group": name,
        "best": parts,
        "other": other,
        "of_call": 1e-5,
        "seconds": 0.001,
        "rounding": rounding,
        "limit": 1e9,
    }
    return worker.answer(request)


def test_groups_are_those_that_a_call_runs(worker: TuningWorker) -> None:
    found = worker.answer({"ask": "groups", "seconds": 0.01})["groups"]
    assert sorted(one["what"].partition(":")[0] for one in found) == ["elementwise", "rows"]
    assert all(one["seconds"] > 0 and one["parts"] for one in found)


def test_a_schedule_that_adds_in_another_order_is_refused(worker: TuningWorker) -> None:
    """Fewer lanes of a sum are another rounding; allowed, they are within the documented error."""
    assert raced(worker, "rows", lanes=4)["why"] == "rounding"
    assert raced(worker, "rows", rounding=True, lanes=4)["why"] == "measured"


def test_other_answers(worker: TuningWorker) -> None:
    nests = part(worker, "elementwise")[1]["main"]["nests"]
    narrow = [{**nests[0], "lanes": 4}]
    answer = raced(worker, "elementwise", nests=narrow)
    assert answer["why"] == "measured" and answer["ratio"] > 0
    assert answer["parts"]["main"]["nests"][0]["lanes"] == 4
    assert raced(worker, "elementwise")["why"] == "same"
    misfit = raced(worker, "elementwise", nests=[{**nests[0], "vector": 7}])
    assert misfit["why"] == "misfit" and "vector" in misfit["text"]


def test_what_computes_something_else_is_refused(
    worker: TuningWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted fault: a schedule whose program leaves its last kernel out."""
    from xlac.debug.tune.group_programs import GroupPrograms

    usual = GroupPrograms.program

    def faulty(self: GroupPrograms, parts: Any) -> Any:
        made = usual(self, parts)
        if parts and parts["main"].nests[0].lanes == 2:
            program = replace(made.lowered.program, steps=())
            return replace(made, lowered=replace(made.lowered, program=program), text="faulty")
        return made

    monkeypatch.setattr(GroupPrograms, "program", faulty)
    nests = part(worker, "elementwise")[1]["main"]["nests"]
    for rounding in (False, True):
        narrow = [{**nests[0], "lanes": 2}]
        assert raced(worker, "elementwise", rounding, nests=narrow)["why"] == "rounding"


def test_times_in_place_are_pairs_for_each_group(worker: TuningWorker) -> None:
    name, parts = part(worker, "rows")
    pairs = worker.answer({"ask": "confirm", "groups": {name: parts}, "seconds": 0.01})["pairs"]
    assert sorted(pairs) == ["", name] and len(pairs[name]) == 5
    for (before, after), (all_before, all_after) in zip(pairs[name], pairs[""], strict=True):
        assert 0 < before < all_before and 0 < after < all_after


def test_errors_are_answers(worker: TuningWorker) -> None:
    answers = io.StringIO()
    serve(worker.model, io.StringIO('{"ask": "nothing"}\nno json\n'), answers)
    said = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert [one["why"] for one in said] == ["failed", "failed"]
    assert "unknown request 'nothing'" in said[0]["text"]


CRASHES = """
import json, os, sys, time
print("not an answer", file=sys.stderr)
head = sys.stdin.readline().strip()
for line in sys.stdin:
    request = json.loads(line)
    if request["ask"] == "crash":
        os.abort()
    if request["ask"] == "sleep":
        time.sleep(60)
    print(json.dumps({"head": head, "pid": os.getpid(), **request}), flush=True)
"""


def test_a_process_that_crashed_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:

    with TuningProcess(CRASHES, "what") as asked:
        first = asked.ask({"ask": "one"}, 60)
        assert first["head"] == "what"
        with pytest.raises(WorkerLost, match="ended with -6"):
            asked.ask({"ask": "crash"}, 60)
        second = asked.ask({"ask": "one"}, 60)
        assert second["head"] == "what" and second["pid"] != first["pid"]
        with pytest.raises(WorkerLost, match="ended with -9"):
            asked.ask({"ask": "sleep"}, 0.2)
    assert asked.child is None
