"""Which rows are behind the best peer, by intervals that hold for all rows at once.

A sample is a process: the logarithm of its seconds in a round, beside those of the others in the
same round. The best peer is chosen on one half of the rounds and compared on the other, both ways
around, so that choosing the luckiest of many peers flatters none. A row's variance is moderated by
that of all rows (Smyth 2004, as `limma` does), never below the row's own; the ends of intervals are
those at which Holm's procedure over all rows makes the same decisions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from .student import digamma, trigamma, trigamma_inverse, upper_quantile, upper_tail

Rounds = Mapping[int, float]  # by round: the logarithm of seconds

LIMIT = math.log(1.03)  # a ratio within it is no difference
SIDE = 0.025  # of a 95 % interval
LEAST = 5  # processes of a figure
MOST_PRIOR = 12.0  # degrees of freedom that other rows lend to a row's variance
SMALLEST = 0.001**2  # of a variance: clocks tell no less than a thousandth


@dataclass(frozen=True, slots=True)
class Compared:
    """One row: the logarithm of our time over the best peer's, from `count` processes of each.
    `peers` are those that the halves chose; `spread` is the variance of one paired difference.
    """

    mean: float
    spread: float
    degrees: int
    count: int
    peers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A row's ratio with its corrected 95 % interval, and what it means.

    `word` is "behind" where all of the interval is above 1.03, "ahead" where all of it is below
    1/1.03, "level" where it ends at 1.03 or before, else "inconclusive".
    """

    row: str
    ratio: float
    low: float
    high: float
    word: str
    compared: Compared


def compared(ours: Rounds, peers: Mapping[str, Rounds]) -> Compared | None:
    """Our time over the best peer's; None where there are fewer than `LEAST` processes.

    A peer takes part if it was measured in at least `LEAST` of the rounds in which we were.
    """
    eligible = {name: r for name, r in peers.items() if len(r.keys() & ours.keys()) >= LEAST}
    if len(ours) < LEAST or not eligible:
        return None
    halves = [sorted(ours)[first::2] for first in (0, 1)]
    chosen: list[str] = []
    parts: list[list[float]] = []
    for choose, compare in (halves, halves[::-1]):
        levels = {
            name: fmean(rounds[k] - ours[k] for k in choose if k in rounds)
            for name, rounds in eligible.items()
            if any(k in rounds for k in choose) and any(k in rounds for k in compare)
        }
        if not levels:
            return None
        best = min(levels, key=levels.__getitem__)
        chosen.append(best)
        parts.append([ours[k] - eligible[best][k] for k in compare if k in eligible[best]])
    if chosen[0] == chosen[1]:
        parts = [parts[0] + parts[1]]
    count, degrees = sum(map(len, parts)), sum(len(part) - 1 for part in parts)
    if count < LEAST:
        return None
    squares = sum(variance(part) * (len(part) - 1) for part in parts if len(part) > 1)
    mean = sum(map(sum, parts)) / count
    return Compared(mean, squares / degrees, degrees, count, tuple(dict.fromkeys(chosen)))


def beside(ours: Rounds, other: Rounds) -> Compared | None:
    """Our time over that of one other contender, round by round."""
    differences = [ours[k] - other[k] for k in sorted(ours.keys() & other.keys())]
    if len(differences) < LEAST:
        return None
    count = len(differences)
    return Compared(fmean(differences), variance(differences), count - 1, count, ())


def prior(rows: Sequence[Compared]) -> tuple[float, float]:
    """What the variances of all rows say of any one: a variance, and how many degrees of freedom
    it is worth; 0 of them where there are too few rows to say.
    """
    if len(rows) < 3:
        return SMALLEST, 0.0
    logs = [
        math.log(max(row.spread, SMALLEST)) - digamma(row.degrees / 2) + math.log(row.degrees / 2)
        for row in rows
    ]
    excess = variance(logs) - fmean(trigamma(row.degrees / 2) for row in rows)
    degrees = 2 * trigamma_inverse(excess) if excess > 0 else MOST_PRIOR
    degrees = min(degrees, MOST_PRIOR)
    return math.exp(fmean(logs) + digamma(degrees / 2) - math.log(degrees / 2)), degrees


