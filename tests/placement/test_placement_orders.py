"""Orders of calls: they are checked, and give what one stage after the other gives."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from overlap_doubles import DrawnStages, HostStage, LazyStage

import xlac
from xlac.placement import arrange
from xlac.placement.arrange import Arranged, arranged
from xlac.placement.call_order import (
    CallOrder,
    CopyStart,
    StagePost,
    StageStart,
    ValueDone,
    one_after_the_other,
)
from xlac.placement.perform import StagePerformer
from xlac.placement.stage_models import StageValues
from xlac.placement.timeline import CopyLink, StageFacts
from xlac.placement.verify_order import verify_order
from xlac_sdk.source import VerifyError

COUNT = 300  # random sets of stages
A_TO_B = StageValues({"x": 0}, {"y": 2}, {}, {}, [], [({"x": 0}, {"h": 1}), ({"h": 1}, {"y": 2})])


@pytest.fixture(params=["when it pays", "always"])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Targets have threads of their own where they gain by it, or always."""
    if request.param == "always":
        monkeypatch.setattr(arrange, "GAIN", -1e9)


def found(drawn: DrawnStages) -> Arranged:
    return arranged(drawn.values, drawn.facts, drawn.sizes, CopyLink(), processors=8)


@pytest.mark.usefixtures("threads")
def test_random_orders_are_valid_and_compute_the_same() -> None:
    for seed in range(COUNT):
        drawn = DrawnStages(seed)
        order = found(drawn).order
        verify_order(drawn.values, order)
        performer = StagePerformer(order, drawn.values, drawn.codes)
        for call in range(2):
            arrays = drawn.arrays(call)
            expected = drawn.expected(arrays)
            performer.run(arrays)
            for value, want in expected.items():
                np.testing.assert_array_equal(arrays[value], want, err_msg=f"seed {seed}")


@pytest.mark.usefixtures("threads")
def test_predicted_times_agree_with_the_order() -> None:
    for seed in range(COUNT):
        drawn = DrawnStages(seed)
        times = found(drawn).times
        assert times.end <= times.in_turn + 1e-3  # waiting for threads costs something
        for stage, (reads, _) in enumerate(drawn.values.stages):
            span = times.stages[stage]
            for copy in times.copies:
                if copy.stage == stage and copy.to_device:
                    assert copy.value in reads.values() and copy.span.end <= span.start
                elif copy.stage == stage:
                    assert copy.span.start >= span.end
                assert 0 <= times.hidden(copy) <= copy.span.seconds + 1e-12
        for copy in times.copies:  # each engine of a device makes one at a time
            for other in times.copies:
                same = (copy.to_device, drawn.facts[copy.stage].target) == (
                    other.to_device,
                    drawn.facts[other.stage].target,
                )
                if same and copy is not other and copy.span.start < other.span.start:
                    assert copy.span.end <= other.span.start


def without_one(order: CallOrder) -> Iterator[CallOrder]:
    """The order without each of its steps."""
    for number, steps in enumerate(order.threads):
        for at in range(len(steps)):
            threads = list(order.threads)
            threads[number] = (*steps[:at], *steps[at + 1 :])
            yield replace(order, threads=tuple(threads))


@pytest.mark.usefixtures("threads")
def test_no_step_can_be_left_out() -> None:
    """But waits for a thread that later ones of the same thread imply."""
    refused = 0
    for seed in range(COUNT):
        drawn = DrawnStages(seed)
        for order in without_one(found(drawn).order):
            try:
                verify_order(drawn.values, order)
            except VerifyError:
                refused += 1
                continue
            arrays = drawn.arrays(0)
            expected = drawn.expected(arrays)
            assert len(order.threads) > 1, f"seed {seed}: {order}"
            StagePerformer(order, drawn.values, drawn.codes).run(arrays)
            for value, want in expected.items():
                np.testing.assert_array_equal(arrays[value], want, err_msg=f"seed {seed}")
    assert refused > COUNT


@pytest.mark.parametrize(
    ("threads", "overlapping", "problem"),
    [
        ([[StageStart(0)]], {}, "stages [1] never start"),
        ([[StageStart(1), StageStart(0)]], {}, "stage 1 reads value 1 of stage 0 before"),
        ([[StageStart(0), StageStart(0), StageStart(1)]], {}, "stage 0 starts twice"),
        ([[StageStart(0), StageStart(1)]], {0}, "stage 0 starts before value 0 is copied"),
        ([[CopyStart(0, 0), StageStart(0), StageStart(1)]], {0}, "stage 1 reads value 1 of stage"),
        ([[CopyStart(0, 0), CopyStart(0, 0)]], {0}, "may overwrite what the stage reads"),
        ([[CopyStart(1, 1), StageStart(0)]], {1}, "the copy of value 1 to stage 1 reads value 1"),
        ([[CopyStart(0, 1)]], {1}, "the copy of value 0 to stage 1 is for nothing"),
        ([[StageStart(0)], [StageStart(1)]], {}, "stage 1 reads value 1 of stage 0 before"),
        ([[StageStart(0)], [ValueDone(1), StageStart(1)]], {}, "thread 1 waits for ever"),
        ([[StagePost(0), StageStart(0)]], {}, "stage 0 is posted before it starts"),
        ([[ValueDone(0)]], {}, "no stage writes value 0"),
    ],
)
def test_what_is_refused(threads: list[list[object]], overlapping: set[int], problem: str) -> None:
    order = CallOrder(tuple(map(tuple, threads)), frozenset(overlapping))  # type: ignore[arg-type]
    with pytest.raises(VerifyError) as caught:
        verify_order(A_TO_B, order)
    assert problem in str(caught.value)


