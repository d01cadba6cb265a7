"""The least cost of staying within a limit, by OR-tools' CP-SAT: the formulation of MOCCASIN
(Bartan et al., 2023), in which each value is in memory for a few intervals, one for each time it is
computed.

    python tests/recompute/exact_solver.py > tests/recompute/optima.json

solves all problems anew, which takes some minutes; OR-tools are `pip install ortools`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

from recompute_problems import HALF, limited, problems

from xlac.recompute.problem import Problem
from xlac.recompute.search import planned


@dataclass(frozen=True)
class Optimum:
    """The cost of the best plan that was found, and what no plan goes below."""

    cost: float
    bound: float


def solved(problem: Problem, limit: int, runs: int = 4, seconds: float = 120.0) -> Optimum | None:
    """The optimum over plans in which no task runs more than `runs` times; None where nothing fits.
    Tasks write one buffer each. Raises TimeoutError where it is not known in time whether one does.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    count = problem.required
    maker = {task.writes[0]: number for number, task in enumerate(problem.tasks)}
    stages: list[list[Any]] = [[] for _ in range(count)]
    there, starts, ends = ([[] for _ in range(count)] for _ in range(3))
    intervals, demands = [], []
    for i in range(count):
        for c in range(runs if i < count - 1 else 1):
            present = model.new_constant(1) if c == 0 else model.new_bool_var(f"p{i}_{c}")
            later = model.new_int_var(i + 1, count - 1, f"s{i}_{c}") if c else None
            stage = model.new_constant(i) if later is None else later
            start, end = stage * count + i, model.new_int_var(0, count * count, f"e{i}_{c}")
            size = model.new_int_var(1, count * count + 1, f"d{i}_{c}")
            given = (start, size, end + 1, present, f"i{i}_{c}")
            intervals.append(model.new_optional_interval_var(*given))
            demands.append(problem.nbytes[problem.tasks[i].writes[0]] // 64)
            if c:
                model.add_implication(present, there[i][-1])
                model.add(stage > stages[i][-1]).only_enforce_if(present)
            stages[i].append(stage), there[i].append(present)
            starts[i].append(start), ends[i].append(end)
    for i in range(count):
        for c, present in enumerate(there[i]):
            for buffer in problem.tasks[i].reads:
                j = maker[buffer]
                some = [model.new_bool_var(f"y{i}_{c}_{j}_{d}") for d in range(len(there[j]))]
                model.add(sum(some) == present)
                for d, reads in enumerate(some):
                    model.add_implication(reads, there[j][d])
                    model.add(starts[j][d] < starts[i][c]).only_enforce_if(reads)
                    model.add(ends[j][d] >= starts[i][c]).only_enforce_if(reads)
    model.add_cumulative(intervals, demands, limit // 64)
    total = sum(int(problem.tasks[i].cost) * p for i in range(count) for p in there[i])
    model.minimize(total)
    known = planned(problem, limit)
    if known.fits:
        model.add(total <= int(known.cost))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 2
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None
    if status == cp_model.UNKNOWN:
        if not known.fits:
            raise TimeoutError("no plan was found, nor that there is none")
        return Optimum(known.cost, solver.best_objective_bound)
    return Optimum(solver.objective_value, solver.best_objective_bound)


def main() -> None:
    """Prints the optimum of every problem."""
    found: dict[str, Any] = {}
    for name, problem in problems().items():
        limit = limited(problem, HALF)
        best, mine = solved(problem, limit), planned(problem, limit)
        print(name, best, mine.cost if mine.fits else None, file=sys.stderr)
        found[name] = None if best is None else [best.cost, best.bound]
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
