"""Commands that look at one graph of a spec that trains: `--entry`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from xlac.cli import status

SPEC = """
xlac: 1
model: small
dims: {batch: {max: 8}}
inputs: {x: "f32[batch, 5]", y: "i32[batch]"}
graph:
  h: {op: linear, in: x, units: 7}
  out: {op: linear, in: relu(h), units: 3}
outputs: [out]
train:
  batch: batch
  init: {seed: 0}
  loss: mean(cross_entropy(out, y))
  optimizer: {sgd: {lr: {cosine: {peak: 0.1}}, momentum: 0.9}}
"""


@pytest.fixture
def spec(tmp_path: Path) -> str:
    file = tmp_path / "small.yaml"
    file.write_text(SPEC)
    return str(file)


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert status([*arguments]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_a_step_is_explained_and_inspected(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    step, run = (said(capsys, "explain", spec, "--entry", entry) for entry in ("step", "run"))
    assert "optimizers.yaml" not in run and len(step) > len(run) and "\nout: " in run
    graph = said(capsys, "inspect", spec, "--entry", "step", "--stage", "graph")
    assert "optimizer.velocity.h.weight" in graph
    evaluate = said(capsys, "inspect", spec, "--entry", "evaluate", "--stage", "fused")
    assert "velocity" not in evaluate


def test_a_step_is_measured_from_its_first_state(
    spec: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from xlac.cli import entry_run

    began: list[Any] = []
    real = entry_run.begin

    def noted(program: Any, *more: Any) -> None:
        real(program, *more)
        began.append(program.executable.read_state())

    monkeypatch.setattr(entry_run, "begin", noted)
    short = ("--entry", "step", "--seconds", "0.02", "--json")
    profile = json.loads(said(capsys, "profile", spec, *short))
    assert profile["kernels"] and profile["model"] == "small_step"
    assert json.loads(said(capsys, "bench", spec, *short))["kernels"] > 3
    assert len(began) == 3 and all(block.any() for block in began)


@pytest.mark.parametrize(
    "command",
    [
        ("explain",),
        ("inspect", "--stage", "memory"),
        ("profile", "--seconds", "0.02", "--top", "1"),
        ("bench", "--seconds", "0.02"),
    ],
)
def test_the_step_is_shown_and_measured_unless_another_entry_is_chosen(
    command: tuple[str, ...], spec: str, capsys: pytest.CaptureFixture[str]
) -> None:
    verb, *more = command
    assert status([verb, spec, *more]) == 0
    told = capsys.readouterr()
    assert "note: entry step" in told.err and "--entry evaluate" in told.err
    assert told.out and "note" not in told.out
    assert status([verb, spec, *more, "--entry", "run"]) == 0
    run = capsys.readouterr()
    assert "note: entry" not in run.err and run.out != told.out


def test_a_checked_step_names_what_is_out_of_range(
    spec: str, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = "y=8xi32=" + ",".join("0" * 7 + "9")
    step = ("run", spec, "--entry", "step", "--number", "length=9", "-i", labels)
    assert "loss" in said(capsys, *step)
    assert status([*step, "--checked"]) == 2
    assert "index 9 is outside" in capsys.readouterr().err


def test_a_spec_that_trains_says_how_to_look_at_it(
    spec: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("run", "verify"):  # which program runs is the user's to say
        assert status([command, spec]) == 3
        told = capsys.readouterr().err
        assert "none of them is chosen [XL5030]" in told and "--entry step" in told
    assert status(["run", spec, "--entry", "step"]) == 2
    assert "--number length=1000" in capsys.readouterr().err


def test_gradients_are_told_of_by_the_nodes_that_they_are_of(
    spec: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing but constants and counters is without a place, or in the name of what reads it."""
    text = said(capsys, "explain", spec, "--entry", "step")
    told = {line.partition(":")[0]: line for line in text.splitlines() if line[:1].strip()}
    assert {"h", "out", "train.loss", "h.weight.sgd.w"} <= told.keys()
    assert "dot" in told["out"] and "exp" in told["train.loss"]
    assert not any("exp" in line for name, line in told.items() if "sgd" in name)


def test_a_micro_batch_is_run_where_steps_have_several(
    spec: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Its loss is that of a step from there; without micro-batches it says what to do."""
    part = ("run", spec, "--entry", "accumulate", "-i", "y=zeros")
    assert status([*part]) == 2
    assert "train: {accumulate: 4}" in capsys.readouterr().err
    Path(spec).write_text(SPEC + "  accumulate: 2\n")
    whole = ("run", spec, "--entry", "step", "--number", "length=9", "-i", "y=zeros")
    assert said(capsys, *part) == said(capsys, *whole)
    assert "accumulate.gradient.h.weight" in said(
        capsys, "inspect", spec, *part[2:4], "--stage", "graph"
    )


@pytest.mark.parametrize("number", ["lr=nan", "lr=-1", "lr=inf", "lr=1e39", "length=nan"])
def test_a_number_that_is_none(
    number: str, spec: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert status(["run", spec, "--entry", "step", "--number", number]) == 2
    assert "is a number of at least 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--emit", "exe"), "xlac train"),
        (("--emit", "exe"), "docs/CALLING.md"),
        (("--quantize", "int8"), "build the spec that this one includes"),
    ],
)
def test_what_is_not_built_of_a_spec_that_trains_says_what_is(
    more: tuple[str, ...], told: str, spec: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert status(["build", spec, *more, "-o", str(tmp_path / "out")]) == 3
    assert told in capsys.readouterr().err
