"""How often a training step launches a kernel on a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from xlac.driver import lower
from xlac.spec.load import load_training
from xlac.training.program import graphs_of
from xlac_sdk.host.registry import find
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.programs.program import Launch, walk
from xlac_sdk.target import Request

ROOT = Path(__file__).parents[2]
MADE = ("dot", "reduce", "scatter", "attention")


def kernels(spec: str) -> list[Kernel]:
    """What a step launches, in order."""
    model, training = load_training(ROOT / spec)
    facts = find("cuda").target(Request(arch="sm_90a"))
    program = lower(graphs_of(model, training).step, facts).program
    return [step.kernel for step in walk(program.steps) if isinstance(step, Launch)]


@pytest.mark.parametrize(
    ("spec", "most", "alone"),
    [("bench/training/models/mlp.yaml", 22, 0), ("specs/digits_train.yaml", 23, 4)],
)
def test_updates_take_few_launches(spec: str, most: int, alone: int) -> None:
    """The kernels that make gradients update as well; few only update."""
    found = kernels(spec)
    assert len(found) <= most
    assert sum(not kernel.name.startswith(MADE) for kernel in found) <= alone
