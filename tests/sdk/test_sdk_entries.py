"""Programs with entries: verified, written and read, interpreted, or refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from small_training import TRAINED

import xlac
from xlac.driver import lower, specialized
from xlac.spec.load import load_training
from xlac.training.program import graphs_of, training_program
from xlac_sdk.host.registry import find
from xlac_sdk.interpreter.programs import Interpreter
from xlac_sdk.programs import portable
from xlac_sdk.programs.entries import Entries, Entry, parts, tensors
from xlac_sdk.programs.program import Program, Role
from xlac_sdk.programs.text import show_program
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.source import VerifyError
from xlac_sdk.target import Request, Target


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Program, Target]:
    spec = tmp_path_factory.mktemp("entries") / "small.yaml"
    spec.write_text(TRAINED)
    graphs = graphs_of(*load_training(spec))
    graphs = replace(
        graphs,
        step=specialized(graphs.step),
        evaluate=specialized(graphs.evaluate),
        run=specialized(graphs.run),
    )
    target = find("c").target(Request())
    program = training_program("small", graphs, lambda model, _: lower(model, target)).program
    return spec, program, target


def test_entries_are_interpreted_over_one_state(made: tuple[Path, Program, Target]) -> None:
    spec, program, _ = made
    verify_program(program)
    run, step, _, _ = (Interpreter(one) for one in (program, *parts(program)))
    trainer = xlac.trainer(spec, target="c")
    trainer.set_length(5)
    block = run.read_state()
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((2, n)).astype(np.float32) for n in (3, 2))
    slots = {slot.name: slot for slot in tensors(program)}
    length = slots["optimizer.steps"]
    block[length.offset :][:4] = np.full(1, 5, np.float32).view(np.uint8)
    loss = np.zeros((), np.float32)
    for _ in range(3):
        step.write_state(block)
        step.run({"x": x, "y": y}, {"loss": loss})
        block = step.read_state()
        np.testing.assert_allclose(loss, trainer.step(x=x, y=y)["loss"], rtol=1e-5)
    for name, array in trainer.state().items():
        found = block[slots[name].offset :][: array.nbytes].view(array.dtype)
        np.testing.assert_allclose(found, array.reshape(-1), rtol=1e-5, atol=1e-7)


def test_entries_are_kept_as_files(made: tuple[Path, Program, Target], tmp_path: Path) -> None:
    _, program, target = made
    portable.write(tmp_path, program, target)
    again, _ = portable.read(tmp_path)
    assert show_program(again) == show_program(program) and "\nstep:\n" in show_program(program)
    assert len(again.kernels) == len(program.kernels)


def changed(program: Program, change: Callable[[Program, Entry], Entry]) -> Program:
    assert program.entries is not None
    first, *others = program.entries.entries
    entries = replace(program.entries, entries=(change(program, first), *others))
    return replace(program, entries=entries)


def state_of(program: Program, entry: Entry, name: str) -> Entry:
    return replace(entry, needs=next(s for s in program.slots if s.name == name))


FAULTS: dict[str, Callable[[Program, Entry], Entry]] = {
    "cannot be called": lambda _, entry: replace(entry, name="a b"),
    "an entry cannot be called 'evaluate'": lambda _, entry: replace(entry, name="evaluate"),
    "not among the program's slots": lambda _, entry: replace(
        entry, outputs=(replace(entry.outputs[0]),)
    ),
    "does not say whether": lambda _, entry: replace(entry, steps=()),
    "not a scalar of the state": partial(state_of, name="z.weight"),
}


@pytest.mark.parametrize("told", FAULTS)
def test_entries_that_make_no_sense_are_refused(
    told: str, made: tuple[Path, Program, Target]
) -> None:
    _, program, _ = made
    with pytest.raises(VerifyError, match=told):
        verify_program(changed(program, FAULTS[told]))


def test_the_first_state_is_checked_too(made: tuple[Path, Program, Target]) -> None:
    _, program, _ = made
    assert program.entries is not None and program.entries.first
    step = program.entries.first[0]
    longer = replace(step, count=1 << 20)
    entries = Entries(program.entries.entries, (longer,), program.entries.settings)
    with pytest.raises(VerifyError):
        verify_program(replace(program, entries=entries))
    setting = program.entries.settings[0]
    weight = next(s for s in program.slots if s.role is Role.STATE and s.name == "z.weight")
    wrong = replace(program.entries, settings=(replace(setting, slots=((weight, 1.0),)),))
    with pytest.raises(VerifyError, match="cannot be set"):
        verify_program(replace(program, entries=wrong))
