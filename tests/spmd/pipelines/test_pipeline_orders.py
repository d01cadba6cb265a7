"""Orders of micro-batches in a pipeline: as few under way as can be, and no rank waits for ever."""

from __future__ import annotations

from pathlib import Path

import pytest
from pipelined import LAYERS, even_times, plans_of

from xlac.pipelining.check import PipelineOrderError, check_order
from xlac.pipelining.plan import PhasePlan
from xlac.pipelining.schedule import PipelineOrder, ordered

TWO = LAYERS.replace("[[l1, a1], [l2], [l3, a3], [l4]]", "[[l1, a1, l2], [l3, a3, l4]]")


def order_of(plan: PhasePlan, count: int, schedule: str = "1f1b") -> PipelineOrder:
    return ordered([plan] * count, schedule, times=even_times(plan))


def turns(plan: PhasePlan, order: PipelineOrder, rank: int) -> str:
    """A rank's tasks as text: F0 is the forward pass of the first micro-batch, B0 its backward
    pass; X0 is both.
    """
    several = {one.stage for one in plan.phases if one.turn}
    told = []
    for at, number in order.ranks[rank]:
        phase = plan.phases[number]
        told.append(f"{'FB'[phase.turn] if phase.stage in several else 'X'}{at}")
    return " ".join(told)


def test_backward_passes_run_as_soon_as_they_can(tmp_path: Path) -> None:
    plan = plans_of(TWO, tmp_path, 2, "accumulate")["accumulate"]
    order = order_of(plan, 4)
    assert turns(plan, order, 0) == "F0 F1 B0 F2 B1 F3 B2 B3"
    assert turns(plan, order, 1) == "X0 X1 X2 X3"
    order = order_of(plan, 4, "gpipe")
    assert turns(plan, order, 0) == "F0 F1 F2 F3 B0 B1 B2 B3"


@pytest.mark.parametrize("count", [1, 4, 8])
def test_the_bubble_is_that_of_the_books(tmp_path: Path, count: int) -> None:
    """(p - 1) / (m + p - 1) of the time, for stages that take as long as one another; as many
    micro-batches are under way as there are stages after a rank and in it.
    """
    plan = plans_of(LAYERS, tmp_path, 4, "accumulate")["accumulate"]
    plans = [plan] * count
    for schedule in ("1f1b", "gpipe"):
        order = order_of(plan, count, schedule)
        assert order.bubble == pytest.approx(3 / (count + 3)), schedule
        most = check_order(plans, order.ranks)
        waiting = [min(count, 4 - rank if schedule == "1f1b" else count) for rank in range(3)]
        assert most == [*waiting, 0]  # the last rank does both passes in one


def test_stages_in_turn_wait_for_less(tmp_path: Path) -> None:
    """Four stages on two ranks: (p - 1) / (v m + p - 1)."""
    plan = plans_of(LAYERS, tmp_path, 2, "accumulate")["accumulate"]
    order = order_of(plan, 8)
    check_order([plan] * 8, order.ranks)
    assert order.bubble == pytest.approx(1 / (2 * 8 + 1))
    whole = plans_of(TWO, tmp_path, 2, "accumulate")["accumulate"]
    assert order_of(whole, 8).bubble == pytest.approx(1 / (8 + 1))


def test_every_number_of_micro_batches_has_an_order(tmp_path: Path) -> None:
    """Of a whole step, also where they do not fill the last group of ranks in turn."""
    for text, ranks in ((LAYERS, 4), (LAYERS, 2), (TWO, 2)):
        plans = plans_of(text, tmp_path, ranks, "accumulate", "step")
        for count in range(1, 8):
            every = [plans["accumulate"]] * (count - 1) + [plans["step"]]
            for schedule in ("1f1b", "gpipe"):
                check_order(every, ordered(every, schedule).ranks)


def test_a_wrong_order_is_found(tmp_path: Path) -> None:
    plans = plans_of(TWO, tmp_path, 2, "accumulate", "step")
    every = [plans["accumulate"], plans["step"]]
    first, second = map(list, ordered(every).ranks)
    waits = [(0, 2), *(task for task in first if task != (0, 2))]
    with pytest.raises(PipelineOrderError, match=r"wait for one another: rank 0 for phases"):
        check_order(every, [waits, second])
    turned = [second[1], second[0], *second[2:]]  # sums would begin with the second micro-batch
    with pytest.raises(PipelineOrderError, match="rank 1 changes a state in"):
        check_order(every, [first, turned])
    with pytest.raises(PipelineOrderError, match="not every task is done once"):
        check_order(every, [first[1:], second])