def verdicts(rows: Mapping[str, Compared]) -> list[Verdict]:
    """A verdict for each row; the intervals of all hold together with 95 %."""
    common, lent = prior(list(rows.values()))
    errors: dict[str, float] = {}
    degrees: dict[str, float] = {}
    for name, row in rows.items():
        own = max(row.spread, SMALLEST)
        moderated = (lent * common + row.degrees * own) / (lent + row.degrees)
        errors[name] = math.sqrt(max(moderated, own) / row.count)
        degrees[name] = lent + row.degrees
    ends: dict[int, float] = {}
    for sign in (1, -1):
        tails = {
            name: upper_tail((sign * row.mean - LIMIT) / errors[name], degrees[name])
            for name, row in rows.items()
        }
        ends[sign] = _holm(sorted(tails.values()))
    found = []
    for name, row in rows.items():
        below, above = (upper_quantile(ends[sign], degrees[name]) for sign in (1, -1))
        low, high = row.mean - below * errors[name], row.mean + above * errors[name]
        word = _word(low, high)
        found.append(Verdict(name, math.exp(row.mean), math.exp(low), math.exp(high), word, row))
    return found


def _holm(tails: Sequence[float]) -> float:
    """The level at which intervals decide as Holm's procedure does over ascending tails."""
    for rejected, tail in enumerate(tails):
        if tail > SIDE / (len(tails) - rejected):
            return SIDE / (len(tails) - rejected)
    return SIDE


def _word(low: float, high: float) -> str:
    if low > LIMIT:
        return "behind"
    if high < -LIMIT:
        return "ahead"
    return "level" if high <= LIMIT else "inconclusive"


@dataclass(frozen=True, slots=True)
class Mean:
    """A geometric mean of ratios over `rows` rows, with its own 95 % interval."""

    ratio: float
    low: float
    high: float
    rows: int


def geometric_mean(found: Sequence[Verdict]) -> Mean | None:
    """Of rows' ratios; None over none. Rows weigh alike; the interval is of the measurement, not
    of which rows there are.
    """
    if not found:
        return None
    mean = fmean(v.compared.mean for v in found)
    error = math.sqrt(sum(v.compared.spread / v.compared.count for v in found)) / len(found)
    wide = upper_quantile(SIDE, sum(v.compared.degrees for v in found)) * error
    return Mean(math.exp(mean), math.exp(mean - wide), math.exp(mean + wide), len(found))


def mean_of_classes(means: Sequence[Mean]) -> Mean | None:
    """The geometric mean of classes' means: each class weighs alike, however many rows it has."""
    if not means:
        return None
    mean = fmean(math.log(m.ratio) for m in means)
    wide = math.sqrt(sum((math.log(m.high / m.low) / 2) ** 2 for m in means)) / len(means)
    rows = sum(m.rows for m in means)
    return Mean(math.exp(mean), math.exp(mean - wide), math.exp(mean + wide), rows)


AGAIN = math.log(1.01)  # how far the mean of xlac beside itself may be off


def void(again: Sequence[Verdict]) -> str:
    """Why a run says nothing: xlac beside itself differs. Empty where it does not."""
    if not again:
        return "xlac was not measured beside itself"
    apart = [v for v in again if v.word in ("behind", "ahead")]
    if apart:
        listed = ", ".join(f"{v.row} {v.ratio:.2f}" for v in apart)
        return f"xlac beside itself differs on {len(apart)} of {len(again)} rows: {listed}"
    mean = geometric_mean(again)
    assert mean is not None
    if abs(math.log(mean.ratio)) > AGAIN and not mean.low <= 1 <= mean.high:
        return f"xlac beside itself takes {mean.ratio:.3f} of its time over all rows"
    return ""
