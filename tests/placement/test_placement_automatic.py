"""Places that are chosen by memory and predicted time."""

from __future__ import annotations

import re
from itertools import combinations, pairwise, permutations
from math import inf
from pathlib import Path
from random import Random

import numpy as np
import pytest
from shipped import FOLDER

import xlac
from xlac.cli import status
from xlac.frontends.loader import load
from xlac.model import Model
from xlac.placement.automatic import AutomaticPlaces, ChosenPlaces, DeviceLimits, DeviceRun, _Choice
from xlac.placement.cut import nbytes
from xlac.placement.model_parts import ModelParts
from xlac_sdk.source import LimitError, UnsupportedError

SPEC = """\
xlac: 1
model: tower
inputs: {x: "f32[16, 64]"}
weights: {init: {seed: 0}}
blocks:
  mlp:
    inputs: [x]
    graph:
      up: {op: linear, in: x, units: 256}
      down: {op: linear, in: relu(up), units: 64}
    outputs: {y: down}
graph:
  first: {block: mlp, in: x}
  second: {block: mlp, in: first}
  third: {block: mlp, in: second}
  y: third + x
outputs: [y]
"""
LAYER = 4 * (64 * 256 + 256 + 256 * 64 + 64)  # bytes of a block's weights
VALUES = 1 << 17  # room for values, less than a layer's weights
FAST, SLOW = (1e12, 1e12), (1e10, 1e10)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "tower.yaml"
    path.write_text(SPEC, "utf-8")
    return path


def chosen(model: Model, fast: int | None, slow: int | None = None) -> ChosenPlaces:
    """Places between a fast device c and a slow one, cpu, of some memory."""
    devices = {"c": DeviceLimits(fast, *FAST), "cpu": DeviceLimits(slow, *SLOW)}
    return AutomaticPlaces(devices).chosen(model)


def test_all_of_it_is_on_the_fast_device_where_it_fits(spec: Path) -> None:
    found = chosen(load(spec), None)
    assert [run.target for run in found.runs] == ["c"]
    assert found.crossing == 0


@pytest.mark.parametrize("layers", [1, 2])
def test_as_many_layers_as_fit(spec: Path, layers: int) -> None:
    limit = layers * LAYER + VALUES
    found = chosen(load(spec), limit)
    (fast,) = (run for run in found.runs if run.target == "c")
    assert sum(path.endswith("up") for path in fast.paths) == layers
    assert layers * LAYER < fast.memory <= limit
    others = {path for run in found.runs if run.target != "c" for path in run.paths}
    assert not others & set(fast.paths)


def test_what_is_on_no_device(spec: Path) -> None:
    with pytest.raises(LimitError, match="no placement fits: the model needs up to") as caught:
        chosen(load(spec), LAYER, LAYER)
    assert caught.value.diagnostics[0].code == "XL7835"
    devices = {f"d{n}": DeviceLimits() for n in range(5)}
    with pytest.raises(UnsupportedError, match="among 4 devices at most"):
        AutomaticPlaces(devices).chosen(load(spec))


def brute(asked: AutomaticPlaces, model: Model) -> float:
    """The least time of all runs of parts, tried one after the other."""
    parts = ModelParts.of(model.graph)
    choice = _Choice(asked, parts)
    choice.best()
    count, times = len(parts.nodes), [inf]
    for many in range(1, len(asked.devices) + 1):
        for names in permutations(asked.devices, many):
            for middle in combinations(range(1, count), many - 1):
                runs = [*pairwise([0, *middle, count])]
                fits = (
                    asked.devices[name].holds(choice._needs(start)[stop - start - 1])
                    for name, (start, stop) in zip(names, runs, strict=True)
                )
                if all(fits):
                    seconds = [
                        sum(
                            asked.devices[name].seconds(n)
                            for p in parts.nodes[slice(*run)]
                            for n in p
                        )
                        for name, run in zip(names, runs, strict=True)
                    ]
                    times.append(in_sequence(asked, model, parts, runs, seconds))
    return min(times)


def in_sequence(
    asked: AutomaticPlaces,
    model: Model,
    parts: ModelParts,
    runs: list[tuple[int, int]],
    seconds: list[float],
) -> float:
    """When the last of some runs ends, each of which waits for the one before, and for copies that
    begin when what they read is there.
    """
    run_of = {
        node: number
        for number, run in enumerate(runs)
        for part in parts.nodes[slice(*run)]
        for node in part
    }
    ends: list[float] = []
    for number, time in enumerate(seconds):
        copied: dict[int, dict[int, int]] = {}
        for node, own in run_of.items():
            for given in node.inputs if own == number else ():
                source = given.inputs[0] if given.op.mnemonic == "pick" else given
                if run_of.get(source, number) < number:
                    copied.setdefault(run_of[source], {})[id(source)] = nbytes(source)
        begin = ends[-1] if ends else 0.0
        for source, amounts in copied.items():
            begin = max(begin, ends[source] + asked.latency + sum(amounts.values()) / asked.rate)
        ends.append(begin + time)
    return ends[-1]


