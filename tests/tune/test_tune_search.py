"""The search for schedules, with measurements that tests make up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from xlac.codegen.core.contraction.tiling import RegisterTile
from xlac.codegen.schedules.gemm import InnerProductSchedule
from xlac.codegen.schedules.schedule import SERIAL, Schedule, to_data
from xlac.codegen.schedules.tuned import TunedGroup, TuningRecords
from xlac.debug.tune.neighbours import near, neighbours
from xlac.debug.tune.process import WorkerLost
from xlac.debug.tune.search import MeasuredSchedule, Parts, ScheduleSearch
from xlac.debug.tune.tune import ModelTuning
from xlac_sdk.source import Diagnostic, XlacError

START = InnerProductSchedule(False, 8, 2, 2, 2, SERIAL)
BEST = InnerProductSchedule(False, 8, 4, 2, 8, SERIAL)


def cost(schedule: Schedule) -> float:
    """Seconds of a made-up kernel: least at BEST, and the product of what each field costs."""
    data, best = to_data(schedule), to_data(BEST)
    seconds = 1.0
    for name in ("lanes", "rows", "columns", "unroll"):
        high, low = max(data[name], best[name]), min(data[name], best[name])
        seconds *= 1 + 0.2 * (high / low - 1)
    return seconds * (1.5 if data["swap"] else 1.0)


def by_cost(best: Parts, other: Parts, again: bool) -> MeasuredSchedule:
    """A measurement without noise; kernels of more than 16 results do not fit."""
    schedule = other["main"]
    assert isinstance(schedule, InnerProductSchedule)
    if schedule.rows * schedule.columns > 16:
        return MeasuredSchedule("misfit")
    return MeasuredSchedule("measured", cost(schedule) / cost(best["main"]), other)


def searched(
    measure: Callable[[Parts, Parts, bool], MeasuredSchedule], frozen: str = ""
) -> ScheduleSearch:
    """A search that ran to its end."""
    search = ScheduleSearch({"main": START}, measure, frozenset(frozen.split()))
    for _ in range(500):
        search.step()
        if search.finished:
            return search
    raise AssertionError("the search does not end")


def test_the_best_schedule_is_found() -> None:
    search = searched(by_cost)
    assert search.best == {"main": BEST} and search.improved
    assert search.counts["misfit"] and search.measured < 200


def test_frozen_fields_are_left_alone() -> None:
    asked: list[Schedule] = []

    def measure(best: Parts, other: Parts, again: bool) -> MeasuredSchedule:
        asked.append(other["main"])
        return by_cost(best, other, again)

    search = searched(measure, "unroll threads")
    assert {to_data(one)["unroll"] for one in asked} == {2}
    assert to_data(search.best["main"])["unroll"] == 2 and to_data(search.best["main"])["rows"] == 4


def test_chance_is_measured_again() -> None:
    """What was faster once, and is not when measured longer, is no improvement."""

    def lucky(best: Parts, other: Parts, again: bool) -> MeasuredSchedule:
        return MeasuredSchedule("measured", 1.01 if again else 0.5, other)

    search = searched(lucky)
    assert search.best == {"main": START} and not search.improved


@pytest.mark.parametrize("why", ["misfit", "rounding", "same", "crashed"])
def test_what_cannot_be_measured_is_left_out(why: str) -> None:
    search = searched(lambda best, other, again: MeasuredSchedule(why))
    assert (
        not search.improved and search.measured == 0 and search.counts == {why: search.counts[why]}
    )


def test_neighbours_differ_in_one_field_and_are_well_formed() -> None:
    tile = RegisterTile((1, 4), 2, 8)
    assert near(4) == [8, 2, 5, 3, 16, 1] and near(1) == [2, 0, 4]
    found = list(neighbours(START))
    assert {field for field, _ in found} == {
        ("swap",),
        ("lanes",),
        ("rows",),
        ("columns",),
        ("unroll",),
        ("threads", "loops"),
        ("threads", "grain"),
    }
    for (name, *_), other in found:
        changed = {k for k, v in to_data(other).items() if v != to_data(START)[k]}
        assert changed == {name}
    assert to_data(tile)["rows"] == [1, 4]


class MadeUpWorker:
    """Answers as `worker.py` would, by `cost`; in place the kernel takes `in_place` times as long
    as alone. It crashes for odd numbers of rows above 1.
    """

    def __init__(self, in_place: float = 1.0) -> None:
        self.in_place, self.closed, self.races = in_place, 0, 0

    def ask(self, request: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        if request["ask"] in ("rewrites", "choices"):
            return {"choices": []}
        if request["ask"] == "groups":
            one = {
                "name": "g1",
                "what": "dot: dot_0 computes y",
                "seconds": cost(START),
                "share": 0.9,
                "parts": {"main": to_data(START)},
            }
            return {"groups": [one, {**one, "name": "g2", "share": 0.001}]}
        if request["ask"] == "confirm":
            after = _schedule(request["groups"]["g1"])
            pairs = [
                (cost(START) * noise, cost(after) * noise * self.in_place)
                for noise in (1.0, 1.02, 1.1, 1.01, 1.0)
            ]
            return {"pairs": {"g1": pairs, "": pairs}}
        self.races += 1
        best, other = _schedule(request["best"]), _schedule(request["other"])
        if other.rows % 2 and other.rows > 1:
            raise WorkerLost(Diagnostic("XL5044", "it crashed"))
        result = by_cost({"main": best}, {"main": other}, False)
        return {"why": result.why, "ratio": result.ratio, "parts": request["other"]}

    def close(self) -> None:
        self.closed += 1


def _schedule(parts: Mapping[str, Any]) -> InnerProductSchedule:
    from xlac.codegen.schedules.schedule import from_data
    from xlac.codegen.schedules.templates import TEMPLATES

    made = from_data(parts["main"], TEMPLATES)
    assert isinstance(made, InnerProductSchedule)
    return made


def tuned(worker: MadeUpWorker, records: TuningRecords | None = None) -> TuningRecords:
    """A model tuned by a clock that gains a tenth of a second each time it is read."""
    ticks = iter(range(1_000_000))
    tuning = ModelTuning(
        worker, records or TuningRecords({}), 200.0, clock=lambda: 0.1 * next(ticks)
    )
    found = tuning.run()
    assert tuning.lost > 0 or records is not None
    return found


def test_a_winner_is_confirmed_in_fresh_processes_and_recorded() -> None:
    worker = MadeUpWorker()
    found = tuned(worker).groups
    assert list(found) == ["g1"], "what takes a thousandth of a call is not tuned"
    group = found["g1"]
    assert group.parts == {"main": BEST} and group.finished and worker.closed == 3
    gain = cost(START) / cost(BEST)
    assert group.faster[0] == pytest.approx(gain) and group.faster[1] == pytest.approx(gain)


def test_what_is_no_faster_in_place_is_not_kept() -> None:
    gain = cost(START) / cost(BEST)
    group = tuned(MadeUpWorker(in_place=gain / 1.015)).groups["g1"]
    assert not group.parts and group.finished and group.faster == (1.0, 1.0)
    assert group.default_us == group.tuned_us


def test_tuning_goes_on_where_it_ended() -> None:
    """A group whose search ended is not measured again; another starts from its best schedule."""
    worker = MadeUpWorker()
    records = tuned(MadeUpWorker())
    assert tuned(worker, records) == records and worker.races == 0
    half = TunedGroup("", 1.0, 0.9, (1.1, 1.2), 7, False, {"main": BEST})
    again = tuned(MadeUpWorker(), TuningRecords({}, {"g1": half})).groups["g1"]
    assert again.parts == {"main": BEST} and again.finished and again.measured > 7


def test_an_interrupt_ends_the_search_and_keeps_what_was_found() -> None:
    class Interrupted(MadeUpWorker):
        def ask(self, request: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
            if self.races == 25 and request["ask"] == "race":
                raise KeyboardInterrupt
            return super().ask(request, seconds)

    group = tuned(Interrupted(), TuningRecords({})).groups["g1"]
    assert not group.finished and group.parts and group.faster[0] > 1.02


def test_a_model_that_cannot_be_measured_is_an_error() -> None:
    class Failing(MadeUpWorker):
        def ask(self, request: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
            return {"why": "failed", "text": "ValueError: no"}

    with pytest.raises(XlacError, match="cannot be tuned: ValueError: no"):
        tuned(Failing())
