"""The collectives of one program on a GPU: started and done in streams, watched by the host."""

from __future__ import annotations

import ctypes
import time
from collections import deque
from dataclasses import dataclass

from xlac_cuda.device.gpu import Gpu
from xlac_cuda.plan import Arrays, ExchangeDone, ExchangeStart
from xlac_cuda.ranks.groups import MOMENT, RankGroups, groups_of
from xlac_cuda.ranks.nccl import OPERATIONS, TYPES
from xlac_sdk.dtypes import DType
from xlac_sdk.host.ranks.communicator import Communicator, PreparedExchange, current, prepared
from xlac_sdk.programs.program import Program

MOST_UNDER_WAY = 64  # collectives that the host is ahead of, at most


@dataclass(frozen=True, slots=True)
class NcclElements:
    """A number of elements of a type of NCCL."""

    count: int
    type: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A collective that the host has submitted: events that tell when its operands were ready, and
    when its results had arrived.
    """

    name: str
    communicator: int
    ready: int
    arrived: int


class RankExchanges:
    """Collectives by NCCL, in a stream of their own: that waits for the program's stream where a
    collective starts, and is waited for where it is done, so that kernels between run meanwhile.
    The context must be current in every method.
    """

    def __init__(self, gpu: Gpu, here: Communicator, every: list[PreparedExchange]) -> None:
        """For a program's exchanges. NCCL's groups are made when the ranks settle."""
        self._gpu, self._groups = gpu, groups_of(here, gpu)
        self._prepared = {one.number: one for one in every}
        self._open: dict[int, int] = {}  # the event of a collective that is not done, by number
        self._under_way: deque[UnderWay] = deque()
        self._free: list[int] = []  # events
        here.when_settled(self._settle)

    @staticmethod
    def of(program: Program, gpu: Gpu) -> RankExchanges | None:
        """Those of a program; None where it has none. Raises UnsupportedError without NCCL, or
        where the process is alone.
        """
        every, here = prepared(program), current()
        return RankExchanges(gpu, here, every) if every and here is not None else None

    def _settle(self) -> None:
        moving = [one for one in self._prepared.values() if one.kind != "axis_index"]
        with self._gpu.current():
            self._groups.join([(one.members, one.own) for one in moving])

    def start(self, step: ExchangeStart, arrays: Arrays, stream: int) -> None:
        """Submits a collective, after what the stream has so far."""
        one, groups = self._prepared[step.number], self._groups
        source, target = step.source.at(arrays), step.target.at(arrays)
        if one.kind == "axis_index":
            own = ctypes.c_int32(one.own)
            self._gpu.upload(target, ctypes.addressof(own), 4, stream)
            return
        if len(self._under_way) == MOST_UNDER_WAY:
            self._wait_for_oldest()
        communicator = groups.of(one.members)
        flight = UnderWay(one.name or one.kind, communicator, self._event(), self._event())
        self._gpu.record(flight.ready, stream)
        self._gpu.wait(groups.stream, flight.ready)
        if max(one.sent, one.received):
            submit(groups, one, communicator, source, target)
            groups.settled(communicator, flight.name)
        self._gpu.record(flight.arrived, groups.stream)
        self._open[step.number] = flight.arrived
        self._under_way.append(flight)

    def done(self, step: ExchangeDone, stream: int) -> None:
        """Makes later work of the stream wait until a collective's results have arrived."""
        if step.number in self._open:
            self._gpu.wait(stream, self._open.pop(step.number))

    def wait(self) -> None:
        """Waits for all collectives so far, so that the host waits for none without a limit."""
        while self._under_way:
            self._wait_for_oldest()

    def _wait_for_oldest(self) -> None:
        """Waits for a collective. Time counts from when its operands are ready, as kernels before
        may take long. Ends all ranks where it fails, or is late.
        """
        flight, began = self._under_way[0], None
        while not self._gpu.has_reached(flight.arrived):
            self._groups.check(flight.communicator, flight.name)
            if began is None and self._gpu.has_reached(flight.ready):
                began = time.monotonic()
            if began is not None:
                self._groups.check_limit(flight.name, time.monotonic() - began)
            time.sleep(MOMENT)
        if began is not None:
            self._groups.here.overdue("", 0.0)
        self._under_way.popleft()
        self._free += (flight.ready, flight.arrived)

    def _event(self) -> int:
        return self._free.pop() if self._free else self._gpu.event()

    def close(self) -> None:
        """Gives the events back."""
        for flight in self._under_way:
            self._free += (flight.ready, flight.arrived)
        self._under_way.clear()
        while self._free:
            self._gpu.drop_event(self._free.pop())


