"""What carries collectives between the ranks of a mesh, as backends see it.

A program with collectives is loaded while a `Communicator` is current. It prepares the program's
exchanges, each with its number, and gives a table of two C functions that generated code calls:

    struct table { void (*start)(struct table *, int64_t number, const void *source, void *target);
                   void (*done)(struct table *, int64_t number); };

A backend whose device has a library of collectives of its own, as GPUs have NCCL, exchanges values
by that, and has the communicator bring its ranks together and watch over them.

A failed exchange ends the process, with a message, and those of all other ranks.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import prod
from typing import Any, NoReturn, Protocol

from xlac_sdk.dims import Dim
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.programs.exchange_checks import MESH
from xlac_sdk.programs.program import Program, exchanges
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.support.counts import number_of

START = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
DONE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


class ExchangeTable(ctypes.Structure):
    """The two functions."""

    _fields_ = (("start", START), ("done", DONE))


@dataclass(frozen=True, slots=True)
class PreparedExchange:
    """One exchange for one rank: its group, as the ranks in it in order, and its own number there;
    elements sent and received.
    """

    number: int
    kind: str
    dtype: DType
    combine: str
    members: tuple[int, ...]
    own: int
    root: int
    pairs: tuple[tuple[int, int], ...]
    sent: int
    received: int
    name: str


class PendingMessage(Protocol):
    """A message between two ranks that is under way."""

    def done(self) -> bool:
        """Whether its memory may be used, without waiting."""

    def over(self) -> None:
        """Waits until its memory may be used; the last call."""


class Communicator(Protocol):
    """The ranks of this run. But for `table`, `send` and `receive`, every rank calls the same
    functions in one order.
    """

    rank: int
    size: int
    local: int
    """This rank's number among those of its machine, which share its devices."""

    def table(self, prepared: Sequence[PreparedExchange]) -> Any:
        """An object that owns an ExchangeTable for these exchanges, with its `address`."""

    def settle(self) -> None:
        """Makes all tables so far usable, on every rank after it made as many of them."""

    def when_settled(self, work: Callable[[], None]) -> None:
        """Has `settle` do what all ranks do together, in the order of these calls."""

    def when_closed(self, work: Callable[[], None]) -> None:
        """Has work done together when the ranks end, the last that was asked for first."""

    def broadcast(self, data: bytes, what: str = ...) -> bytes:
        """What rank 0 gives, on every rank; `what` says in messages for what they wait."""

    def working(self, what: str) -> AbstractContextManager[None]:
        """A block in which this rank alone does something for which others wait."""

    def gather(self, array: Array) -> list[Array] | None:
        """The arrays of all ranks, of one shape and dtype, on rank 0; None on the others."""

    def overdue(self, name: str, waited: float) -> bool:
        """Called again and again while a library of a device carries a collective for which this
        rank has waited some seconds: whether that is too long, for it or for one that waits too.
        """

    def late(self, name: str, waited: float) -> NoReturn:
        """Ends all ranks, with a message: one has waited too long in a collective."""

    def fail(self, name: str, problem: str) -> NoReturn:
        """Ends all ranks, with a message: a collective has failed."""

    def groups(self, members: Sequence[tuple[int, ...]]) -> None:
        """Makes this rank's groups, before tables that use them; every rank calls it with as many,
        its own of each kind. So ranks may have programs with other exchanges than one another.
        """

    def send(self, block: Array, rank: int, tag: int, what: str) -> PendingMessage:
        """Begins to send bytes (u8, contiguous, which stay as they are until it is over) to a rank.
        `what` says in messages what is waited for.
        """

    def receive(self, block: Array, rank: int, tag: int, what: str) -> PendingMessage:
        """Begins to receive bytes that a rank sends with the same tag, which nothing else under way
        between the two has.
        """


class DeferredWork:
    """What all ranks do together later: when tables are settled, and when the ranks end."""

    def __init__(self) -> None:
        self._unsettled: list[Callable[[], None]] = []
        self._closing: list[Callable[[], None]] = []

    def when_settled(self, work: Callable[[], None]) -> None:
        """Has `settle` do what all ranks do together, in the order of these calls."""
        self._unsettled.append(work)

    def settle(self) -> None:
        """Makes all tables so far usable. Every rank calls it, after it made as many tables, and
        before it calls a program.
        """
        for work in self._unsettled:
            work()
        self._unsettled.clear()

    def when_closed(self, work: Callable[[], None]) -> None:
        """Has `close` do something first, the last that was asked for first."""
        self._closing.append(work)

    def close(self) -> None:
        """Does what was asked for the end."""
        while self._closing:
            self._closing.pop()()


_current: ContextVar[Communicator | None] = ContextVar("communicator", default=None)


def current() -> Communicator | None:
    """The communicator of this process, or thread; None in a process that is alone."""
    return _current.get()


@contextmanager
def using(communicator: Communicator) -> Iterator[None]:
    """Programs that are loaded inside use a communicator."""
    token = _current.set(communicator)
    try:
        yield
    finally:
        _current.reset(token)


def group_of(
    mesh: Sequence[tuple[str, int]], axes: Sequence[str], rank: int
) -> tuple[tuple[int, ...], int]:
    """The ranks of a rank's group along axes of a mesh, in order, and its own number there."""
    place, left = {}, rank
    for name, size in reversed(list(mesh)):
        place[name], left = left % size, left // size
    members = []
    sizes = dict(mesh)
    for number in range(prod(sizes[axis] for axis in axes)):
        there, rest = dict(place), number
        for axis in reversed(list(axes)):
            there[axis], rest = rest % sizes[axis], rest // sizes[axis]
        at = 0
        for name, size in mesh:
            at = at * size + there[name]
        members.append(at)
    return tuple(members), members.index(rank)


def prepared(program: Program) -> list[PreparedExchange]:
    """The exchanges of a program for the current rank. Raises UnsupportedError where the process is
    alone, or there are not as many ranks as the program is for.
    """
    mesh = [(str(name), int(size)) for name, size in program.facts.get(MESH, ())]
    steps = exchanges(program.every_step)
    if not steps:
        return []
    ranks, here = prod(size for _, size in mesh), current()
    if here is None or here.size != ranks:
        shown = ",".join(f"{name}={size}" for name, size in mesh)
        problem = f"the program is for {number_of(ranks, 'rank')}, mesh {shown}; there are "
        problem += "no others here" if here is None else f"{here.size}"
        hint = f"mpirun -n {ranks} xlac run … --mesh {shown}"
        raise UnsupportedError(Diagnostic("XL7806", problem, hint=hint))
    by_number: dict[int, PreparedExchange] = {}
    for step in steps:
        one = step.exchange
        members, own = group_of(mesh, one.axes, here.rank)
        by_number[one.number] = PreparedExchange(
            one.number,
            one.kind,
            step.target.slot.dtype,
            one.combine,
            members,
            own,
            one.root,
            one.pairs,
            _count(step.sent),
            _count(step.received),
            step.origin.name if step.origin else "",
        )
    return [by_number[number] for number in sorted(by_number)]


def _count(size: Dim) -> int:
    if not isinstance(size, int):
        raise UnsupportedError(
            Diagnostic("XL7806", f"a collective of {size} elements: sizes must be fixed")
        )
    return size


def table_of(program: Program) -> Any:
    """The table of a program's exchanges, owned by the object returned; None where it has none."""
    ready = prepared(program)
    here = current()
    return here.table(ready) if ready and here is not None else None
