"""Schedules as documents: what is written is read back, a mistake is said with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.cache.compilations import question
from xlac.cli import status
from xlac.codegen.schedules.document import Asked, read
from xlac.debug import decisions
from xlac.driver import Lowered, lower, specialized
from xlac.frontends.loader import load
from xlac.options import CompileOptions
from xlac_sdk.host.registry import find
from xlac_sdk.source import SourceError
from xlac_sdk.target import Target

SPECS = Path(__file__).parents[3] / "specs"
VECTOR = Target("vector", vector_bytes=64, vector_registers=32, masked=True, fma=True, threads=4)
PLAIN = Target("plain", vector_bytes=16, fma=False)
SMALL: dict[str, dict[str, Any]] = {
    "elementwise_chain": {"params": {"n": 4096}},
    "softmax": {},
    "digits": {"dims": {"batch": 2}, "params": {"hidden": 128}},
    "layernorm_gelu": {},
    "lstm_3x60": {"dims": {"B": 1, "T": 5}, "params": {"depth": 2}},
    "loop_while": {},
}


def lowered(spec: str, target: Target = VECTOR, wanted: Asked | None = None) -> Lowered:
    return lower(specialized(load(SPECS / f"{spec}.yaml", **SMALL[spec])), target, wanted=wanted)


@pytest.mark.parametrize("target", [VECTOR, PLAIN], ids=lambda t: t.name)
@pytest.mark.parametrize("spec", SMALL)
def test_what_is_written_gives_the_same_kernels(spec: str, target: Target, tmp_path: Path) -> None:
    made = lowered(spec, target)
    file = tmp_path / "schedules.yaml"
    file.write_text(decisions.schedules(made))
    wanted = read(file)
    assert wanted.groups == {name: parts for name, (_, parts) in made.schedules.table().items()}
    again = lowered(spec, target, wanted)
    assert decisions.kernels(again.program) == decisions.kernels(made.program)
    assert decisions.schedules(again) == file.read_text()


def test_another_schedule_gives_another_kernel(tmp_path: Path) -> None:
    made = lowered("elementwise_chain")
    text = decisions.schedules(made)
    file = tmp_path / "schedules.yaml"
    file.write_text(text.replace("lanes: 16", "lanes: 8"))
    again = lowered("elementwise_chain", wanted=read(file))
    assert decisions.kernels(again.program) != decisions.kernels(made.program)


MISTAKES = [
    ("lanes: 16", "lames: 16", "XL4111", "nest has no field 'lames'"),
    ("lanes: 16", "lanes: wide", "XL4111", "lanes must be a whole number, not 'wide'"),
    ("lanes: 16", "lanes: 0", "XL4111", "lanes must be at least 1, not 0"),
    ("lanes: 16, ", "", "XL4111", "nest lacks lanes"),
    ("lanes: 16", "lanes: 24", "XL4112", "power of two, at most 64"),
    ("template: elementwise", "template: elementvice", "XL4111", "no template 'elementvice'"),
    ("loops: [[0]]", "loops: [[1]]", "XL4112", "the axes of all loops are [0]"),
    ("vector: 0", "vector: 3", "XL4112", "there are 1 loops, counted from 0"),
    ("main:", "other:", "XL4112", "has no part 'other'"),
    ("  g", "  gf", "XL4113", "the model has no group gf"),
    ("schedules:", "plans:", "XL4111", "a mapping of 'schedules'"),
]


@pytest.mark.parametrize(("old", "new", "code", "said"), MISTAKES, ids=[m[1] for m in MISTAKES])
def test_a_mistake_is_said_with_its_place(
    old: str, new: str, code: str, said: str, tmp_path: Path
) -> None:
    text = decisions.schedules(lowered("elementwise_chain"))
    assert old in text
    file = tmp_path / "schedules.yaml"
    file.write_text(text.replace(old, new))
    with pytest.raises(SourceError) as raised:
        lowered("elementwise_chain", wanted=read(file))
    (problem,) = raised.value.diagnostics
    assert problem.code == code and said in problem.message
    assert problem.span is not None and problem.span.file == file
    shown = file.read_text().splitlines()[problem.span.line - 1]
    place = new.partition(":")[0].strip() or "loops"
    assert place in shown


CHOICES = """xlac: 1
model: choices
inputs: {x: "f32[64, 256]"}
graph:
  y: tanh(x) * 2.0
  z: sum(y, axis=1)
