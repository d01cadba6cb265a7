"""Ranks as threads of one process, for tests: collectives in NumPy."""

from __future__ import annotations

import ctypes
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from threading import Barrier, BrokenBarrierError, Condition, Thread
from typing import Any, NoReturn, TypeVar

import numpy as np

from xlac_sdk.dtypes import Array
from xlac_sdk.host.ranks.communicator import (
    DONE,
    START,
    DeferredWork,
    ExchangeTable,
    PreparedExchange,
    using,
)

Result = TypeVar("Result")

TIMEOUT = 600  # seconds: a busy machine compiles long

TOGETHER: dict[str, Callable[..., Any]] = {
    "add": np.add.reduce,
    "mul": np.multiply.reduce,
    "max": np.maximum.reduce,
    "min": np.minimum.reduce,
}


def received(one: PreparedExchange, sent: Sequence[Array]) -> Array:
    """What a rank receives, from what every rank of its group sends, in order."""
    match one.kind:
        case "all_reduce":
            return np.asarray(TOGETHER[one.combine](list(sent)))
        case "reduce_scatter":
            return np.asarray(np.split(np.add.reduce(list(sent)), len(sent))[one.own])
        case "all_gather":
            return np.concatenate(list(sent))
        case "all_to_all":
            return np.concatenate([np.split(part, len(sent))[one.own] for part in sent])
        case "broadcast":
            return sent[one.root]
        case "permute":
            source = next((s for s, t in one.pairs if t == one.own), None)
            return np.zeros_like(sent[0]) if source is None else sent[source]
    return np.asarray([one.own], np.int32)


