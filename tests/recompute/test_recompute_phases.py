"""What a group needs between its kernels, and orders in which operands are freed there."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from training_specs import RESIDUAL

from xlac.codegen.core.lowered_group import KernelLaunch, LoweredGroup, Scratch, Value
from xlac.driver import lower, specialized
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.memory.limit import MemoryLimit, needed
from xlac.memory.unplaced import UnplacedProgram
from xlac.ops import build
from xlac.ops.tensor.leaf import Param
from xlac.recompute import fit, reorder
from xlac.recompute.phases import Phases, phases
from xlac.recompute.problem import Problem, Task, usage
from xlac.recompute.search import RecomputePlan
from xlac.spec.load import load_training
from xlac.training.program import graphs_of
from xlac.training.trainer import Trainer
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.target import Request

TIED = """\
xlac: 1
model: tied
weights: {init: {seed: 1}}
inputs: {ids: "i32[256]", y: "i32[256]"}
graph:
  token: {op: weight, type: "f32[512, 512]"}
  e: {op: embedding, in: ids, weight: token, count: 512, dim: 512, dtype: f32}
  out: tanh(e) @ transpose(token)
outputs: [out]
train:
  loss: mean(cross_entropy(out, y))
  optimizer: {sgd: {lr: 0.1}}
"""


def launched(*kernels: tuple[Value, ...]) -> LoweredGroup:
    """A group of kernels with such arguments."""
    empty = Kernel("k", (), ())
    return LoweredGroup(tuple(KernelLaunch(empty, arguments) for arguments in kernels))


def test_an_operand_that_is_copied_is_freed_before_the_result_is_written() -> None:
    x = Node.of(Param("x", Type(DType.F32, (64,))))
    result, copy = build.mul(x, 2.0), Scratch(DType.F32, 64)
    reads, writes, sizes = {x: 0}, {result: 1}, [256, 1024]
    assert phases(launched((x, copy), (copy, result)), reads, writes, sizes) == Phases(0, 0, 256)
    assert phases(launched((x, copy), (x, result)), reads, writes, sizes) == Phases(256)
    assert phases(launched((x, result)), reads, writes, sizes) == Phases()


def test_what_is_freed_inside_counts_where_nothing_reads_it_later() -> None:
    tasks = (
        Task(1.0, (), (0,)),
        Task(1.0, (0,), (1,), scratch=64, freed=(0, 128)),
        Task(1.0, (0,), (2,)),
        Task(1.0, (1, 2), (3,)),
    )
    problem = Problem(tasks, len(tasks), (128, 128, 64, 64))
    assert usage(problem, (0, 1, 2, 3)) == [128, 320, 320, 256]
    assert usage(problem, (0, 2, 1, 3)) == [128, 192, 256, 256]
    assert problem.least(1) == 192


def test_readers_of_what_is_copied_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradient of a table copies that of the scores, which another product reads as well."""
    monkeypatch.setenv("XLAC_CACHE", "off")
    file = tmp_path / "tied.yaml"
    file.write_text(TIED)
    rng = np.random.default_rng(0)
    given = {name: rng.integers(0, 512, 256, dtype=np.int32) for name in ("ids", "y")}

    def stepped() -> tuple[Program, dict[str, float], object]:
        graph = graphs_of(*load_training(file)).step
        # 512 columns are no equal panels for three threads: products copy whole operands
        target = find("cpu").target(Request(cpu="znver3", threads=3))
        made = lower(specialized(graph), target).program
        trainer = Trainer(file, target="cpu")
        return made, trainer.step(**given), trainer.weights()

    program, loss, weights = stepped()
    verify_program(program)
    monkeypatch.setattr(reorder, "readers_first", lambda start, *_: start)
    before, wanted, old = stepped()
    assert program.arena_bytes < before.arena_bytes * 0.95
    assert loss == wanted
    np.testing.assert_equal(weights, old)


class EnoughError(Exception):
    """Ends a search when what a test asks for has been seen."""


def test_where_gaps_exceed_the_limit_plans_take_less_in_doubled_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An arena that stays as large as it was, whatever values it holds."""
    monkeypatch.setenv("XLAC_CACHE", "off")
    file = tmp_path / "residual.yaml"
    file.write_text(RESIDUAL)
    graph = specialized(graphs_of(*load_training(file, dims={"batch": 8})).step)
    machine = find("cpu").target(Request(cpu="znver3"))
    free = lower(graph, machine).program
    placed, planned, targets = UnplacedProgram.placed, fit.planned, list[int]()

    def with_gaps(program: UnplacedProgram, within: int | None = None) -> Program:
        return replace(placed(program, within), arena_bytes=free.arena_bytes)

    def noted(problem: Problem, limit: int) -> RecomputePlan:
        targets.append(limit)
        if len(targets) == 3:
            raise EnoughError
        return planned(problem, limit)

    monkeypatch.setattr(UnplacedProgram, "placed", with_gaps)
    monkeypatch.setattr(fit, "planned", noted)
    with pytest.raises(EnoughError):
        lower(graph, machine, memory=MemoryLimit(needed(free, True) - free.arena_bytes // 64))
    first, second = (a - b for a, b in pairwise(targets))
    assert second >= 2 * first > 0, targets
