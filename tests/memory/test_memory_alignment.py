"""Places at the multiples that a target demands: of temporaries, state, and records of checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlac.driver import lower, specialized
from xlac.frontends.loader import load
from xlac.passes.checks.insert import watched, watched_together
from xlac.spec.load import load_training
from xlac.support.failures import USUAL, checks_of
from xlac.training.program import graphs_of, training_program, with_entries
from xlac_sdk.dtypes import Array
from xlac_sdk.host import records
from xlac_sdk.interpreter.programs import Interpreter
from xlac_sdk.programs.entries import parts
from xlac_sdk.programs.program import RECORD, Program, Role
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.target import Target

SPECS = Path(__file__).parents[2] / "specs"
PLAIN = Target("plain", vector_bytes=32)
WIDE = replace(PLAIN, alignment=256)
STREAM = """
xlac: 1
model: stream
dims: {n: {max: 5, opt: 3}}
weights: {init: {seed: 0}}
inputs: {x: "f32[n, 7]"}
state: {total: {type: "f32[7]", next: "total + sum(x, 0)"}, calls: {type: "i32[]", next: calls + 1}}
graph: {h: {op: linear, in: x, units: 9}, s: "softmax(h)", r: "sqrt(x + total)"}
outputs: {y: "matmul(transpose(s), r)", calls: calls}
"""
TRAINED = """
xlac: 1
model: small
dims: {batch: {max: 8, opt: 2}}
inputs: {x: "f32[batch, 3]", y: "f32[batch, 2]"}
graph: {z: {op: linear, in: x, units: 2}}
outputs: [z]
train:
  batch: batch
  init: {seed: 0}
  loss: mean((z - y) * (z - y))
  optimizer: {sgd: {lr: 0.1, momentum: 0.9}}
  clip: {norm: 1.0}
"""


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    (tmp_path / "stream.yaml").write_text(STREAM)
    return tmp_path / "stream.yaml"


def places(program: Program) -> list[int]:
    """Where temporaries and state begin; the program is verified."""
    verify_program(program)
    return [s.offset for s in program.slots if s.role in (Role.TEMPORARY, Role.STATE) and s.nbytes]


def results(program: Program, inputs: Mapping[str, Array]) -> list[dict[str, Any]]:
    """The results of two calls, as the state changes."""
    ours, found = Interpreter(program), []
    sizes = {"n": 4}
    for _ in range(2):
        made = {s.name: np.empty(s.extents(sizes), s.dtype.numpy) for s in program.outputs}
        ours.run(inputs, made)
        found.append(made)
    return found


@pytest.mark.parametrize("variants", [(), ({"n": 4},)], ids=["open", "variants"])
def test_temporaries_and_state(stream: Path, variants: Any) -> None:
    plain, wide = (lower(load(stream), t, variants=variants).program for t in (PLAIN, WIDE))
    assert any(place % 256 for place in places(plain))
    assert not any(place % 256 for place in places(wide)) and not wide.arena_bytes % 256
    inputs = {"x": np.random.default_rng(0).random((4, 7)).astype(np.float32)}
    for one, other in zip(results(plain, inputs), results(wide, inputs), strict=True):
        for name, array in one.items():
            np.testing.assert_array_equal(array, other[name])


def test_records_of_checks(stream: Path) -> None:
    program = lower(watched(load(stream), USUAL), WIDE).program
    texts = [check.text for check in checks_of(program.facts)]
    (inside,) = records.inside([program], texts)
    assert not any(place % 256 for place in places(inside))
    assert not inside.facts[RECORD]["offset"] % 256


def test_entries(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(TRAINED)
    graphs = graphs_of(*load_training(tmp_path / "small.yaml"))
    entries = watched_together(graphs.entries, USUAL)
    graphs = with_entries(graphs, {name: specialized(one) for name, one in entries.items()})
    made = training_program("small", graphs, lambda model, _: lower(model, WIDE)).program
    assert not any(place % 256 for part in (made, *parts(made)) for place in places(part))
    assert made.facts[RECORD]["offset"] == 256


@pytest.mark.parametrize("alignment", [0, 32, 96])
def test_what_is_no_alignment_is_refused(alignment: int) -> None:
    with pytest.raises(ValueError, match="power of two of at least 64"):
        Target("odd", alignment=alignment)
