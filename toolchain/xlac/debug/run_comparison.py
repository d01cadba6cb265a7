"""Whether one run of a benchmark is slower than another, with an interval, and the honest answer
that nothing can be told.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, variance
from typing import Any

T_975 = (
    12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23,
    2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09,
)  # fmt: skip
"""Student's t for intervals of 95 % with 1, 2, … degrees of freedom; beyond them the last."""

TOLERANCE = 0.02
"""A change that nobody need be told of, as a share."""

MOVED = 0.10
"""Ceilings of two runs so far apart, as a share, say that the machine itself changed."""


@dataclass(frozen=True, slots=True)
class RunComparison:
    """How many times as long calls take as in a run before: an estimate, and the interval that has
    the true value in 95 of 100 cases.
    """

    ratio: float
    low: float
    high: float
    tolerance: float = TOLERANCE
    doubts: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """ "slower" or "faster" where the whole interval is beyond the tolerance, else "no
        difference".
        """
        if self.low > 1 + self.tolerance:
            return "slower"
        return "faster" if self.high < 1 - self.tolerance else "no difference"

    def __str__(self) -> str:
        times = f"{self.ratio:.3f} times as long, {self.low:.3f} to {self.high:.3f} (95 %)"
        return f"{self.verdict}: {times}"

    def json(self) -> dict[str, Any]:
        """The same for JSON."""
        return {
            "verdict": self.verdict,
            "ratio": self.ratio,
            "low": self.low,
            "high": self.high,
            "tolerance": self.tolerance,
            "doubts": list(self.doubts),
        }


def compared(
    before: Mapping[str, Any], now: Mapping[str, Any], tolerance: float = TOLERANCE
) -> RunComparison:
    """Compares two results of `xlac bench --json` by the medians of their bursts (Welch's interval
    of their logarithms). Raises ValueError, which says why, for results that cannot be compared.
    """
    for key in ("model", "target"):
        if before.get(key) != now[key]:
            raise ValueError(f"it is of {key} '{before.get(key)}', and this is '{now[key]}'")
    ratio, low, high = _ratio(_bursts(before), now["burst_us"])
    return RunComparison(ratio, low, high, tolerance, tuple(_doubts(before, now)))


def of_bursts(
    before: Sequence[float], now: Sequence[float], tolerance: float = TOLERANCE
) -> RunComparison:
    """Compares the medians of the bursts of two programs, at least two each."""
    return RunComparison(*_ratio(before, now), tolerance)


def _doubts(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """What speaks against comparing two runs."""
    for when, run in (("then", before), ("now", now)):
        for doubt in run.get("doubts", ()):
            if doubt.startswith("calls are unsteady"):
                yield f"{when} {doubt}"
    for unit, what in (("gflops", "arithmetic"), ("gbytes", "memory")):
        key = f"ceiling_{unit}_per_second"
        old, new = before.get(key), now.get(key)
        if old and new and abs(new / old - 1) > MOVED:
            yield f"the machine's own {what} ran at {new / old:.2f} times the rate of then"
    if before.get("threads") != now.get("threads"):
        yield f"{before.get('threads')} thread(s) then, {now.get('threads')} now"


def _bursts(run: Mapping[str, Any]) -> list[float]:
    """The medians of a run's bursts. Raises ValueError for a run without."""
    bursts = run.get("burst_us")
    if (
        isinstance(bursts, list)
        and len(bursts) > 1
        and all(isinstance(b, int | float) and 0 < b < math.inf for b in bursts)
    ):
        return bursts
    raise ValueError("it has no times of bursts (burst_us): `xlac bench --json` writes them")


def _ratio(before: Sequence[float], now: Sequence[float]) -> tuple[float, float, float]:
    """How many times as long, and the interval's ends."""
    old, new = [math.log(b) for b in before], [math.log(n) for n in now]
    share_old, share_new = variance(old) / len(old), variance(new) / len(new)
    both = share_old + share_new
    if both == 0:
        exact = math.exp(mean(new) - mean(old))
        return exact, exact, exact
    freedom = both**2 / (share_old**2 / (len(old) - 1) + share_new**2 / (len(new) - 1))
    wide = T_975[min(int(freedom), len(T_975)) - 1] * math.sqrt(both)
    middle = mean(new) - mean(old)
    return math.exp(middle), math.exp(middle - wide), math.exp(middle + wide)
