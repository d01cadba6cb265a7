"""What ships with the compiler as tuned: it is used for its processor alone, and all of it fits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import xlac
from xlac.codegen.schedules.document import Asked, data_of, read
from xlac.codegen.schedules.elementwise import ElementwiseSchedule
from xlac.codegen.schedules.shipped import database
from xlac.codegen.schedules.tuned import TunedChoice, TunedGroup, TuningRecords, machine_of
from xlac.debug import decisions
from xlac.driver import lower, specialized
from xlac.frontends.loader import load
from xlac.fusion.placement import named_choices
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

ROOT = Path(__file__).resolve().parents[2]
SPEC = {
    "xlac": 1,
    "model": "small",
    "inputs": {"x": "f32[24, 96]"},
    "graph": {"s": "exp(x) * 2", "a": "sum(s, axis=0)", "b": "sum(s, axis=1)"},
    "outputs": ["a", "b"],
}


HERE = find("cpu").target(Request())


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    file = tmp_path / "small.yaml"
    file.write_text(json.dumps(SPEC))
    return file


@pytest.fixture
def shipped(spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A database in which the value `s` of the model is computed apart, and its kernel is unrolled
    otherwise.
    """
    folder = tmp_path / "database"
    folder.mkdir()
    monkeypatch.setattr(database, "FOLDER", folder)
    database._read.cache_clear()
    model, facts = load(spec), HERE
    lowered = lower(model, facts)
    name = next(
        name for name, (node, _) in named_choices(lowered.fused).items() if node.name == "s"
    )
    records = TuningRecords(machine_of(facts))
    records = records.with_value(name, TunedChoice("s", (1.1, 1.2), "apart"))
    apart = lower(model, facts, wanted=read(data_of(records)))
    for group, (_, parts) in apart.schedules.table().items():
        if isinstance(main := parts["main"], ElementwiseSchedule):
            nests = tuple(replace(nest, unroll=4) for nest in main.nests)
            entry = TunedGroup(
                "s", 2.0, 1.0, (1.1, 1.2), 9, True, {"main": replace(main, nests=nests)}
            )
            records = records.with_group(group, entry)
    assert records.schedules()
    file = folder / f"{HERE.hardware.processor}_1.json"
    file.write_text(json.dumps(data_of(records)))
    database._read.cache_clear()
    yield file
    database._read.cache_clear()


def test_a_shipped_entry_is_used_for_its_processor_alone(spec: Path, shipped: Path) -> None:
    model = load(spec)
    here = lower(model, HERE)
    found = {
        group: main.nests[0].unroll
        for group, (_, parts) in here.schedules.table().items()
        if isinstance(main := parts["main"], ElementwiseSchedule)
    }
    assert set(found.values()) == {4}
    assert set(found) <= set(read(json.loads(shipped.read_text())).groups)
    elsewhere = replace(HERE, hardware=replace(HERE.hardware, processor="another"))
    others = [elsewhere, replace(HERE, threads=2), replace(HERE, most_lanes=7)]
    for other in others:
        assert len(lower(model, other).partition.groups) != len(here.partition.groups)
    without = lower(model, HERE, wanted=Asked(shipped=False))
    assert len(without.partition.groups) != len(here.partition.groups)


def test_what_a_user_asks_for_wins(spec: Path, shipped: Path) -> None:
    model = load(spec)
    data = json.loads(shipped.read_text())
    (name,) = data["placements"]
    wanted = read({"placements": {name: "inline"}, "schedules": {}})
    asked = lower(model, HERE, wanted=wanted)
    assert dict(named_choices(asked.fused))[name][1].value == "inline"


def test_a_schedule_that_does_not_fit_is_left_to_the_compiler(spec: Path, shipped: Path) -> None:
    data = json.loads(shipped.read_text())
    for parts in data["schedules"].values():
        parts["main"]["nests"][0]["lanes"] = 3
    shipped.write_text(json.dumps(data))
    database._read.cache_clear()
    text = decisions.schedules(lower(load(spec), HERE))
    assert "lanes: 3," not in text and f"lanes: {HERE.vector_bytes // 4}\n" in text


def test_a_document_without_what_is_shipped(spec: Path, shipped: Path, tmp_path: Path) -> None:
    assert read({"schedules": {}, "shipped": False}).shipped is False
    with pytest.raises(xlac.XlacError, match="it must be true or false"):
        read({"schedules": {}, "shipped": "no"})


def test_results_are_the_same(spec: Path, shipped: Path) -> None:
    given = np.random.default_rng(0).standard_normal((24, 96)).astype("f4")
    without = {"schedules": {}, "shipped": False}
    models = [xlac.compile(spec, schedules=one) for one in (None, without)]
    first, second = (model(x=given) for model in models)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("file", sorted(database.FOLDER.glob("*.json")), ids=lambda f: f.stem)
def test_everything_that_ships_fits(file: Path) -> None:
    processor, _, threads = file.stem.rpartition("_")
    triple = "x86_64-unknown-linux-gnu"
    facts = find("cpu").target(Request(processor, triple, threads=int(threads)))
    asked = database.shipped(facts)
    assert asked.groups or asked.placements.asked or asked.rewrites, "it is of this processor"
    left_groups, left = set(asked.groups), {*asked.placements.asked, *asked.rewrites}
    for spec_file in sorted((ROOT / "specs").glob("*.yaml")):
        if not (left_groups or left) or "train" in spec_file.name:
            continue
        lowered = lower(specialized(load(spec_file)), facts)
        for group, (_, parts) in lowered.schedules.table().items():
            wanted = asked.of(group)
            assert all(parts.get(part) == one for part, one in wanted.items())
            left_groups.discard(group)
        left -= set(lowered.schedules.placements.kept(lowered.fused))
        left -= set(lowered.choices.named())
    assert not left_groups and not left, "tune again: bench/tuning/ship.py"
