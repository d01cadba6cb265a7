"""The order of groups without a limit: less memory, the same kernels, the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recompute_problems import problems
from training_specs import RESIDUAL

from xlac import driver
from xlac.recompute import fit
from xlac.recompute.order import Precedence, least_memory
from xlac.recompute.problem import Problem, Task, usage
from xlac.spec.load import load_training
from xlac.training.program import graphs_of
from xlac.training.trainer import Trainer
from xlac_sdk.host.registry import find
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.target import Request


def as_in_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves groups in the order of their graph from now on."""
    monkeypatch.setenv("XLAC_CACHE", "off")
    monkeypatch.setattr(fit, "in_less_memory", lambda groups, found, *_: (groups, found))


@pytest.mark.long
def test_a_step_takes_less_memory_and_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(RESIDUAL)
    rng = np.random.default_rng(0)
    given = {"x": rng.normal(size=(2, 3, 8, 8)), "y": rng.integers(0, 3, 2)}

    def stepped() -> tuple[Program, Any]:
        graphs = graphs_of(*load_training(file))
        lowered = driver.lower(driver.specialized(graphs.step), find("cpu").target(Request()))
        trainer = Trainer(file, target="reference")
        return lowered.program, ([trainer.step(**given) for _ in range(2)], trainer.state())

    program, (losses, state) = stepped()
    as_in_the_graph(monkeypatch)
    before, (wanted, old) = stepped()
    verify_program(program)
    assert program.arena_bytes < before.arena_bytes * 0.95
    assert len(program.kernels) == len(before.kernels)
    assert losses == wanted
    for tensor, kept in state.items():
        np.testing.assert_array_equal(kept, old[tensor], err_msg=tensor)


@pytest.mark.parametrize("name", problems())
def test_orders_hold_what_has_to_come_first(name: str) -> None:
    problem = problems()[name]
    order = least_memory(problem)
    assert sorted(order) == list(range(problem.required))
    place = {number: at for at, number in enumerate(order)}
    graph = Precedence(problem)
    assert all(place[a] < place[b] for a, later in enumerate(graph.after) for b in later)
    assert max(usage(problem, order)) <= max(usage(problem, range(problem.required)))


def test_foreign_code_runs_in_its_order() -> None:
    """Two calls of it that take much, before and after what frees it: moving one would pay."""
    tasks = (
        Task(1.0, (), (0,)),
        Task(1.0, (0,), (1,), repeatable=False),
        Task(1.0, (), (2,)),
        Task(1.0, (2,), (3,), repeatable=False),
        Task(1.0, (1, 3), (4,)),
    )
    nbytes = (64, 6400, 12800, 64, 64)
    problem = Problem(tasks, len(tasks), nbytes)
    order = least_memory(problem)
    assert order.index(1) < order.index(3)
    free = tuple(Task(t.cost, t.reads, t.writes) for t in tasks)
    assert least_memory(Problem(free, len(free), nbytes)).index(3) < order.index(3)


def test_where_little_is_gained_the_order_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer of BERT is as it was."""
    file = Path(__file__).parents[2] / "specs" / "bert_layer.yaml"
    model, machine = driver.specialized(driver.load(file)), find("c").target(Request())
    made = driver.lower(model, machine)
    as_in_the_graph(monkeypatch)
    before = driver.lower(model, machine)
    assert [g.anchor.name for g in made.partition.groups] == [
        g.anchor.name for g in before.partition.groups
    ]
