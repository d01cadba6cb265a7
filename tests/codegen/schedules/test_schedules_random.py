"""Kernels of schedules drawn at random compute what the graph means, and every field is heeded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partialmethod
from random import Random
from typing import Any

import numpy as np
import pytest
from contraction_harness import TOLERANCE, compute, meaning, values
from cpu_schedule_cases import CPU_CASES
from gpu_schedule_cases import GPU_CASES
from kind_schedule_cases import KIND_CASES
from operand_schedule_cases import OPERAND_CASES
from schedule_draws import Field, drawn, every_field, lowered, neighbours, text

from xlac.codegen.core.lowered_group import LoweredGroup
from xlac.codegen.cpu import elementwise
from xlac.codegen.cpu.gemm.inner_product import InnerProduct
from xlac.codegen.schedules.schedule import Schedule, from_data, to_data
from xlac.codegen.schedules.templates import TEMPLATES
from xlac.fusion.group import Group
from xlac_sdk.interpreter.kernels import KernelFault
from xlac_sdk.target import Target

CASES = CPU_CASES | KIND_CASES | GPU_CASES | OPERAND_CASES


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.runs])
@pytest.mark.sampled(640)
def test_any_schedule_computes_the_same(name: str, seed: int) -> None:
    case, rng = CASES[name], Random(f"{name} {seed}")
    made = case.made()
    chosen = beginning(name, made)
    given = values(made, seed)
    wanted, before = meaning(made, given), compute(made, case.target, given)
    tried = 0
    for _ in range(600):
        part = rng.choice(sorted(chosen.schedules))
        asked = {part: drawn(chosen.schedules[part], rng, rng.randint(1, 3))}
        if lowered(made, case.target, asked) is None:
            continue
        found = compute(made, case.target, given, asked)
        for got, want, same in zip(found, wanted, before, strict=True):
            if case.exact and part != "algorithm":  # another one sums in another order
                np.testing.assert_array_equal(got, same, err_msg=str(asked))
            bound = TOLERANCE.get(want.dtype.name, 0.0)  # integers are the same
            scale = float(np.abs(want).max(initial=1))
            np.testing.assert_allclose(
                got, want, rtol=bound, atol=bound * scale, err_msg=str(asked)
            )
        tried += 1
        if tried == case.schedules:
            return
    assert tried, "no schedule that was drawn fits"


def beginning(name: str, made: Group) -> LoweredGroup:
    """A case lowered as is chosen, or by what it says in its place."""
    case = CASES[name]
    asked = {"main": from_data(case.instead, TEMPLATES)} if case.instead else None
    found = lowered(made, case.target, asked)
    assert found is not None and found.schedules
    return found


FORCED: dict[str, set[Field]] = {
    "bytes_gemm": {("swap",), ("right",)},
    "skinny_gemm": {("along_depth",)},
}
"""Fields that have one value for a group: how bytes are packed; the axis along which the large
operand is contiguous (with one lane both mean the same).
"""


def unheeded(template: str) -> set[Field]:
    """The fields of a template that change no kernel: each is changed alone beside what was chosen,
    beside what cases say and beside some schedules that are drawn.
    """
    left = set(every_field(TEMPLATES[template]))
    for name, case in CASES.items():
        made = case.made()
        if template not in case.templates.split():
            continue
        for part, schedule in beginning(name, made).schedules.items():
            if schedule.template == template:
                for start in starts(name, schedule):
                    heeded(made, case.target, part, start, left)
    return left


def starts(name: str, schedule: Schedule) -> Iterator[Schedule]:
    yield schedule
    data = to_data(schedule)
    for more in CASES[name].starts:
        if set(more) <= set(data):  # else they are of another part
            yield from_data({**data, **more}, TEMPLATES)
    rng = Random(name)
    yield from (drawn(schedule, rng, changes) for changes in (1, 1, 2, 2, 3))


def heeded(made: Group, target: Target, part: str, start: Schedule, left: set[Field]) -> None:
    """Takes those fields away of which one alone changes the kernels beside a schedule."""
    beside = lowered(made, target, {part: start}) if left else None
    if beside is None:
        return
    for field, other in neighbours(start, frozenset(left)):
        if field in left:
            again = lowered(made, target, {part: other})
            if again is not None and text(again) != text(beside):
                left.discard(field)


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.sampled(24)
def test_every_field_changes_some_kernel(template: str) -> None:
    assert unheeded(template) == FORCED.get(template, set())


def test_a_field_that_is_not_heeded_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InnerProduct, "_stretch", partialmethod(_one_vector, InnerProduct._stretch))
    assert unheeded("inner_product") == {("unroll",)}


def _one_vector(self: InnerProduct, stretch: Callable[..., Any], *given: Any) -> Any:
    """The emitter with a fault: it takes one vector at a time, whatever its schedule says."""
    return stretch(self, *given[:-1], 1)


def test_a_field_that_is_misused_gives_wrong_results(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(builder: object, start: object, extent: int, size: int) -> int:
        return size // 2

    monkeypatch.setattr(elementwise, "piece", short)
    with pytest.raises((AssertionError, KernelFault)):
        for seed in range(20):
            test_any_schedule_computes_the_same("chain", seed)
