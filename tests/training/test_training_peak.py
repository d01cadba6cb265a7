"""What `xlac check` says of a step's memory is what the program that runs takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from training_specs import LSTM, RESIDUAL

from xlac.memory.arena import ALIGN
from xlac.memory.limit import MemoryLimit, needed
from xlac.runtime.compiled import Compiled
from xlac.spec.load import load_training
from xlac.training.summary import summarize_training
from xlac.training.trainer import Trainer
from xlac_sdk.programs.program import Role

MODELS = {"residual": (RESIDUAL, (8, 3, 8, 8), None), "lstm": (LSTM, (8, 6, 4), (8, 6, 3))}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("target", ["cpu", "c", "reference"])
@pytest.mark.parametrize("name", MODELS)
def test_the_peak_of_a_step_is_that_of_its_program(
    name: str, target: str, threads: int, tmp_path: Path
) -> None:
    text, x, y = MODELS[name]
    file = tmp_path / "m.yaml"
    file.write_text(text)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 8) if y is None else rng.normal(size=y)
    model, training = load_training(file, dims={"batch": 8})
    told = summarize_training(model, training, target)
    trainer = Trainer(file, target=target, threads=threads)
    given = {"x": rng.normal(size=x), "y": labels}
    trainer.step(**given)
    (made,) = (program for key, program in trainer._programs._made.items() if key[0] == "step")
    assert isinstance(made, Compiled)
    program, told_bytes = made.program, told["bytes"]
    assert program.arena_bytes == told_bytes["step"]
    end = max(s.offset + s.nbytes for s in program.slots if s.role is Role.TEMPORARY)
    assert program.arena_bytes == -(-end // ALIGN) * ALIGN
    inputs = sum(slot.nbytes for slot in program.inputs)
    assert inputs == told_bytes["inputs"]
    state = sum(s.nbytes for s in program.slots if s.role is Role.STATE and s.name)
    assert state == told_bytes["weights"] + told_bytes["optimizer"]

    limit = needed(program, True)
    limited = summarize_training(model, training, target, MemoryLimit(limit))
    assert limited["memory"]["bytes"] == limit