def test_an_array_that_two_stages_write_is_refused() -> None:
    values = replace(A_TO_B, stages=[({"x": 0}, {"h": 1}), ({"x": 0}, {"y": 1})])
    with pytest.raises(VerifyError, match="stage 1 writes value 1, which is written"):
        verify_order(values, one_after_the_other(2))


def test_a_read_before_it_is_done_gives_poison() -> None:
    """The doubles show what the check is there for."""
    order = CallOrder(((CopyStart(0, 0), StageStart(0), StageStart(1)),), frozenset({0}))
    arrays = {0: np.ones(3), 1: np.zeros(3), 2: np.zeros(3)}
    StagePerformer(order, A_TO_B, [LazyStage(0), HostStage(1)]).run(arrays)
    assert np.isnan(arrays[2]).all()


def test_a_copy_starts_as_soon_as_its_value_exists() -> None:
    """Before the next stage of the host, which could be long; it is awaited where it is read."""
    stages = [
        ({"x": 0}, {"h": 1}),  # on the host
        ({"h": 1}, {"far": 2}),  # on the device
        ({"h": 1}, {"near": 3}),  # on the host, beside it
        ({"far": 2, "near": 3}, {"y": 4}),
    ]
    values = StageValues({"x": 0}, {"y": 4}, {}, {}, [], stages)
    near, far = StageFacts("cpu", 1e-3), StageFacts("gpu", 1e-3, 0, True)
    sizes = dict.fromkeys(range(5), 1_000_000)
    made = arranged(values, [near, far, near, near], sizes, CopyLink(), 1)
    assert made.order.threads == (
        (StageStart(0), CopyStart(1, 1), StageStart(1), StageStart(2), ValueDone(2), StageStart(3)),
    )
    there, back = made.times.copies
    assert made.times.hides(there) == [2] and made.times.hidden(there) == there.span.seconds
    assert made.times.hides(back) == []
    assert made.times.end == pytest.approx(3e-3 + there.span.seconds * 2)


class FailingStage(HostStage):
    """Fails."""

    def run(self, inputs: object, outputs: object) -> None:
        raise ValueError(f"stage {self.number}")


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_error_ends_all_threads_and_frees_all_stages(failing: int) -> None:
    """The others wait for what never comes."""
    stages = [({"x": 0}, {"a": 1}), ({"x": 0}, {"b": 2}), ({"a": 1, "b": 2}, {"y": 3})]
    values = StageValues({"x": 0}, {"y": 3}, {}, {}, [], stages)
    order = CallOrder(
        (
            (CopyStart(0, 0), StageStart(0), ValueDone(1), ValueDone(2), StageStart(2)),
            (StageStart(1), StagePost(1)),
        ),
        frozenset({0}),
    )
    verify_order(values, order)
    codes: list[HostStage] = [LazyStage(0), HostStage(1), HostStage(2)]
    if failing:
        codes[failing] = FailingStage(failing)
    else:
        codes[0].result = FailingStage(0).run  # type: ignore[method-assign,assignment]
    performer = StagePerformer(order, values, codes)
    arrays = {0: np.ones(3), **{n: np.zeros(3) for n in (1, 2, 3)}}
    if failing:
        with pytest.raises(ValueError, match=f"stage {failing}"):
            performer.run(arrays)
    else:
        with pytest.raises(TypeError):
            performer.run(arrays)
    assert getattr(codes[0], "calls", 0) == 0


def test_a_time_out_holds_in_all_threads() -> None:
    class Slow(HostStage):
        def run(self, inputs: object, outputs: object) -> None:
            time.sleep(0.05)

    stages = [({"x": 0}, {f"a{n}": n}) for n in range(1, 4)]
    values = StageValues({"x": 0}, {"y": 1}, {}, {}, [], stages)
    order = CallOrder(((StageStart(0),), (StageStart(1), StageStart(2))), frozenset())
    performer = StagePerformer(order, values, [Slow(0), Slow(1), Slow(2)])
    arrays = {n: np.zeros(3) for n in range(4)}
    with pytest.raises(xlac.DeadlineError), xlac.timeout(0.02):
        performer.run(arrays)
    performer.run(arrays)
