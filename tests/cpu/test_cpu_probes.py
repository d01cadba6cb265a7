"""The probes of the cpu backend do what they say; how long they take is not asked here."""

from __future__ import annotations

import json
import time
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner

from xlac.cli.commands import doctor
from xlac.support import measure, measured_facts
from xlac_cpu import BACKEND
from xlac_cpu.run import probes
from xlac_sdk.dtypes import DType
from xlac_sdk.machine import measuring
from xlac_sdk.machine.measuring import PARTS, Probes, TimedProbe, TimedRun
from xlac_sdk.machine_facts import MachineFacts
from xlac_sdk.source import SourceError, UnsupportedError
from xlac_sdk.target import Request


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
    made = probes.probes(MachineFacts(l3_bytes=4 << 20), threads=2)
    names = [probe.name for probe in made.probes]
    paged = ["l2", *PARTS, "l3", "memory"]
    alls = ["l1_all", "l2_all", "l3_all", "memory_all"]
    assert names == ["l1", *paged, *(n + "_huge" for n in paged), "rows_stride", *alls]
    for probe in made.probes:
        most = 2 * probes.LONG[probe.name[:-4]] if probe.name in alls else 1
        assert 1 << 20 < probe.nbytes <= most * probes.MOVED
        assert probe.run() in range(1, 1 << 20) and probe.alone() in (True, False)
    few = probes.probes(MachineFacts(l3_bytes=512 << 10), threads=1)
    assert not {"l3", "l3_huge", *alls} & {probe.name for probe in few.probes}


def test_many_threads_read_memory_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[int, int]] = []

    def reading(self: object, offset: int, *given: int) -> int:
        read.append((offset, offset + given[2]))
        return 1

    monkeypatch.setattr(probes._Readers, "read", reading)
    facts = MachineFacts(l2_bytes=1 << 20, l3_bytes=4 << 20)
    for probe in probes.probes(facts, threads=5).probes:
        read.clear()
        probe.run()
        if probe.name.endswith("_all"):
            assert len(read) == 5
            assert all(a[1] <= b[0] for a, b in pairwise(sorted(read)))


def test_a_thread_that_waited_counts_as_disturbed() -> None:
    calm = probes._together("p", 1, [lambda: time.sleep(0.01), lambda: time.sleep(0.01)])
    calm.run()
    assert calm.nbytes == 2 and not calm.alone()


def test_arithmetic_is_counted_in_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "FMAS", 40)
    monkeypatch.setattr(probes, "EXPS", 2)
    target = BACKEND.target(Request())
    made = {probe.name: probe for probe in probes.arithmetic(BACKEND, target)}
    assert {"fma_128", "exp"} <= made.keys()
    assert made["exp"].nbytes == 2 * probes.NUMBERS // target.lanes(DType.F32)
    for probe in made.values():
        assert probe.nbytes in (made["exp"].nbytes, probes.SUMS * 40)
        probe.run()


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
    assert measured_facts.kept() == (("memory_rate", 4.0), ("memory_spread", 1.0))
    record = json.loads((cache / measured_facts.FILE).read_text(encoding="utf-8"))
    assert record["measured"]["memory"] == {
        "bytes_per_cycle": 4.0,
        "spread": 0.0,
        "samples": [15, 15],
        "ghz": 1.0,
    }
    monkeypatch.setattr(measuring, "sampled", lambda *_: [TimedRun(ns, 100.0, True)] * 60)
    assert "no measurement was steady" in CliRunner().invoke(doctor.command, ["--measure"]).output
    assert measured_facts.kept() == (("memory_rate", 4.0), ("memory_spread", 1.0))


def test_what_cannot_be_measured_or_kept_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from xlac_c import BACKEND as C

    with pytest.raises(UnsupportedError, match="the c backend has nothing that measures"):
        measure.measure(C, print)
    monkeypatch.setenv("XLAC_CACHE", "off")
    with pytest.raises(SourceError, match="the cache is off"):
        measure.keep(measure.Measurement({}, {}, {"l2_rate": 2.0}))