@pytest.mark.parametrize("name", ["bert_layer", "digits", "lstm_3x60"])
def test_no_other_runs_take_less_time(name: str) -> None:
    model, random = load(FOLDER / f"{name}.yaml"), Random(name)
    for _ in range(8):
        speeds = [(10 ** random.uniform(9, 13), 10 ** random.uniform(9, 12)) for _ in range(2)]
        limit = int(10 ** random.uniform(4, 8))
        devices = {"a": DeviceLimits(limit, *speeds[0]), "b": DeviceLimits(None, *speeds[1])}
        asked = AutomaticPlaces(devices)
        assert asked.chosen(model).seconds == pytest.approx(brute(asked, model))


@pytest.mark.parametrize("targets", ["abc", "abcd"])
def test_no_other_runs_of_more_devices_take_less_time(spec: Path, targets: str) -> None:
    """Some of which hide copies from the first run to the last."""
    spec.write_text(SPEC.replace("y: third + x", "y: third + first"), "utf-8")
    model, random, hidden = load(spec), Random(targets), 0.0
    for _ in range(12):
        devices = {
            target: DeviceLimits(int(10 ** random.uniform(5.0, 5.6)), 1e11, 1e11)
            for target in targets[1:]
        }
        asked = AutomaticPlaces({"a": DeviceLimits(None, 1e9, 1e9), **devices}, rate=1e8)
        found = asked.chosen(model)
        hidden += found.hidden
        assert found.hidden <= found.copies
        assert found.seconds == pytest.approx(brute(asked, model))
    assert hidden > 0


def test_hidden_copies_are_told(spec: Path) -> None:
    runs = tuple(DeviceRun(target, (target,), 1e-3, 1) for target in "abc")
    told = ChosenPlaces(runs, 6e-4, 1000, 2e-4).told(dict.fromkeys("abc", DeviceLimits()))
    end = "copies of 1,000 bytes: 600.0 us, of which 200.0 us are hidden; in all 3.400 ms"
    assert told.splitlines()[-1] == end


def test_the_command_chooses_and_computes_the_same(
    spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / "placed.npy", tmp_path / "alone.npy"]
    places = f"auto:c={2 * LAYER + VALUES}:1Tflop/s:1TB/s"
    assert status(["run", str(spec), "--place", places, "-o", f"y=@{files[0]}"]) == 0
    assert "tower on cpu and c: peak memory" in capsys.readouterr().err
    assert status(["run", str(spec), "-o", f"y=@{files[1]}"]) == 0
    np.testing.assert_allclose(*map(np.load, files), rtol=1e-5, atol=2e-5)


def test_explain_tells_what_was_chosen(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = f"auto:c={LAYER + VALUES}:1Tflop/s:1TB/s"
    assert status(["explain", str(spec), "--place", places]) == 0
    out = capsys.readouterr().out
    assert f" of {LAYER + VALUES:,} bytes" in out
    copied = re.search(r"copies of ([\d,]+) bytes: ([\d.]+) us; in all ", out)
    assert copied
    crossing = int(copied[1].replace(",", ""))
    assert float(copied[2]) == pytest.approx(5 + crossing / 10e3, abs=0.06)
    assert f"stages read {crossing:,} bytes a call" in out
    assert "2 stages on " in out


def test_sizes_that_are_chosen_decide(capsys: pytest.CaptureFixture[str]) -> None:
    """What is told is what is done, at the sizes that are explained."""
    spec = FOLDER / "bert_layer.yaml"
    for sizes in ((), ("--dim", "batch=32")):
        assert status(["explain", str(spec), *sizes, "--place", "auto:c=12M:1Tflop/s:1TB/s"]) == 0
        out = capsys.readouterr().out
        runs = re.findall(r"^chosen: (\w+) … \w+ on (\w+): ", out, re.MULTILINE)
        stages = re.findall(r"^stage \d+ on (\w+): (\w+)", out, re.MULTILINE)
        assert runs == [(first, target) for target, first in stages]
        assert len(runs) == (1 if sizes else 2)


def test_compiled_programs_are_compared_with_the_limit(spec: Path) -> None:
    """What was estimated is not what counts."""
    model = xlac.compile(spec, place=AutomaticPlaces({"c": DeviceLimits(), "cpu": DeviceLimits()}))
    assert model(x=np.zeros((16, 64), np.float32)).shape == (16, 64)
    asked = AutomaticPlaces({"cpu": DeviceLimits(1000)})
    with pytest.raises(LimitError, match="cpu is given 1,000 bytes, and needs"):
        asked.check([("cpu", xlac.compile(spec).program)])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("auto:c=1G:fast", "takes TARGET=MEMORY:FLOP/S:B/S"),
        ("auto:c=1G,c=2G", "takes TARGET=MEMORY:FLOP/S:B/S"),
        ("auto:c=much", "'much' is not an amount of memory"),
        ("auto:c=1G:1:2", "'1,2' is no device"),
    ],
)
def test_mistakes(spec: Path, text: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["run", str(spec), "--place", text]) == 2
    assert problem in capsys.readouterr().err
