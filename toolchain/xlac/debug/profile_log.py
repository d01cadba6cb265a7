"""The log of an instrumented program: steps and parts of them with their ticks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from xlac.ir.op import Array
from xlac_sdk.dims import size_hint
from xlac_sdk.programs.program import Call, Choice, Copy, Launch, Program, Repeat, Step, While, walk

LOG = "profile log"
ROOM = 1 << 18  # the most entries of a log
PARTS = 128  # parts of a launch per thread that a log has room for; ROOM of them in all
KEPT = 1 << 29  # bytes of logs that are kept at most; measuring ends then
UNKNOWN = 1 << 12  # assumed iterations of a loop of unknown length

Timed = Launch | Copy | Call


@dataclass(frozen=True, slots=True)
class Event:
    """One run of a step, or of the part of it that one thread ran at once; in seconds from the
    start of the call.

    Thread 0 is the calling thread. `part` marks parts; the step itself lasts until its last part
    ends.
    """

    row: int
    start: float
    seconds: float
    thread: int = 0
    part: bool = False


@dataclass(frozen=True, slots=True)
class StampLog:
    """The log of one call: the code of every step that ran, and ticks at the start and after each
    step.
    """

    codes: Array
    stamps: Array
    parts: Array  # thread, begin and end of every part of a launch
    full: bool
    lost_parts: int

    @staticmethod
    def of(log: Array, parts: int) -> StampLog:
        """The log in an output, whose last `parts` words are for parts. A copy."""
        head, tail = log[: len(log) - parts], log[len(log) - parts :]
        count, ran = int(head[0]), int(tail[0]) if parts else 0
        recorded = min(ran, (parts - 1) // 3) if parts else 0
        entries = head[1 : 1 + 2 * count].reshape(count, 2).copy()
        return StampLog(
            entries[1:, 0],
            entries[:, 1],
            tail[1 : 1 + 3 * recorded].reshape(recorded, 3).copy(),
            count == len(head) // 2,
            ran - recorded,
        )

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return 16 * len(self.stamps) + self.parts.nbytes


def events_of(log: StampLog, rate: float) -> Iterator[Event]:
    """Every step and every part of a call, with threads numbered in the order of their first
    part.
    """
    start = log.stamps[0]
    for code, begin, end in zip(log.codes, log.stamps[:-1], log.stamps[1:], strict=True):
        yield Event(int(code) - 1, float((begin - start) * rate), float((end - begin) * rate))
    numbers = {threading.get_ident(): 0}
    for thread, begin, end in log.parts[np.argsort(log.parts[:, 1], kind="stable")]:
        step = int(np.searchsorted(log.stamps[1:], begin, side="right"))
        if step < len(log.codes):  # steps beyond the log's room are missing
            number = numbers.setdefault(int(thread), len(numbers))
            yield Event(
                int(log.codes[step]) - 1,
                float((begin - start) * rate),
                float((end - begin) * rate),
                number,
                part=True,
            )


def room_for(program: Program, threads: int) -> tuple[int, int]:
    """The entries that a log needs for the steps of a call, and the words for the parts of launches
    with several threads.
    """
    entries = entries_for(program)
    parts = 1 + 3 * min(ROOM, PARTS * threads * entries) if threads > 1 else 0
    return entries, parts


def entries_for(program: Program) -> int:
    """The entries for a stamp after every step of a call, at most ROOM."""

    def count(steps: tuple[Step, ...]) -> int:
        total = 0
        for step in steps:
            match step:
                case Repeat(count=times, body=body):
                    total += size_hint(times) * count(body)
                case While(condition=condition, body=body):
                    total += UNKNOWN * (count(condition) + count(body))
                case Choice():
                    total += sum(map(count, step.paths))
                case Launch() | Copy() | Call():
                    total += 1
                case _:
                    total += sum(isinstance(inner, Launch | Copy | Call) for inner in walk((step,)))
        return total

    return min(ROOM, 1 + count(program.steps))


def steps_not_logged(counts: Array, timed: tuple[Timed, ...]) -> int:
    """A lower bound for the steps of a call that are missing in a full log: those that never occur
    in it.
    """
    return int(np.count_nonzero(counts[: len(timed)] == 0))
