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
    others = [
        replace(base, **{name: "x" if name == "processor" else _other(getattr(base, name))})
        for name in LIMITS
    ]
    assert len({one.digest for one in (base, *others)}) == len(LIMITS) + 1
    assert MachineFacts().digest == base.digest and len(base.digest) == 16
    assert MachineFacts(issue=4).digest == MachineFacts(issue=4.0).digest


def _other(value: float) -> float:
    return value * 2 or 1 if value != 1.0 or isinstance(value, int) else 0.5


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
