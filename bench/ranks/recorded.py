"""When collectives of a step start and are waited for, and what a link would make of that."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xlac_sdk.host.ranks.communicator import DONE, START, ExchangeTable, PreparedExchange
from xlac_sdk.host.ranks.mpi import MpiRank, MpiTable


@dataclass(frozen=True, slots=True)
class Event:
    """A start or a done: the number of its collective, the bytes that a rank sends, and seconds at
    which the call began and returned.
    """

    starts: bool
    number: int
    nbytes: int
    began: float
    ended: float


class RecordedTable:
    """A table that calls another's functions, and notes when."""

    def __init__(self, own: MpiTable, prepared: Sequence[PreparedExchange]) -> None:
        self.own, self.events = own, list[Event]()
        self.nbytes = {one.number: _sent(one) for one in prepared}
        functions = ExchangeTable.from_address(own.address)
        self._start, self._done = functions.start, functions.done
        self._table = ExchangeTable(START(self._started), DONE(self._waited))
        self.address = ctypes.addressof(self._table)

    def settle(self, group_of: Any) -> None:
        """As the other's."""
        self.own.settle(group_of)

    def _started(self, table: int, number: int, source: int, target: int) -> None:
        began = time.perf_counter()
        self._start(self.own.address, number, source, target)
        self._note(True, number, began)

    def _waited(self, table: int, number: int) -> None:
        began = time.perf_counter()
        self._done(self.own.address, number)
        self._note(False, number, began)

    def _note(self, starts: bool, number: int, began: float) -> None:
        event = Event(starts, number, self.nbytes[number], began, time.perf_counter())
        self.events.append(event)


class RecordedRank(MpiRank):
    """A rank that notes the events of its programs."""

    def table(self, prepared: Sequence[PreparedExchange]) -> Any:
        """The functions of MPI, recorded."""
        made = RecordedTable(super().table(prepared), prepared)
        self._unsettled[-1] = made  # type: ignore[call-overload]
        self.tables = [*getattr(self, "tables", []), made]
        return made


def _sent(one: PreparedExchange) -> int:
    """Bytes that a rank sends for a collective, as `xlac.spmd.cost.sent`."""
    size, held = len(one.members), one.sent * one.dtype.nbytes
    parts = {"all_reduce": 2 * held * (size - 1) // size, "all_gather": held * (size - 1)}
    if one.kind in ("reduce_scatter", "all_to_all"):
        return held * (size - 1) // size
    return parts.get(one.kind, 0 if one.kind == "axis_index" else held)


@dataclass(frozen=True, slots=True)
class PredictedStep:
    """Seconds of a step, of its computation, of its wire, and of the wire that is not hidden."""

    step: float
    compute: float
    wire: float
    exposed: float


def predicted(
    events: Sequence[Event], began: float, ended: float, latency: float, rate: float
) -> PredictedStep:
    """What a link makes of a step that was recorded where messages cost little: computation takes
    as long as there, and messages follow each other over the link, each latency + bytes / rate from
    when it is started and the link is free.
    """
    clock, free, wire, exposed = 0.0, 0.0, 0.0, 0.0
    before, arrives = began, dict[int, float]()
    for event in events:
        clock += event.began - before
        before = event.ended
        if event.starts:
            needs = latency + event.nbytes / rate
            free = max(free, clock) + needs
            wire += needs
            arrives[event.number] = free
        else:
            late = max(0.0, arrives[event.number] - clock)
            exposed += late
            clock += late
    clock += ended - before
    return PredictedStep(clock, clock - exposed, wire, exposed)
