"""Bursts of calls and ceilings take turns; what varies or is above its ceiling is said. Clocks are
made up: nothing is timed.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from xlac.cli.commands.bench import rates
from xlac.cli.runs.times import spread
from xlac.debug import timing
from xlac_sdk.kernel_ir.kernel import Work


class Machine:
    """A clock that only work moves."""

    def __init__(self) -> None:
        self.now, self.ran = 0.0, list[str]()
        self.pace = lambda: 1.0

    def work(self, name: str, seconds: float) -> None:
        self.ran.append(name)
        self.now += seconds * self.pace()

    def samples(self, call: float = 1e-3, seconds: float = 0.5) -> timing.Samples:
        beside = [lambda: self.work("sum", 2e-2), lambda: self.work("read", 1e-2)]
        return timing.take(lambda: self.work("call", call), seconds, beside, lambda: self.now)


def test_ceilings_take_turns_with_bursts() -> None:
    machine = Machine()
    found = machine.samples()
    turns = "".join(name[0] for name in machine.ran)
    assert [part for part in turns.split("sr") if part.strip("c")] == [], (
        "one of each between bursts"
    )
    assert turns.count("sr") == timing.BURSTS == len(found.bursts)
    lengths = [len(part) for part in turns.split("sr")[1:]]
    assert min(lengths) > 50 and max(lengths) - min(lengths) <= 2, (
        "bursts are as long as each other"
    )
    assert [len(runs) for runs in found.beside] == [timing.BURSTS] * 2
    assert found.median == pytest.approx(1e-3) and timing.unsteady(found) == []


def test_short_calls_are_timed_together() -> None:
    machine = Machine()
    found = machine.samples(call=1e-6, seconds=0.01)
    assert found.median == pytest.approx(1e-6) and len(found.all) < 200


def test_a_call_longer_than_the_time_has_a_sample_in_each_burst() -> None:
    assert [len(burst) for burst in Machine().samples(call=3.0).bursts] == [1] * timing.BURSTS


def test_a_machine_that_slows_down_is_unsteady() -> None:
    machine = Machine()
    machine.pace = lambda: 1.0 if machine.now < 0.52 else 2.0
    (doubt,) = timing.unsteady(machine.samples())
    assert doubt.startswith("calls are unsteady")


def test_one_slow_burst_of_five_is_unsteady() -> None:
    found = timing.Samples(((1.0,) * 9,) * 4 + ((1.5,) * 2,))
    assert found.spread == 0 and "moved by 50 %" in timing.unsteady(found)[0]


def test_shares_of_steady_ceilings_are_trusted() -> None:
    told = rates(
        Work(1_000, 2_000),
        timing.Samples(((1e-6,),) * 5, ((1e-6,) * 5, (1e-6,) * 5)),
        [2_000, 4_000],
    )
    assert told["doubts"] == [] and told["gflops_share"] == told["gbytes_share"] == pytest.approx(
        0.5
    )


@pytest.mark.parametrize(
    ("work", "what"), [(Work(3_000, 1), "arithmetic"), (Work(1, 3_000), "traffic")]
)
def test_more_than_a_ceiling_is_not_trusted(work: Work, what: str) -> None:
    told = rates(work, timing.Samples(((1e-6,),) * 5, ((1e-6,) * 5, (1e-6,) * 5)), [2_000, 2_000])
    (doubt,) = told["doubts"]
    assert doubt.startswith(f"{what} is 150 % of its ceiling")


def test_a_ceiling_that_varies_is_not_trusted() -> None:
    told = rates(
        Work(1, 1),
        timing.Samples(((1e-6,),) * 5, ((1e-6, 2e-6, 2e-6, 2e-6, 2e-6), (1e-6,) * 5)),
        [2_000, 2_000],
    )
    (doubt,) = told["doubts"]
    assert doubt.startswith("the ceiling of arithmetic is unsteady")


def test_without_ceilings_there_are_no_shares() -> None:
    samples = timing.Samples(((1e-6, 1e-6),))
    told = rates(Work(1_000, 2_000), samples, [])
    assert (
        told["ceiling_gflops_per_second"] is None
        and told["doubts"] == []
        and spread(samples)["spread"] == 0
    )


def test_calls_take_turns_burst_by_burst() -> None:
    """Each call has its own samples; between two bursts of one the others have theirs."""
    now, order = [0.0], []

    def call(name: str, seconds: float) -> Callable[[], None]:
        def run() -> None:
            now[0] += seconds
            if not order or order[-1] != name:
                order.append(name)

        return run

    calls = [call("a", 0.001), call("b", 0.002), call("c", 0.001)]
    samples = timing.take_turns(calls, 0.1, clock=lambda: now[0])
    assert order == [*"abc" * (1 + timing.BURSTS)]
    assert [len(one.bursts) for one in samples] == [timing.BURSTS] * 3
    assert [one.median for one in samples] == pytest.approx([0.001, 0.002, 0.001])
