"""The probes of the cpu backend do what they say; how long they take is not asked here."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from xlac.cli.commands import doctor
from xlac.debug import measure
from xlac.support import measured_facts
from xlac_cpu import BACKEND
from xlac_cpu.run import probes
from xlac_sdk.machine import measuring
from xlac_sdk.machine.measuring import PARTS, Probes, TimedProbe, TimedRun
from xlac_sdk.machine_facts import MachineFacts
from xlac_sdk.source import SourceError, UnsupportedError


def chained(turns: int, k: int) -> int:
    x = 1
    for _ in range(turns * probes.DEEP // 2):
        x = ((x + k) ^ k) & ((1 << 64) - 1)
    return int(np.uint64(x).astype(np.int64))


def test_the_chain_is_computed() -> None:
    made = probes.probes(MachineFacts())
    assert made.chain() == chained(probes.TURNS, 12345)
    assert made.chain_cycles == probes.TURNS * probes.DEEP


def test_every_probe_runs_and_has_a_size() -> None:
    made = probes.probes(MachineFacts())
    names = [probe.name for probe in made.probes]
    assert names == ["l1", "l2", *PARTS, "rows_stride", "l3", "memory"]
    for probe in made.probes:
        assert 1 << 20 < probe.nbytes <= probes.MOVED and probe.run() in range(1, 1 << 20)
    few = probes.probes(MachineFacts(l3_bytes=512 << 10))
    assert "l3" not in [probe.name for probe in few.probes]


def test_doctor_keeps_what_was_steady(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cache = tmp_path_factory.mktemp("measured")
    monkeypatch.setenv("XLAC_CACHE", str(cache))
    probe = TimedProbe("memory", 4000, lambda: None)
    monkeypatch.setattr(type(BACKEND), "probes", lambda *_: Probes(lambda: None, 100.0, [probe]))
    ns = 1000.0
    monkeypatch.setattr(measuring, "sampled", lambda *_: [TimedRun(ns, 100.0, False)] * 15)
    result = CliRunner().invoke(doctor.command, ["--measure"])
    assert result.return_value == 0 or result.exit_code == 0
    assert "memory_rate 4" in result.output and str(cache) in result.output
    assert measured_facts.kept() == (("memory_rate", 4.0),)
    record = json.loads((cache / measured_facts.FILE).read_text(encoding="utf-8"))
    assert record["measured"]["memory"] == {
        "bytes_per_cycle": 4.0,
        "spread": 0.0,
        "samples": [15, 15],
    }
    monkeypatch.setattr(measuring, "sampled", lambda *_: [TimedRun(ns, 100.0, True)] * 60)
    assert "no measurement was steady" in CliRunner().invoke(doctor.command, ["--measure"]).output
    assert measured_facts.kept() == (("memory_rate", 4.0),)


def test_what_cannot_be_measured_or_kept_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from xlac_c import BACKEND as C

    with pytest.raises(UnsupportedError, match="the c backend has nothing that measures"):
        measure.measure(C, print)
    monkeypatch.setenv("XLAC_CACHE", "off")
    with pytest.raises(SourceError, match="the cache is off"):
        measure.keep(measure.Measurement({}, {}, {"l2_rate": 2.0}))
