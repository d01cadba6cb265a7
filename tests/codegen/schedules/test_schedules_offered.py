"""Schedules of other templates, from which a search may start: they compute the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from contraction_harness import TOLERANCE, compute, meaning, values
from cpu_schedule_cases import CPU_CASES
from gpu_schedule_cases import GPU_CASES
from kind_schedule_cases import KIND_CASES
from operand_schedule_cases import OPERAND_CASES
from schedule_draws import lowered

from xlac.codegen.schedules.schedule import Schedule
from xlac.debug.tune.group_programs import other_templates

CASES = CPU_CASES | KIND_CASES | GPU_CASES | OPERAND_CASES
OFFERED = {
    "sort_ranked": {"selection", "merge_sort"},
    "scatter_compensated": {"sorted_scatter"},
    "scatter_sorted": {"compensated_scatter"},
}
"""Templates that are offered for the main kernel of some cases, at least."""


def offered(name: str) -> Mapping[str, Sequence[Schedule]]:
    return other_templates(CASES[name].made(), CASES[name].target)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.runs])
@pytest.mark.sampled(8)
def test_what_is_offered_computes_the_same(name: str) -> None:
    case, made = CASES[name], CASES[name].made()
    given = values(made, 3)
    wanted = meaning(made, given)
    settled = lowered(made, case.target, None)
    assert settled is not None
    for part, schedules in offered(name).items():
        assert len({type(one) for one in schedules}) == len(schedules), "one of each template"
        for schedule in schedules:
            assert type(schedule) is not type(settled.schedules.get(part))
            found = compute(made, case.target, given, {part: schedule})
            for got, want in zip(found, wanted, strict=True):
                bound = TOLERANCE.get(want.dtype.name, 0.0)  # integers are the same
                np.testing.assert_allclose(
                    got.astype(np.float64), want.astype(np.float64), bound, bound, str(schedule)
                )


@pytest.mark.parametrize("name", OFFERED)
def test_templates_that_are_offered(name: str) -> None:
    assert OFFERED[name] <= {one.template for one in offered(name)["main"]}


def test_contractions_and_reductions_are_offered_every_template_that_they_can_have() -> None:
    found = {
        one.template
        for name, case in CPU_CASES.items()
        if case.runs
        for one in offered(name).get("main", ())
    }
    assert {"gemm", "inner_product", "autovectorized", "split_reduction"} <= found