def submit(
    groups: RankGroups, one: PreparedExchange, communicator: int, source: int, target: int
) -> None:
    """Calls NCCL for one collective, in the stream of the groups."""
    nccl, where = groups.nccl, (communicator, groups.stream)
    sent, received = elements(one, one.sent), elements(one, one.received)
    match one.kind:
        case "all_reduce":
            operation = OPERATIONS[one.combine]
            nccl("ncclAllReduce", source, target, sent.count, sent.type, operation, *where)
        case "reduce_scatter":
            count, operation = received.count, OPERATIONS["add"]
            nccl("ncclReduceScatter", source, target, count, sent.type, operation, *where)
        case "all_gather":
            nccl("ncclAllGather", source, target, sent.count, sent.type, *where)
        case "broadcast":
            nccl("ncclBroadcast", source, target, sent.count, sent.type, one.root, *where)
        case "all_to_all":
            part = elements(one, one.sent // len(one.members))
            places = {
                peer: (source + peer * part.nbytes, target + peer * part.nbytes)
                for peer in range(len(one.members))
            }
            _between(groups, one, communicator, part, places)
        case "permute":
            _permute(groups, one, communicator, source, target)


def _permute(
    groups: RankGroups, one: PreparedExchange, communicator: int, source: int, target: int
) -> None:
    """Sends to one rank and receives from one; zeros arrive where nobody sends."""
    whole = elements(one, one.received)
    giver = next((s for s, t in one.pairs if t == one.own), None)
    taker = next((t for s, t in one.pairs if s == one.own), None)
    if giver is None:
        groups.gpu.clear(target, whole.nbytes, groups.stream)
    given = {} if taker is None else {taker: source}
    taken = {} if giver is None else {giver: target}
    peers = {n: (given.get(n, 0), taken.get(n, 0)) for n in dict.fromkeys((*given, *taken))}
    _between(groups, one, communicator, whole, peers)


def _between(
    groups: RankGroups,
    one: PreparedExchange,
    communicator: int,
    part: NcclElements,
    peers: dict[int, tuple[int, int]],
) -> None:
    """Sends to and receives from some ranks at once: by number, where what is sent begins, and
    where what is received goes; 0 for nothing. What a rank sends to itself is copied.
    """
    nccl, stream = groups.nccl, groups.stream
    if one.own in peers:
        source, target = peers.pop(one.own)
        groups.gpu.move(target, source, part.nbytes, stream)
    if not peers:
        return
    nccl("ncclGroupStart")
    try:
        for peer, (source, target) in peers.items():
            about = (part.count, part.type, peer, communicator, stream)
            if source:
                nccl("ncclSend", source, *about)
            if target:
                nccl("ncclRecv", target, *about)
    finally:
        nccl("ncclGroupEnd")


def elements(one: PreparedExchange, count: int) -> NcclElements:
    """Some elements of an exchange as NCCL has them: types that it lacks are moved as bytes."""
    nbytes = count * one.dtype.nbytes
    if one.dtype in TYPES:
        return NcclElements(count, TYPES[one.dtype], nbytes)
    assert one.kind not in ("all_reduce", "reduce_scatter"), f"NCCL combines no {one.dtype}"
    return NcclElements(nbytes, TYPES[DType.U8], nbytes)
