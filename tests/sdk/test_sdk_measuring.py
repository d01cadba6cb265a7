"""What samples say of a machine: quartiles, spread, what is dropped, rounding; nothing is timed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import count, cycle
from pathlib import Path
from typing import Any

import pytest

from xlac_sdk.machine import measuring
from xlac_sdk.machine.measuring import (
    Probes,
    RunCycles,
    TimedProbe,
    TimedRun,
    facts,
    rates,
    rounded,
    summary,
)
from xlac_sdk.machine_facts import LIMITS, MEASURED, MachineFacts

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parent / "recorded_samples.json").read_text(encoding="utf-8")
)
"""Samples of machines, as (nanoseconds, those of the chain, disturbed), by probe."""


def samples(*ns: float, disturbed: bool = False, chain: float = 100.0) -> list[TimedRun]:
    return [TimedRun(one, chain, disturbed) for one in ns]


def test_the_lower_quartile_counts_in_cycles() -> None:
    found = summary(samples(*range(100, 120)), chain_cycles=1000)
    assert found.cycles == pytest.approx(10 * 104.75) and found.steady
    assert (found.counted, found.taken) == (20, 20)
    assert found.spread == pytest.approx(9.5 / 109.5)


def test_another_clock_gives_the_same_cycles() -> None:
    slow = [TimedRun(2 * one.ns, 2 * one.chain_ns, False) for one in samples(*range(100, 120))]
    found = summary(slow, 1000)
    assert found == replace(summary(samples(*range(100, 120)), 1000), clock=found.clock)


def test_disturbed_samples_are_dropped() -> None:
    calm = samples(*range(100, 115))
    found = summary(calm + samples(*[900] * 40, disturbed=True), 1000)
    assert found.cycles == summary(calm, 1000).cycles
    assert (found.counted, found.taken, found.steady) == (15, 55, True)


def test_too_few_or_too_far_apart_say_nothing() -> None:
    assert not summary(samples(*[100] * 14), 1000).steady
    assert not summary(samples(*[100] * 8, *[130] * 8), 1000).steady
    assert not summary(samples(*[100] * 20, disturbed=True), 1000).steady
    assert not summary([], 1000).steady


def test_facts_are_rounded_to_powers_of_the_fourth_root_of_two() -> None:
    for value in (0.01, 0.9, 1.0, 3.3, 24.0, 777.0):
        near = rounded(value)
        assert 2**-0.126 < near / value < 2**0.126 and rounded(near) == near
    assert len({rounded(24 * 1.01**n) for n in range(-5, 6)}) <= 2


def test_rates_become_facts() -> None:
    whole = {"l1": 100.0, "l2": 32.0, "l2_all": 64.0, "l3_all": 20.0, "memory_all": 5.0}
    parts = {"l2_whole": 20.0, "l2_most": 28.0, "l2_part": 31.0}
    shared = {"l3": (8.0, 16.0), "memory": (4.0, 4.1)}
    found = facts({**whole, "rows_stride": 8.0, **parts}, shared)
    assert found == {
        "l2_rate": 32.0,
        "l2_total": 64.0,
        "l3_rate": rounded(128**0.5),
        "l3_spread": rounded(2**0.5),
        "l3_total": rounded(20.0),
        "memory_rate": 4.0,
        "memory_spread": 1.0,
        "memory_total": rounded(5.0),
        "stride_penalty": rounded(3.0),
        "l2_part": rounded(0.84),
    }
    assert set(found) == set(MEASURED)
    MachineFacts(**found)  # type: ignore[arg-type]


def test_data_must_stay_in_small_pages_and_in_huge_ones() -> None:
    rate = {"l2": 32.0, "l2_whole": 31.0, "l2_most": 31.0, "l2_part": 31.0}
    huge = {f"{name}_huge": value for name, value in rate.items()}
    assert facts({**rate, **huge}, {})["l2_part"] == 1.0
    assert facts({**rate, **huge, "l2_whole": 9.0}, {})["l2_part"] == rounded(0.84)
    assert facts({**rate, **huge, "l2_whole_huge": 9.0}, {})["l2_part"] == rounded(0.84)
    assert facts({**rate, "l2_huge": 32.0}, {})["l2_part"] == 1.0


def test_what_was_not_steady_stays_as_shipped() -> None:
    assert facts({"rows_stride": 8.0, "l2_whole": 20.0, "l2_part": 31.0}, {}) == {}
    assert "l2_part" not in facts({"l2": 32.0, "l2_whole": 20.0, "l2_part": 31.0}, {})
    assert facts({"memory_all": 1e9}, {}) == {}  # out of bounds
    unsteady = RunCycles(100.0, 0.2, 30, 30)
    assert rates({"l2": unsteady, "l3": RunCycles(100.0, 0.1, 30, 30)}, {"l2": 8, "l3": 400}) == {
        "l3": 4.0
    }


def test_shared_levels_have_ranges() -> None:
    small, huge = RunCycles(100.0, 0.3, 15, 20, most=130.0), RunCycles(90.0, 0.2, 15, 20, 110.0)
    found = measuring.ranges({"l3": small, "l3_huge": huge}, {"l3": 1000, "l3_huge": 1000})
    assert found == {"l3": (1000 / 130, 1000 / 90)}
    few = RunCycles(50.0, 0.1, 14, 60, most=60.0)
    assert measuring.ranges({"l3": small, "l3_huge": few}, {"l3": 1000, "l3_huge": 1000}) == {
        "l3": (1000 / 130, 10.0)
    }
    wide = RunCycles(100.0, 0.9, 15, 20, most=201.0)
    assert measuring.ranges({"l3": wide, "l2": small}, {"l3": 1000, "l2": 1000}) == {}


def test_the_clock_is_that_of_the_chain() -> None:
    assert summary(samples(*[100] * 15, chain=250.0), chain_cycles=1000).clock == 4.0


def test_a_small_second_cache_is_half_of_what_it_is_told() -> None:
    found = facts({"l2": 32.0, "l2_whole": 9.0, "l2_most": 10.0, "l2_part": 11.0}, {})
    assert found["l2_part"] == 0.5


@pytest.mark.parametrize("machine", RECORDED)
def test_recorded_machines(machine: str) -> None:
    record = RECORDED[machine]
    found = {
        name: summary([TimedRun(*one) for one in rows], record["chain_cycles"])
        for name, rows in record["samples"].items()
    }
    steady = sorted(name for name, one in found.items() if one.steady)
    assert steady == record["steady"]
    nbytes = record["nbytes"]
    made = facts(rates(found, nbytes), measuring.ranges(found, nbytes))
    assert made == record["facts"]
    assert all(LIMITS[name].holds(value) for name, value in made.items())


def test_sampling_ends_when_enough_are_undisturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(noise: Sequence[int]) -> list[TimedRun]:
        clock, told = count(0, 1000), cycle(noise)
        monkeypatch.setattr(measuring.time, "perf_counter_ns", lambda: next(clock))
        monkeypatch.setattr(measuring, "disturbances", lambda: (next(told),))
        runs: list[str] = []
        probe = TimedProbe("p", 64, lambda: runs.append("p"))
        found = measuring.sampled(probe, Probes(lambda: runs.append("c"), 10, [probe]))
        assert runs == ["p", *["c", "p", "c"] * len(found)]
        return found

    assert taken([7]) == [TimedRun(1000, 1000, False)] * 15
    assert len(taken([1, 2])) == 60  # something ran during each
    half = taken([1, 1, 2, 3])
    assert len(half) == 29 and sum(one.disturbed for one in half) == 14


def test_a_disturbance_of_another_thread_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "disturbances", lambda: ())
    probe = TimedProbe("p", 64, lambda: None, cycle([True, False]).__next__)
    found = measuring.sampled(probe, Probes(lambda: None, 10, [probe]))
    assert [one.disturbed for one in found] == [bool(n % 2) for n in range(29)]


def test_undisturbed_runs_are_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = cycle([0, 10**9, 0, 3 * 10**9])
    monkeypatch.setattr(measuring.time, "perf_counter_ns", lambda: next(clock))
    told = cycle([1, 1, 2, 3])
    monkeypatch.setattr(measuring, "disturbances", lambda: (next(told),))
    assert measuring.undisturbed(lambda: None, 3, 9) == [1.0] * 3
    told = cycle([1, 2])
    assert measuring.undisturbed(lambda: None, 3, 4) in ([1, 3, 1, 3], [3, 1, 3, 1])


def test_disturbances_are_what_the_system_tells() -> None:
    assert len(measuring.disturbances()) == 3
