"""Times of two programs taken in turn, and what they say."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from xlac.debug.tune.race import FIRST, medians, race, speedup


class MadeUpClock:
    """A clock that calls move on."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[str] = []

    def __call__(self) -> float:
        return self.now

    def taking(self, name: str, seconds: float) -> Callable[[], None]:
        """A call that takes some seconds."""

        def call() -> None:
            self.calls.append(name)
            self.now += seconds

        return call


def test_two_programs_are_called_in_turn() -> None:
    clock = MadeUpClock()
    times = race(clock.taking("a", 0.010), clock.taking("b", 0.009), 1.0, clock=clock)
    assert times.ratio == pytest.approx(0.9)
    assert 50 <= len(times.first) == len(times.second) <= 55
    assert clock.calls[3:7] == ["a", "b", "a", "b"]


def test_short_calls_are_repeated_unless_something_comes_between() -> None:
    clock = MadeUpClock()
    times = race(clock.taking("a", 1e-6), clock.taking("b", 2e-6), 0.001, clock=clock)
    assert times.ratio == pytest.approx(2.0) and clock.calls.count("b") >= 50 * len(times.second)
    clock = MadeUpClock()
    race(clock.taking("a", 1e-6), clock.taking("b", 1e-6), 0.1, clock.taking("-", 0.01), clock)
    assert clock.calls[2:6] == ["-", "a", "-", "b"]


def test_a_hopeless_program_is_given_up() -> None:
    clock = MadeUpClock()
    assert len(race(clock.taking("a", 0.01), clock.taking("b", 0.02), 9.0, clock=clock).first) == (
        FIRST
    )


def test_how_sure_a_gain_is() -> None:
    """The interval is that of Student's t for the logarithms of the pairs."""
    assert speedup([(2.0, 1.0)] * 4) == pytest.approx((2.0, 2.0, 2.0))
    middle, low, high = speedup([(1.2, 1.0), (1.3, 1.0)])
    half = abs(math.log(1.3) - math.log(1.2)) / 2
    assert middle == pytest.approx(math.sqrt(1.2 * 1.3))
    assert math.log(high / middle) == pytest.approx(12.71 * half)
    assert low * high == pytest.approx(middle**2)
    assert speedup([(2.0, 1.0)])[1:] == (0.0, math.inf)
    assert medians([(1.0, 5.0), (3.0, 4.0), (2.0, 9.0)]) == (2.0, 5.0)
