"""What a call of a model in stages does, and in which order: copies to devices, stages, and waits.

Copies start in one step and are awaited in another, and so are stages of devices that compute
beside the host. Each thread makes its steps in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CopyStart:
    """A value, which is in the host's memory, starts to be copied to the device of a stage."""

    value: int
    stage: int


@dataclass(frozen=True, slots=True)
class StageStart:
    """A stage starts, and then the copies of its results to the host's memory. One that computes on
    the host's processor is complete after this step, others when their values are done.
    """

    stage: int


@dataclass(frozen=True, slots=True)
class ValueDone:
    """Waits until a value of a stage is in the host's memory."""

    value: int


@dataclass(frozen=True, slots=True)
class StagePost:
    """Lets other threads go on that wait for values of a stage: it has started, and so have copies
    of its values to other devices that this thread starts.
    """

    stage: int


Step = CopyStart | StageStart | ValueDone | StagePost


@dataclass(frozen=True, slots=True)
class CallOrder:
    """The steps of each thread, the first of which is the caller's; and the stages whose devices
    copy and compute beside the host: the caller awaits all that is left of them in the end.
    """

    threads: tuple[tuple[Step, ...], ...]
    overlapping: frozenset[int]

    @property
    def in_turn(self) -> bool:
        """Whether it is no more than one stage after the other."""
        return len(self.threads) == 1 and not self.overlapping

    def steps(self) -> Iterator[Step]:
        """The steps of all threads."""
        for thread in self.threads:
            yield from thread


def one_after_the_other(stages: int) -> CallOrder:
    """The order that waits for each stage of a number of them."""
    return CallOrder((tuple(map(StageStart, range(stages))),), frozenset())
