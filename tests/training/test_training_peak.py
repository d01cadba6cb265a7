"""What `xlac check` says of a step's memory is what the program that runs takes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from training_specs import LSTM, RESIDUAL

from xlac.cli import status
from xlac.memory.arena import ALIGN
from xlac.memory.limit import MemoryLimit, needed
from xlac.runtime.compiled import Compiled
from xlac.spec.load import load_training
from xlac.training.reports.summary import summarize_training
from xlac.training.trainer import Trainer
from xlac_sdk.host.registry import find
from xlac_sdk.programs.program import Role
from xlac_sdk.target import Request

MODELS = {"residual": (RESIDUAL, (8, 3, 8, 8), None), "lstm": (LSTM, (8, 6, 4), (8, 6, 3))}


@pytest.mark.sampled(24)
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
    machine = find(target).target(Request(threads=threads))
    told = summarize_training(model, training, machine)
    trainer = Trainer(file, target=target, threads=threads)
    given = {"x": rng.normal(size=x), "y": labels}
    trainer.step(**given)
    (made,) = (program for key, program in trainer._programs._compiled.items() if key[0] == "step")
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
    limited = summarize_training(model, training, machine, MemoryLimit(limit))
    # less where loops became kernels, whose values the plan had counted
    assert limited["memory"]["bytes"] <= limit


@pytest.mark.long
def test_check_tells_the_step_of_the_target_that_is_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The generated header has as many bytes."""
    file = tmp_path / "m.yaml"
    file.write_text(LSTM)
    found = {}
    for target, options in (("c", ()), ("cpu", ("--triple", "thumbv7em-none-eabi"))):
        where = ("--target", target, *options, "--dim", "batch=8")
        assert status(["check", str(file), *where, "--json"]) == 0
        found[target] = json.loads(capsys.readouterr().out)["training"]
        assert found[target]["target"] == target
        assert status(["check", str(file), *where, "-q"]) == 0
        assert (f" on {target}: weights" in capsys.readouterr().out) == (target != "cpu")
    out = tmp_path / "out"
    where = ("--target", "c", "--dim", "batch=8", "--emit", "h")
    assert status(["build", str(file), *where, "-o", str(out)]) == 0
    header = next(out.glob("*.h")).read_text()
    arena = int(re.findall(r"ARENA_BYTES (\d+)", header)[0])
    told = found["c"]["bytes"]
    assert max(told["step"], told["evaluate"]) <= arena <= max(told["step"], told["evaluate"]) + 64
    assert status(["check", str(file), "--target", "nowhere"]) != 0
    assert "nowhere" in capsys.readouterr().err


HELD = """
import sys
from pathlib import Path
import numpy as np
from xlac.training.trainer import Trainer

def held():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

given = {"x": np.ones((4, 512), np.float32), "y": np.zeros((4, 8), np.float32)}
Trainer(sys.argv[1], params={"wide": 16}).step(**given)  # what any step takes
trainer = Trainer(sys.argv[1], params={"wide": 1024})
begun = held() - sum(array.nbytes for array in trainer.weights().values())
for _ in range(2):
    trainer.restore(trainer.state())
    trainer.step(**given)
state = sum(array.nbytes for array in trainer.state().values())
print((held() - begun) / state)
"""
LAYERS = """
xlac: 1
model: layers
weights: {init: {seed: 0}}
params: {wide: null}
inputs: {x: "f32[4, 512]", y: "f32[4, 8]"}
graph:
  a: {op: linear, in: x, units: $wide}
  b: {op: linear, in: relu(a), units: $wide}
  c: {op: linear, in: relu(b), units: $wide}
  d: {op: linear, in: relu(c), units: $wide}
  out: {op: linear, in: relu(d), units: 8}
outputs: [out]
train:
  loss: mean((out - y) ** 2.0)
  optimizer: {adam: {lr: 0.001}}
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell")
@pytest.mark.long
def test_the_state_is_in_memory_once(tmp_path: Path) -> None:
    """Of what training keeps there is one copy beside the gradients when steps are done."""
    file = tmp_path / "layers.yaml"
    file.write_text(LAYERS)
    command = [sys.executable, "-c", HELD, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 1.2, done.stdout
