"""No command takes an option and does nothing with it."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from xlac.cli import status
from xlac.cli.choice import OF_ARTEFACTS
from xlac.cli.commands import bench, build, run
from xlac_sdk.host.registry import find, installed
from xlac_sdk.source import XlacError
from xlac_sdk.target import MACHINE, Request

COMMANDS = {"run": run.command, "bench": bench.command}
SPEC = """
xlac: 1
model: small
dims: {batch: {max: 8}}
inputs: {x: "f32[batch, 5]", y: "i32[batch]"}
graph:
  out: {op: linear, in: x, units: 3}
outputs: [out]
train:
  batch: batch
  init: {seed: 0}
  loss: mean(cross_entropy(out, y))
  optimizer: {sgd: {lr: {cosine: {peak: 0.1}}}}
"""
MODEL = SPEC.partition("train:")[0] + "weights: {init: {seed: 0}}\n"


def options(command: click.Command) -> list[click.Option]:
    return [one for one in command.params if isinstance(one, click.Option) and one.name != "help"]


def written(option: click.Option) -> list[list[str]]:
    """An option as a user writes it, on each of its sides."""
    forms = [option.opts, option.secondary_opts] if option.is_flag else [option.opts]
    value = [] if option.is_flag else ["1"]
    if isinstance(option.type, click.Choice):
        value = [option.type.choices[0]]
    return [[max(side, key=len), *value] for side in forms if side]


FOR_SPECS = [
    (name, given)
    for name, command in COMMANDS.items()
    for option in options(command)
    if option.name not in OF_ARTEFACTS
    for given in written(option)
]


@pytest.mark.parametrize(("command", "given"), FOR_SPECS, ids=lambda one: str(one))
def test_artefacts_refuse_what_is_for_specs(
    command: str, given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status([command, str(tmp_path), *given]) == 2
    assert f"{given[0]} is for specs; an artefact is as it was built" in capsys.readouterr().err


def test_what_artefacts_take_are_parameters() -> None:
    names = {one.name for command in COMMANDS.values() for one in command.params}
    assert names >= OF_ARTEFACTS
    assert {"allow_kernels", "target", "threads", "allow_outside"}.isdisjoint(OF_ARTEFACTS)


def test_the_entry_of_an_artefact_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "small.yaml").write_text(SPEC)
    folder = str(tmp_path / "out")
    assert status(["build", str(tmp_path / "small.yaml"), "-o", folder]) == 0
    capsys.readouterr()
    assert status(["bench", folder, "--entry", "step", "--json", "--seconds", "0.01"]) == 0
    assert json.loads(capsys.readouterr().out)["entry"] == "step"
    assert status(["bench", folder, "--entry", "accumulate"]) == 2
    assert "accumulate" in capsys.readouterr().err


@pytest.mark.parametrize("field", MACHINE)
@pytest.mark.parametrize("backend", installed())
def test_no_backend_ignores_a_machine(backend: str, field: str) -> None:
    with pytest.raises(XlacError):
        find(backend).target(Request(**{field: "no-such-machine"}))


PRINTED = ["-o", "--emit", "--weights", "--static", "--variant", "--max-memory", "--quantize"]


@pytest.mark.parametrize("option", PRINTED)
def test_options_of_what_is_written_are_refused_where_a_graph_is_printed(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "small.yaml").write_text(MODEL)
    (given,) = (one for one in options(build.command) if option in one.opts)
    (text,) = written(given)
    assert status(["build", str(tmp_path / "small.yaml"), "--until", "fold", *text]) == 2
    assert f"{text[0]} is for what is written" in capsys.readouterr().err


def test_only_programs_are_linked_statically(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "small.yaml").write_text(MODEL)
    assert status(["build", str(tmp_path / "small.yaml"), "--emit", "o,h", "--static"]) == 3
    assert "--static links a program" in capsys.readouterr().err
