"""The schema of machine facts: bounds, JSON, what is derived, and targets with measured ones."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from xlac_sdk.machine_facts import LIMITS, MachineFacts
from xlac_sdk.target import Target


def test_every_fact_has_bounds_that_its_default_keeps() -> None:
    assert list(LIMITS) == [field.name for field in fields(MachineFacts)]
    MachineFacts()


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("wrong", [None, True, -1, float("nan"), float("inf"), 1 << 60, "", []])
def test_what_is_out_of_bounds_is_refused_by_name(name: str, wrong: object) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: must be .+, not "):
        MachineFacts.from_json({name: wrong})


def test_facts_are_json_and_back() -> None:
    facts = MachineFacts(processor="a", l2_bytes=1 << 20, l2_rate=48.5)
    assert MachineFacts.from_json(json.loads(json.dumps(facts.to_json()))) == facts
    assert MachineFacts.from_json({"l2_rate": 48.5}) == MachineFacts(l2_rate=48.5)
    with pytest.raises(
        ValueError, match=r"^l2_speed: is not a fact; facts are processor, l1_bytes"
    ):
        MachineFacts.from_json({"l2_speed": 1})


def test_digests_tell_every_fact_apart() -> None:
    base = MachineFacts()
    others = [MachineFacts.from_json({name: _other(name)}) for name in LIMITS]
    assert len({one.digest for one in (base, *others)}) == len(LIMITS) + 1
    assert MachineFacts().digest == base.digest and len(base.digest) == 16
    assert MachineFacts(issue=4).digest == MachineFacts(issue=4.0).digest


def _other(name: str) -> object:
    """Another valid value of a fact than its default."""
    value = getattr(MachineFacts(), name)
    return next(v for v in ("x", 1, 2, 4, 0.5, 128, 512) if v != value and LIMITS[name].holds(v))


def test_defaults_give_the_constants_that_choices_had() -> None:
    """Row tiles from which packing pays, sets of a first-level cache, cycles of a transform."""
    facts = MachineFacts()
    assert (facts.packing_pays(stays=False), facts.packing_pays(stays=True)) == (8, 128)
    assert (facts.l1_sets, facts.l2_room, facts.transform_cycles) == (64, 512 << 10, 2.5)
    assert MachineFacts(l1_bytes=48 << 10, l1_ways=12).l1_sets == 64
    assert MachineFacts(l1_bytes=128 << 10, l1_ways=8).l1_sets == 256


def test_a_target_without_measured_facts_is_what_it_is_with_them_aside() -> None:
    target = Target("t", hardware=MachineFacts(l2_rate=30))
    assert target.shipped is target
    measured = replace(target, hardware=MachineFacts(l2_rate=60), unmeasured=target.hardware)
    assert measured.shipped == target and measured.hardware.l2_rate == 60
    assert Target.from_json(json.loads(json.dumps(measured.to_json()))) == measured
    assert target.with_facts(l1_bytes=1 << 14).l1_bytes == 1 << 14


def test_threads_share_what_is_measured_of_all() -> None:
    alone = MachineFacts(l2_rate=32, l3_rate=16, memory_rate=8)
    assert alone.rates("l3", 1) == alone.rates("l3", 64) == (16, 16)
    facts = replace(alone, l3_spread=2, l3_total=40, l2_total=64)
    assert facts.rates("l3", 1) == (8, 32) and facts.rates("l3", 4) == (5, 20)
    assert facts.rates("l2", 2) == (32, 32) and facts.rates("l2", 4) == (16, 16)
    assert facts.rates("memory", 4) == (8, 8)


def test_packing_pays_at_both_ends_of_a_range() -> None:
    facts = MachineFacts(l2_rate=32, l3_rate=16, apart_penalty=0.5)
    wide = replace(facts, l3_spread=2)
    slow, fast = replace(facts, l3_rate=8), replace(facts, l3_rate=32)
    both = max(slow.packing_pays(True), fast.packing_pays(True))
    assert wide.packing_pays(True) == both == 20
    assert replace(facts, l3_total=16).packing_pays(True, threads=2) == 20
