"""The predicted times of a call: of its stages and copies, and which copies computation hides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StageFacts:
    """What the times of a stage depend on: its target, the predicted seconds, the processors of the
    host that it computes on (0: a device of its own), and whether that device copies and computes
    beside the host.
    """

    target: str
    seconds: float
    processors: int = 1
    overlapping: bool = False


@dataclass(frozen=True, slots=True)
class CopyLink:
    """Copies between the host and a device: `rate` bytes a second after `latency` seconds."""

    latency: float = 5e-6
    rate: float = 10e9

    def seconds(self, nbytes: int) -> float:
        """The time of a copy."""
        return self.latency + nbytes / self.rate


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """From one time to another, in seconds from the beginning of a call."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class CopySpan:
    """A copy of a value to or from the device of a stage."""

    value: int
    stage: int
    to_device: bool
    span: TimeSpan


@dataclass(slots=True)
class Timeline:
    """When a call's stages and copies are predicted to pass, in the order in which they start."""

    stages: dict[int, TimeSpan] = field(default_factory=dict)
    copies: list[CopySpan] = field(default_factory=list)

    @property
    def end(self) -> float:
        """When all of it is done."""
        spans = [*self.stages.values(), *(copy.span for copy in self.copies)]
        return max((span.end for span in spans), default=0.0)

    @property
    def in_turn(self) -> float:
        """The time of all stages and copies, one after the other."""
        copying = sum(copy.span.seconds for copy in self.copies)
        return copying + sum(span.seconds for span in self.stages.values())

    def hides(self, copy: CopySpan) -> list[int]:
        """The stages that compute during a copy, in order."""
        return [n for n, span in self.stages.items() if _common(span, copy.span) > 0]

    def hidden(self, copy: CopySpan) -> float:
        """The seconds of a copy during which a stage computes."""
        spans = [self.stages[number] for number in self.hides(copy)]
        return _covered(copy.span, spans)


def _common(one: TimeSpan, other: TimeSpan) -> float:
    return min(one.end, other.end) - max(one.start, other.start)


def _covered(whole: TimeSpan, spans: Iterable[TimeSpan]) -> float:
    """The seconds of a span that are in others."""
    covered, at = 0.0, whole.start
    for span in sorted(spans, key=lambda span: span.start):
        end = min(span.end, whole.end)
        covered += max(0.0, end - max(span.start, at))
        at = max(at, end)
    return covered


def processors_of(facts: Sequence[StageFacts]) -> dict[str, int]:
    """The processors of the host that each target takes, at most."""
    taken: dict[str, int] = {}
    for one in facts:
        taken[one.target] = max(taken.get(one.target, 0), one.processors)
    return taken
