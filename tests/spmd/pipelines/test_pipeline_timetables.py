"""When ranks of a pipeline send and receive: nobody waits without end, even where MPI copies no
message, and few values are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pipelined import LAYERS, TIED, plans_of

from xlac.pipelining.plan import PhasePlan
from xlac.pipelining.schedule import ordered
from xlac.pipelining.timetable import (
    Event,
    MessageEvent,
    OutputEvent,
    PhaseEvent,
    RankMessage,
    StateEvent,
    timetable,
)

SENT: tuple[str, ...] = ("send", "sent")


def tables(plans: Sequence[PhasePlan], schedule: str) -> list[list[Event]]:
    order = ordered(plans, schedule)
    return [timetable(plans, order.ranks, rank) for rank in range(plans[0].ranks)]


def run(every: Sequence[Sequence[Event]]) -> None:
    """All ranks in turn; a rank waits for a message that it sent until it was received, as where
    MPI has no memory of its own. Raises AssertionError where all wait.
    """
    at = [0] * len(every)
    sent: set[RankMessage] = set()
    posted: set[RankMessage] = set()
    moved = True
    while moved:
        moved = False
        for rank, events in enumerate(every):
            while at[rank] < len(events):
                event = events[at[rank]]
                if isinstance(event, MessageEvent):
                    if event.what in ("send", "receive"):
                        (sent if event.what == "send" else posted).add(event.message)
                    elif event.message not in sent & posted:
                        break
                at[rank] += 1
                moved = True
    stuck = {
        rank: events[n]
        for n, (rank, events) in zip(at, enumerate(every), strict=True)
        if n < len(events)
    }
    assert not stuck


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize(("text", "ranks"), [(LAYERS, 2), (LAYERS, 4), (TIED, 3)])
def test_nobody_waits_without_end(text: str, ranks: int, schedule: str, tmp_path: Path) -> None:
    plans = plans_of(text, tmp_path, ranks, "accumulate", "step")
    for count in (1, 2, 3, 8):
        every = tables([plans["accumulate"]] * (count - 1) + [plans["step"]], schedule)
        run(every)
        for rank, events in enumerate(every):
            check(events, rank)


def check(events: Sequence[Event], rank: int) -> None:
    """Each message begins once and ends once, and nothing is read before it is there."""
    began = [(e.message, e.what) for e in events if isinstance(e, MessageEvent)]
    assert len(set(began)) == len(began)
    for message, what in began:
        assert rank == (message.source if what in SENT else message.target)
        other = {"send": "sent", "sent": "send", "receive": "received", "received": "receive"}
        assert (message, other[what]) in began
    there = set()
    for event in events:
        match event:
            case MessageEvent(message, "received"):
                there.add(message.value)
            case MessageEvent(message, "send"):
                assert message.source == rank
            case StateEvent(value=value) | OutputEvent(value=value):
                assert value in there or message_of(events, value)
            case _:
                pass


def message_of(events: Sequence[Event], value: tuple[int, int]) -> bool:
    """Whether the rank has computed a value itself."""
    return any(isinstance(e, PhaseEvent) and e.task[0] == value[0] for e in events)


def kept(events: Sequence[Event], plans: Sequence[PhasePlan]) -> int:
    """The most values that a rank has at once."""
    used: dict[tuple[int, int], list[int]] = {}
    for now, event in enumerate(events):
        match event:
            case MessageEvent(message, _):
                used.setdefault(message.value, []).append(now)
            case PhaseEvent((at, number)):
                phase = plans[at].phases[number]
                for value in (*phase.reads.values(), *phase.writes.values()):
                    used.setdefault((at, value), []).append(now)
            case StateEvent(value=value) | OutputEvent(value=value):
                used.setdefault(value, []).append(now)
    return max(sum(u[0] <= now <= u[-1] for u in used.values()) for now in range(len(events)))


def test_few_values_are_kept(tmp_path: Path) -> None:
    """With 1F1B as many for 16 micro-batches as for 8, but for what is given at the end; with
    GPipe more.
    """
    plan = plans_of(LAYERS, tmp_path, 4, "accumulate")["accumulate"]
    few, many, all_of_them = (
        [kept(events, [plan] * count) for events in tables([plan] * count, schedule)]
        for count, schedule in ((8, "1f1b"), (16, "1f1b"), (16, "gpipe"))
    )
    ends = 8 * len(plan.outputs)
    assert all(more <= less + ends for less, more in zip(few, many, strict=True))
    assert all_of_them[0] > many[0]
