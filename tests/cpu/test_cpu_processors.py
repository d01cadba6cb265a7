"""The shipped table of processors, and which facts a request gets."""

from __future__ import annotations

import json

import pytest

from xlac_cpu import BACKEND
from xlac_cpu.llvm.host import host
from xlac_cpu.processors import TABLE, named, shipped, table
from xlac_cpu.target import probe
from xlac_sdk.machine.system_facts import system_facts
from xlac_sdk.machine_facts import MachineFacts
from xlac_sdk.target import Request

TRIPLE = "x86_64-unknown-linux-gnu"


def test_every_entry_is_a_processor_of_llvm_with_a_source() -> None:
    known = probe(TRIPLE, "x86-64", "")["cpus"]
    assert set(table()) <= set(known) | {"skx"}
    for name, entry in json.loads(TABLE.read_text(encoding="utf-8")).items():
        assert len(entry["source"]) > 20, name
    for facts in table().values():
        assert facts.l1_bytes < facts.l2_bytes < facts.l3_bytes
        assert facts.l1_sets * facts.line_bytes == 4096  # they are indexed by a page's offset


@pytest.mark.parametrize("cpu", ["haswell", "skylake-avx512", "icelake-server", "znver2", "znver5"])
@pytest.mark.sampled(2)
def test_a_name_takes_its_processors_facts(cpu: str) -> None:
    target = BACKEND.target(Request(cpu=cpu, triple=TRIPLE))
    assert target.hardware == table()[cpu] and target.hardware.processor == cpu
    assert target.unmeasured is None


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_a_level_is_of_no_one_processor(cpu: str) -> None:
    found = BACKEND.target(Request(cpu=cpu, triple=TRIPLE)).hardware
    assert found == MachineFacts(processor=cpu)


@pytest.mark.parametrize("cpu", ["", "native"])
def test_this_machine_takes_what_its_system_tells(cpu: str) -> None:
    found = BACKEND.target(Request(cpu=cpu)).hardware
    assert found == shipped(host().cpu, system_facts())
    assert {name: getattr(found, name) for name in system_facts()} == system_facts()


def test_given_facts_leave_the_shipped_ones_to_sums() -> None:
    asked = Request(cpu="znver3", triple=TRIPLE, facts=(("l2_rate", 48.0),))
    target = BACKEND.target(asked)
    assert target.hardware.l2_rate == 48 and target.shipped.hardware == table()["znver3"]
    assert BACKEND.target(Request(cpu="znver3", triple=TRIPLE)) == target.shipped


def test_a_processor_is_named_by_features_that_only_its_kind_has() -> None:
    """Some virtual machines report another processor's model number."""
    amx = {"amx-tile": True, "avx512fp16": True, "avx2": True}
    assert named("rocketlake", amx) == "sapphirerapids"
    assert named("a-later-one", amx) == "sapphirerapids"
    assert named("graniterapids", amx) == "graniterapids"
    assert named("rocketlake", {"avx2": True}) == "rocketlake"
    assert named("znver4", {**amx, "amx-tile": False}) == "znver4"


def test_marks_are_features_of_llvm() -> None:
    entries = json.loads(TABLE.read_text(encoding="utf-8"))
    marks = {mark for entry in entries.values() for mark in entry.get("marks", ())}
    assert marks and marks <= set(probe(TRIPLE, "x86-64", "")["features"])
