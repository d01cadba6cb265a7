"""C of pipelines that calls MPI: what `xlac build --mesh` writes and refuses; tests/mpi runs it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from pipelined import LAYERS, TIED

from xlac.cli import status
from xlac.driver import specialized
from xlac.ranks import pipeline_built
from xlac.spec.load import load
from xlac.spmd.mesh import Mesh
from xlac.training.ranks import pipeline_built as training_built
from xlac_sdk.host.manifest import read
from xlac_sdk.host.ranks.parts import RankParts
from xlac_sdk.host.registry import find
from xlac_sdk.programs.program import Role, Slot, exchanges
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.source import VerifyError
from xlac_sdk.target import Request


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[RankParts]:
    """The parts of what is built."""
    found: list[RankParts] = []
    made = pipeline_built.stage_parts

    def stage_parts(*given: object) -> RankParts:
        found.append(made(*given))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(training_built, "stage_parts", stage_parts)
    return found


@pytest.mark.parametrize(("text", "mesh"), [(LAYERS, "data=1,stage=2"), (TIED, "data=1,stage=3")])
def test_programs_of_stages(
    text: str, mesh: str, tmp_path: Path, recorded: list[RankParts]
) -> None:
    """They are right by themselves, send what the others receive, and hold the state once."""
    spec = tmp_path / "model.yaml"
    spec.write_text(text, "utf-8")
    command = ["build", str(spec), "--target", "c", "-o", str(tmp_path / "out"), "--mesh", mesh]
    assert status(command) == 0
    (parts,) = recorded
    assert len(parts.firsts) == len(parts.programs) == int(mesh[-1])
    for program in parts.firsts:
        verify_program(program)
    for entry in ("run", "step"):
        check_messages(parts, entry)
    kept: dict[str, Slot] = {}
    for program in parts.firsts:
        own = [slot for slot in program.slots if slot.role is Role.STATE and slot.name]
        assert all(kept.setdefault(slot.name, slot) is slot for slot in own)  # one place for all
        for one, other in zip(sorted(own, key=start), sorted(own, key=start)[1:], strict=False):
            assert one.offset + one.nbytes <= other.offset
    whole = sum(slot.nbytes for slot in kept.values())
    assert max(program.state_bytes for program in parts.firsts) < whole
    made = read(tmp_path / "out")
    assert made.entries is not None
    assert {t.name for t in made.entries.state} == set(kept)
    for function in made.entries.functions:
        assert {one.shape[0] for one in (*function.inputs, *function.outputs)} == {4}


def start(slot: Slot) -> int:
    return slot.offset


def check_messages(parts: RankParts, entry: str) -> None:
    """Each message is sent by one stage and received by another, with as many elements."""
    sent, received = {}, {}
    for stage, program in enumerate(parts.firsts):
        assert program.entries is not None
        steps = program.steps
        if entry != "run":
            steps = next(one.steps for one in program.entries.entries if one.name == entry)
        for step in exchanges(steps):
            other, tag = step.exchange.root, step.exchange.tag
            if step.exchange.kind == "send":
                sent[stage, other, tag] = step.sent
            elif step.exchange.kind == "receive":
                received[other, stage, tag] = step.received
    assert sent and sent == received


def test_numbers_of_exchanges_are_those_of_one_stage(
    tmp_path: Path, recorded: list[RankParts]
) -> None:
    spec = tmp_path / "model.yaml"
    spec.write_text(LAYERS, "utf-8")
    out = ["--target", "c", "-o", str(tmp_path / "out"), "--mesh", "data=2,stage=2"]
    assert status(["build", str(spec), *out]) == 0
    (parts,) = recorded
    numbers = [{s.exchange.number for s in exchanges(p.every_step)} for p in parts.firsts]
    assert not numbers[0] & numbers[1]
    assert parts.stage_of == (0, 1) and parts.part_of == (0, 1, 0, 1)
    text = (tmp_path / "out" / "layers.c").read_text("utf-8")
    kinds = set(re.findall(r"MPI_I(\w+)\(", text))
    assert kinds == {"send", "recv", "allreduce"}


def test_what_is_sent_may_be_read_and_not_written(tmp_path: Path) -> None:
    """The checks of programs know messages."""
    spec = tmp_path / "model.yaml"
    text = LAYERS.replace("f64", "f32").replace("{op: dropout, in: relu(l1), p: 0.1}", "relu(l1)")
    spec.write_text(text[: text.index("train:")], "utf-8")
    model = specialized(load(spec), {"batch": 8})
    mesh = Mesh((("data", 1), ("stage", 4)))
    backend = find("c")
    _, parts = pipeline_built.built_pipeline(model, mesh, backend, backend.target(Request()))
    for program in parts.firsts:
        verify_program(program)
        for at, step in enumerate(program.steps):
            if step in exchanges(program.steps):
                rest = (*program.steps[:at], step, *program.steps[at:])
                with pytest.raises(VerifyError, match=r"started twice|touches|starts after"):
                    verify_program(replace(program, steps=rest))


def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tmp_path / "model.yaml"
    spec.write_text(LAYERS, "utf-8")
    out = ["-o", str(tmp_path / "out"), "--mesh"]
    assert status(["build", str(spec), "--target", "c", *out, "data=1,stage=3"]) != 0
    assert "there are 4 stages for 3 ranks along 'stage' [XL7840]" in capsys.readouterr().err
    assert status(["build", str(spec), "--target", "cpu", *out, "data=1,stage=2"]) != 0
    assert "XL7806" in capsys.readouterr().err
    assert status(["build", str(spec), "--target", "c", *out, "data=1,stage=1"]) == 0
