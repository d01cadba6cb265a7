"""Random graphs in random stages, all ranks interpreted, equal the graphs that were cut."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest
from graphs import make
from pipelined import TARGET, TIED, plans_of

from xlac.ir.dims import static
from xlac.ir.graph import Graph
from xlac.ir.interpret import interpret
from xlac.ir.op import Array
from xlac.model import Model
from xlac.ops.tensor.leaf import param
from xlac.passes.cse import merge
from xlac.passes.rewrite.trace import Trace
from xlac.pipelining.check import check_order
from xlac.pipelining.interpret import interpret_pipeline
from xlac.pipelining.phases import phases_of
from xlac.pipelining.plan import PhasePlan
from xlac.pipelining.schedule import ordered
from xlac.spmd.model import expanded
from xlac_sdk.source import Origin

COUNT = int(os.environ.get("XLAC_FUZZ_GRAPHS", "60"))
BATCH = 20  # graphs of one test


def named(graph: Graph) -> Graph:
    """The graph with a name for each node."""
    count = iter(range(1 << 30))
    return graph.rewrite(
        lambda n: type(n)(n.op, n.inputs, n.types, Origin(f"n{next(count)}")) if n.inputs else n
    )


def random_stages(random: Random, stages: int) -> Callable[[str], int | None]:
    """Any stage of each node, in no order; of some nothing is said."""
    known: dict[str, int | None] = {}

    def stage(path: str) -> int | None:
        return known.setdefault(path, random.choice([None, *range(stages)]))

    return stage


@pytest.mark.sampled(1)
@pytest.mark.parametrize("batch", range(-(-COUNT // BATCH)))
def test_random_graphs_in_random_stages(batch: int) -> None:
    for seed in range(batch * BATCH, min((batch + 1) * BATCH, COUNT)):
        case, random = make(Random(seed)), Random(seed)
        graph = named(merge(expanded(case.graph, TARGET), Trace()))
        ranks = random.choice([1, 2, 3])
        said = random_stages(random, ranks * random.choice([1, 2]))
        plan = phases_of(Model(graph, case.weights), said, ranks, {})
        plans = [plan] * random.choice([1, 3])
        order = ordered(plans, random.choice(["1f1b", "gpipe"])).ranks
        check_order(plans, order)
        wanted = interpret(graph, case.inputs, case.weights)
        states: list[dict[str, Array]] = [{} for _ in range(ranks)]
        every = interpret_pipeline(plans, order, [case.inputs] * len(plans), states)
        for got in every:
            assert got.keys() == wanted.keys()
            for name, want in wanted.items():
                np.testing.assert_array_equal(got[name], want, err_msg=f"{seed}: {name}")


def alone(plan: PhasePlan, inputs: dict[str, Array], state: dict[str, Array]) -> dict[str, Array]:
    """The outputs of a micro-batch in one process; `state` changes."""
    model = plan.whole
    weights = {name: np.asarray(array) for name, array in model.weights.items()}
    found = interpret(model.graph, inputs | state, weights)
    state.update({name: found[output] for name, output in model.state.items()})
    return {name: found[name] for name in plan.outputs}


def test_a_step_of_training(tmp_path: Path) -> None:
    """A table that two stages read, statistics, averages: states are as in one process, to the bit,
    on every rank that holds them.
    """
    plans = plans_of(TIED, tmp_path, 3, "accumulate", "step")
    every = [plans["accumulate"]] * 3 + [plans["step"]]
    random = np.random.default_rng(0)
    state = {
        param(n).name: np.abs(random.standard_normal(static(n.shape))).astype(n.type.dtype.numpy)
        for n in plans["step"].whole.graph.inputs
        if param(n).kind == "state"
    }
    inputs = [
        {
            "x": random.integers(0, 20, (8, 6)).astype(np.int32),
            "y": random.integers(0, 20, 8).astype(np.int32),
            "accumulate.number": np.asarray(at, np.int64),
        }
        for at in range(4)
    ]
    order = ordered(every).ranks
    check_order(every, order)
    ranks = [dict(state) for _ in range(3)]
    got = interpret_pipeline(every, order, inputs, ranks)
    whole = dict(state)
    wanted = [alone(plan, given, whole) for plan, given in zip(every, inputs, strict=True)]
    for one, other in zip(wanted, got, strict=True):
        for name, want in one.items():
            np.testing.assert_array_equal(other[name], want, err_msg=name)
    for rank, own in enumerate(ranks):
        held = {name for plan in every for p in plan.phases if p.rank == rank for name in p.takes}
        assert {"table", "optimizer.step"} <= held or rank == 1
        for name in held:
            np.testing.assert_array_equal(own[name], whole[name], err_msg=f"{name} on {rank}")
