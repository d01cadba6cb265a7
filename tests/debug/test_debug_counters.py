"""Counters of the processor and of energy: recorded ones, and what is said where there are none."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import pytest

from xlac.cli import status
from xlac.debug.counters.counted import counted, told
from xlac.debug.counters.energy import EnergyCounters
from xlac.debug.counters.perf_events import EVENTS, HARDWARE, PerfEvents


class RecordedEvents:
    """Counters as a machine would give them: each reading adds 1,000; cycles ran half of the time,
    branch misses never; hardware events cost 10 times that. Some may be missing.
    """

    def __init__(self, missing: tuple[str, ...] = ()) -> None:
        self.missing, self.readings, self.numbers = missing, 0, list(EVENTS)

    def open(self, kind: int, number: int) -> int:
        name = next(n for n, event in EVENTS.items() if event == (kind, number))
        if name in self.missing:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return os.open(os.devnull, os.O_RDONLY)

    def read(self, file: int, size: int) -> bytes:
        name = [*self.events.files][[*self.events.files.values()].index(file)]
        self.readings += 1
        value = 1000 * self.readings * (10 if EVENTS[name][0] == HARDWARE else 1)
        return struct.pack("=QQQ", value, 100, {"cycles": 50, "branch_misses": 0}.get(name, 100))

    def made(self) -> PerfEvents:
        self.events = PerfEvents(self.open, self.read)
        return self.events


def zone(folder: Path, name: str, energy: int, most: int = 1 << 32) -> Path:
    place = folder / name
    place.mkdir(exist_ok=True)
    (place / "energy_uj").write_text(f"{energy}\n")
    (place / "max_energy_range_uj").write_text(f"{most}\n")
    return place


def test_events_of_a_call(tmp_path: Path) -> None:
    recorded = RecordedEvents(("cache_misses",))
    now = [0.0]

    def call() -> None:
        now[0] += 0.25

    found = counted(call, 1.0, recorded.made(), EnergyCounters(tmp_path), lambda: now[0])
    assert found["calls"] == 4 and not recorded.events.files
    # five of six opened events are read in turn, twice; cycles ran half of the time
    assert found["instructions"] == 10 * found["task_clock_ns"] == found["cycles"] / 2
    assert "cache_misses" not in found and "branch_misses" not in found
    assert found["missing"] == {
        "cache_misses": "No such file or directory",
        "branch_misses": "it never had a counter of the processor",
        "joules": "the system shows no counters of energy",
    }
    first, *rest = told(found)
    assert "0.50 instructions a cycle" in first and len(rest) == 3
    assert "unavailable: cache misses (No such file or directory)" in rest


def test_energy_is_that_of_all_packages(tmp_path: Path) -> None:
    """Parts of packages are not counted twice, and a counter may begin again."""
    zone(tmp_path, "intel-rapl:0", 5_000_000)
    zone(tmp_path, "intel-rapl:0:0", 1_000_000)
    zone(tmp_path, "intel-rapl:1", 9_000_000, most=10_000_000)
    counters = EnergyCounters(tmp_path)
    zone(tmp_path, "intel-rapl:0", 7_000_000)
    zone(tmp_path, "intel-rapl:0:0", 2_000_000)
    zone(tmp_path, "intel-rapl:1", 500_000, most=10_000_000)
    assert counters.joules() == pytest.approx(2.0 + 1.5) and not counters.missing


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "intel-rapl:0").mkdir()
    counters = EnergyCounters(tmp_path)
    assert counters.joules() is None and "cannot be read" in counters.missing


def test_this_machine_counts_or_says_why_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import json

    spec = tmp_path / "m.yaml"
    spec.write_text(
        'xlac: 1\nmodel: m\ninputs: {x: "f32[1000]"}\ngraph: {y: exp(x)}\noutputs: [y]\n'
    )
    assert status(["bench", str(spec), "--seconds", "0.05", "--counters", "--json"]) == 0
    counters = json.loads(capsys.readouterr().out)["counters"]
    assert counters["calls"] > 0
    for name in (*EVENTS, "joules"):
        assert (name in counters) != (name in counters["missing"])
        assert counters.get(name, 0) >= 0
