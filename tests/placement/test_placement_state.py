"""State of models in stages: on a device where one stage alone has it, else held by the host."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from placed import assert_equal, results

import xlac
from xlac_sdk.source import UnsupportedError

SPEC = """\
xlac: 1
model: counts
inputs: {x: "f32[4]"}
state:
  count: {type: "f32[]", next: now}
  total: {type: "f32[4]", next: sum}
  seen: {type: "f32[4]", next: latest}
  before: {type: "f32[4]", next: seen}
graph:
  now: count + 1.0
  scaled: x * now
  sum: total + scaled
  latest: scaled * 2.0
  mean: sum / now
  past: before - latest
outputs: [mean, past]
"""
PLACES = [
    {"scaled": "c", "mean": "c", "sum": "c"},
    {"now": "reference", "past": "c"},
    {"*": "c"},
    {"latest": "reference", "sum": "c"},
]


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "counts.yaml"
    path.write_text(SPEC, "utf-8")
    return path


def inputs(call: int) -> dict[str, Any]:
    return {"x": np.arange(4, dtype=np.float32) + call}


@pytest.mark.parametrize("places", PLACES, ids=str)
def test_calls_pass_state_on(spec: Path, places: dict[str, str]) -> None:
    ours, single = xlac.compile(spec, place=places), xlac.compile(spec)
    for call in range(4):
        assert_equal(ours, single, inputs(call))
    ours.reset()
    single.reset()
    for call in range(2):
        assert_equal(ours, single, inputs(call))


def test_the_host_holds_what_several_stages_have(spec: Path) -> None:
    """`total` is read and changed by one stage; `seen` is what `before` becomes, on another."""
    ours: Any = xlac.compile(spec, place=PLACES[3])
    held = {state.name for state in ours.values.held}
    assert "total" not in held and "seen" in held
    slots = {slot.name: slot for slot in ours.program.slots if slot.name in ("total", "seen")}
    ours(**inputs(1))
    block = ours.executable.read_state()
    assert block.size == ours.program.state_bytes
    for name, expected in (("total", inputs(1)["x"]), ("seen", 2 * inputs(1)["x"])):
        at = slots[name].offset
        np.testing.assert_array_equal(block[at : at + 16].view(np.float32), expected)


@pytest.mark.parametrize("places", PLACES, ids=str)
def test_state_is_read_and_written(spec: Path, places: dict[str, str]) -> None:
    ours: Any = xlac.compile(spec, place=places)
    ours(**inputs(0))
    block = ours.executable.read_state()
    expected = results(ours, inputs(1))
    ours.executable.write_state(block)
    for name, array in results(ours, inputs(1)).items():
        np.testing.assert_array_equal(array, expected[name])


def test_a_pickle_has_stages_and_state_or_says_why_not(spec: Path) -> None:
    ours: Any = xlac.compile(spec, place={"*": "cpu"})
    ours(**inputs(0))
    copy = pickle.loads(pickle.dumps(ours))
    expected = results(ours, inputs(1))
    for name, array in results(copy, inputs(1)).items():
        np.testing.assert_array_equal(array, expected[name])
    with pytest.raises(UnsupportedError, match="target 'c' needs the steps"):
        pickle.dumps(xlac.compile(spec, place={"mean": "c"}))


def test_programs_for_several_sizes_share_state(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    text = SPEC.replace('x: "f32[4]"', 'x: "f32[4]", more: "f32[n]"')
    path.write_text(text.replace("mean: sum / now", "mean: sum / now + sum(more)"), "utf-8")
    with path.open("a", encoding="utf-8") as file:
        file.write("dims: {n: {min: 1, max: 8, opt: 2}}\n")
    ours, single = xlac.compile(path, place=PLACES[0]), xlac.compile(path)
    for call in range(4):
        more = np.ones(1 + call % 2, np.float32)
        assert_equal(ours, single, {**inputs(call), "more": more})


def test_state_of_an_open_size_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(
        'xlac: 1\ndims: {n: {min: 1, max: 8}}\ninputs: {x: "f32[n]"}\n'
        'state: {held: {type: "f32[n]", next: sum}}\n'
        "graph: {sum: held + x, y: exp(sum) - held}\noutputs: [y]\n",
        "utf-8",
    )
    with pytest.raises(UnsupportedError, match=r"m\.yaml:4:\d+: .*'held', of an open size.*XL7833"):
        xlac.compile(path, place={"y": "c"}, sizes="symbolic")
    fixed = xlac.compile(path, place={"y": "c"}, dims={"n": 4})
    assert_equal(fixed, xlac.compile(path, dims={"n": 4}), {"x": np.ones(4, np.float32)})