outputs: [z]
"""


@pytest.mark.parametrize(
    ("new", "code", "said"),
    [
        ("inlined", "XL4111", "it must be one of inline, stored, apart, not 'inlined'"),
        ("3", "XL4111", "it must be one of inline, stored, apart, not 3"),
        ("stored", "XL4112", "cannot be stored: fusion has no choice about it"),
    ],
)
def test_a_placement_that_cannot_be_is_said_with_its_place(
    new: str, code: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "schedules.yaml"
    spec = tmp_path / "choices.yaml"
    spec.write_text(CHOICES)
    text = decisions.schedules(lower(load(spec), VECTOR))
    file.write_text(text.replace(": inline", f": {new}", 1))
    with pytest.raises(SourceError) as raised:
        lower(load(spec), VECTOR, wanted=read(file))
    (problem,) = raised.value.diagnostics
    assert problem.code == code and said in problem.message
    assert problem.span is not None and problem.span.file == file
    assert f": {new}" in file.read_text().splitlines()[problem.span.line - 1]
    file.write_text(text.replace("\n  v", "\n  vv", 1))
    with pytest.raises(SourceError, match="the model has no value vv") as raised:
        lower(load(spec), VECTOR, wanted=read(file))
    assert raised.value.diagnostics[0].code == "XL4113"


SCALED = """xlac: 1
model: scaled
inputs: {x: "f32[4096]"}
graph:
  y: x * 2.0
outputs: [y]
"""


@pytest.fixture
def scaled(tmp_path: Path) -> Path:
    file = tmp_path / "scaled.yaml"
    file.write_text(SCALED)
    return file


def test_compile_takes_a_file_or_a_mapping(scaled: Path, tmp_path: Path) -> None:
    made = lower(load(scaled), find("cpu").target(CompileOptions().request))
    file = tmp_path / "schedules.yaml"
    file.write_text(decisions.schedules(made).replace("unroll: 4", "unroll: 1"))
    given = {"schedules": {"g0": {}}}
    for found in (xlac.compile(scaled, schedules=file), xlac.compile(scaled, schedules=str(file))):
        np.testing.assert_array_equal(found(np.ones(4096, np.float32)), 2)
    with pytest.raises(SourceError, match="no group g0"):
        xlac.compile(scaled, schedules=given)
    with pytest.raises(SourceError, match="no such file"):
        xlac.compile(scaled, schedules=tmp_path / "none.yaml")
    names = {
        question(scaled, find("cpu"), CompileOptions(schedules=schedules))
        for schedules in (None, given, file)
    }
    file.write_text(file.read_text() + "# changed\n")
    names.add(question(scaled, find("cpu"), CompileOptions(schedules=file)))
    assert len(names) == 4 and None not in names


def test_commands_show_and_take_them(
    scaled: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    spec, file = str(scaled), tmp_path / "schedules.yaml"
    assert status(["inspect", spec, "--stage", "schedules"]) == 0
    text = capfd.readouterr().out
    assert status(["explain", spec, "--schedules"]) == 0
    assert "template: elementwise" in capfd.readouterr().out
    file.write_text(text)
    assert status(["run", spec, "--schedule", str(file)]) == 0
    file.write_text(text.replace("vector: 0", "vector: 7"))
    capfd.readouterr()
    for verb, *more in (("run",), ("bench",), ("profile",), ("build", "-o", str(tmp_path / "o"))):
        assert status([verb, spec, "--schedule", str(file), *more]) == 2
        assert "XL4112" in capfd.readouterr().err