class ThreadRanks:
    """What the threads share: a board on which each puts what it sends."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.board: list[Array | None] = [None] * size
        self.barrier = Barrier(size, timeout=TIMEOUT)
        self.lock = Condition()
        self.boards: dict[tuple[int, ...], tuple[list[Array | None], Barrier]] = {}
        # by source, target and tag
        self.sent: defaultdict[tuple[int, int, int], deque[Array]] = defaultdict(deque)

    def board_of(self, members: tuple[int, ...]) -> tuple[list[Array | None], Barrier]:
        """The board of a group of ranks."""
        with self.lock:
            if members not in self.boards:
                barrier = Barrier(len(members), timeout=TIMEOUT)
                self.boards[members] = ([None] * len(members), barrier)
            return self.boards[members]

    def abort(self) -> None:
        """Ends the waiting of all ranks."""
        with self.lock:
            self.barrier.abort()
            for _, barrier in self.boards.values():
                barrier.abort()
            self.lock.notify_all()


class ThreadRank(DeferredWork):
    """One of the ranks."""

    def __init__(self, ranks: ThreadRanks, rank: int) -> None:
        super().__init__()
        self.ranks, self.rank, self.size, self.local = ranks, rank, ranks.size, rank
        self.limit: float | None = None  # seconds that it waits in a library's collective

    def table(self, prepared: Sequence[PreparedExchange]) -> ThreadTable:
        """The functions of this rank."""
        return ThreadTable(self, prepared)

    def overdue(self, name: str, waited: float) -> bool:
        """Whether it has waited longer than its limit."""
        return self.limit is not None and waited > self.limit

    def late(self, name: str, waited: float) -> NoReturn:
        """Ends this rank, and by that the others."""
        raise RuntimeError(f"rank {self.rank} has waited too long in collective '{name}'")

    def fail(self, name: str, problem: str) -> NoReturn:
        """Ends this rank, and by that the others."""
        raise RuntimeError(f"rank {self.rank}, collective '{name}': {problem}")

    def broadcast(self, data: bytes, what: str = "") -> bytes:
        """What rank 0 gives, on every rank."""
        first = self.exchanged(np.frombuffer(data, np.uint8))[0]
        return bytes(first)

    def working(self, what: str) -> AbstractContextManager[None]:
        """Nothing: threads that work live."""
        return nullcontext()

    def gather(self, array: Array) -> list[Array] | None:
        """The arrays of all ranks on rank 0; None on the others."""
        every = self.exchanged(np.array(array))
        return None if self.rank else every

    def exchanged(self, array: Array) -> list[Array]:
        """What every rank gives, in order."""
        return self._exchanged(array, self.rank, self.ranks.board, self.ranks.barrier)

    def exchanged_among(self, array: Array, members: tuple[int, ...], own: int) -> list[Array]:
        """What every rank of a group gives, in the order of the group."""
        if len(members) == self.size and members == tuple(range(self.size)):
            return self.exchanged(array)
        return self._exchanged(array, own, *self.ranks.board_of(members))

    def _exchanged(
        self, array: Array, own: int, board: list[Array | None], barrier: Barrier
    ) -> list[Array]:
        board[own] = array
        barrier.wait()
        every = [part for part in board if part is not None]
        barrier.wait()
        return every

    def groups(self, members: Sequence[tuple[int, ...]]) -> None:
        """Nothing: groups are made where they are needed."""

    def send(self, block: Array, rank: int, tag: int, what: str) -> ThreadMessage:
        """Puts a copy where the other rank finds it."""
        with self.ranks.lock:
            self.ranks.sent[self.rank, rank, tag].append(block.copy())
            self.ranks.lock.notify_all()
        return ThreadMessage(self.ranks)

    def receive(self, block: Array, rank: int, tag: int, what: str) -> ThreadMessage:
        """Waits in `over`."""
        return ThreadMessage(self.ranks, (rank, self.rank, tag), block)


@dataclass(frozen=True, slots=True)
class ThreadMessage:
    """A message that was sent; or one to be received, by its source, target and tag."""

    ranks: ThreadRanks
    key: tuple[int, int, int] | None = None
    block: Array | None = None

    def done(self) -> bool:
        """Whether it was sent; what is received is waited for."""
        return self.key is None

    def over(self) -> None:
        """Waits for a message that is to be received. Raises BrokenBarrierError where a rank has
        ended.
        """
        if self.key is None or self.block is None:
            return
        ranks, key = self.ranks, self.key
        with ranks.lock:
            ranks.lock.wait_for(lambda: ranks.sent[key] or ranks.barrier.broken, TIMEOUT)
            if not ranks.sent[key]:
                raise BrokenBarrierError
            self.block[:] = ranks.sent[key].popleft()


class ThreadTable:
    """Functions that exchange through the board; a start is done when it returns."""

    def __init__(self, rank: ThreadRank, prepared: Sequence[PreparedExchange]) -> None:
        self.rank, self.prepared = rank, {one.number: one for one in prepared}
        self._table = ExchangeTable(START(self._start), DONE(self._done))
        self.address = ctypes.addressof(self._table)

    def _start(self, table: int, number: int, source: int, target: int) -> None:
        one = self.prepared[number]
        own = _array(source, one, one.sent).copy()
        every = self.rank.exchanged_among(own, one.members, one.own)
        _array(target, one, one.received)[:] = received(one, every)

    def _done(self, table: int, number: int) -> None:
        """Nothing: it has arrived."""


def _array(address: int, one: PreparedExchange, count: int) -> Array:
    kind = one.dtype.numpy
    block = (ctypes.c_uint8 * (count * kind.itemsize)).from_address(address)
    return np.frombuffer(memoryview(block), np.uint8).view(kind)


def together(size: int, run: Callable[[ThreadRank], Result]) -> list[Result]:
    """Runs a function on every rank at once, and gives the results in order. Raises the error
    of the first rank that failed by itself.
    """
    ranks = ThreadRanks(size)
    results: dict[int, Result] = {}
    errors: dict[int, BaseException] = {}

    def one(rank: int) -> None:
        try:
            own = ThreadRank(ranks, rank)
            with using(own):
                results[rank] = run(own)
                own.close()
        except BaseException as error:
            errors[rank] = error
            ranks.abort()

    threads = [Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:  # those of ranks that waited for one that failed say nothing
        first = sorted(
            errors, key=lambda rank: (isinstance(errors[rank], BrokenBarrierError), rank)
        )
        raise errors[first[0]]
    return [results[rank] for rank in range(size)]
