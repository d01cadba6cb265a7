"""Ranks that are processes, started by mpirun (or srun, or another launcher of MPI)."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from xlac_sdk.dtypes import Array, DType
from xlac_sdk.host import tool
from xlac_sdk.host.ranks.communicator import DeferredWork, PreparedExchange
from xlac_sdk.programs.exchange_checks import COMBINE, KINDS
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.support.hashing import blake2b

SOURCE = Path(__file__).with_name("mpi.c")
INCLUDED = Path(__file__).with_name("mpi_waiting.h")
FLOATS = (DType.F64, DType.F32)
INTEGERS = (DType.I64, DType.I32, DType.I16, DType.I8, DType.U64, DType.U32, DType.U16, DType.U8)
TYPES = (*FLOATS, *INTEGERS, DType.F16, DType.BOOL)
"""Element types, by their numbers in mpi.c; bf16 is moved as f16."""

LARGEST = 2**31 - 1  # elements of one message
LIMIT = 600.0  # seconds that a rank waits for others
PIECE = 1 << 26  # bytes of one message of the host
FAILED = 70  # the exit code of XL7807
LAUNCHED = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "SLURM_NTASKS")
"""Variables by which launchers tell a process that it is a rank."""


def launched() -> bool:
    """Whether a launcher of MPI started this process."""
    return any(name in os.environ for name in LAUNCHED)


def library(folder: Path) -> Path:
    """The library of functions, built by mpicc into a folder where it is not there yet. Raises
    UnsupportedError without mpicc, or where it fails.
    """
    compiler = os.environ.get("MPICC") or shutil.which("mpicc")
    if compiler is None:
        problem = "mpicc is not installed, which builds xlac's calls of MPI"
        hint = "Debian: apt install openmpi-bin libopenmpi-dev; MPICC names another compiler"
        raise UnsupportedError(Diagnostic("XL7808", problem, hint=hint))
    text = SOURCE.read_bytes() + INCLUDED.read_bytes()
    stamp = f"{Path(compiler).resolve()}\n{_version(compiler)}\n".encode()
    library = folder / f"libxlac_mpi-{blake2b(stamp + text, digest_size=12).hexdigest()}.so"
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as room:
            own = Path(room) / library.name
            command = (compiler, "-O2", "-shared", "-fPIC", "-pthread", "-o", str(own), str(SOURCE))
            if problem := tool.run(command):
                raise UnsupportedError(Diagnostic("XL7808", f"{compiler} fails: {problem}"))
            own.replace(library)
    return library


def _version(compiler: str) -> str:
    """What distinguishes one MPI from another that has the same compiler's name."""
    try:
        return str(Path(compiler).resolve().stat().st_mtime_ns)
    except OSError:
        return ""


class MpiRank(DeferredWork):
    """This process as a rank, which waits for others `limit` seconds, or without end; `close` ends
    MPI where this process began it.
    """

    def __init__(self, functions: ctypes.CDLL, limit: float | None = LIMIT) -> None:
        super().__init__()
        self._functions = functions
        rank, size = ctypes.c_int32(), ctypes.c_int32()
        waits = ctypes.c_double(limit or 0.0)
        self._owns = bool(functions.xlac_mpi_open(ctypes.byref(rank), ctypes.byref(size), waits))
        self.rank, self.size = rank.value, size.value
        self.local = int(functions.xlac_mpi_local())
        self._groups: dict[tuple[int, ...], int] = {}
        functions.xlac_mpi_group.restype = ctypes.c_int64
        functions.xlac_mpi_table.restype = ctypes.c_void_p
        functions.xlac_mpi_message.restype = ctypes.c_int64

    def close(self) -> None:
        """Ends MPI, once all ranks are done."""
        super().close()
        if self._owns:
            self._functions.xlac_mpi_close()

    def limit(self, seconds: float | None) -> None:
        """How long this rank waits for others, in a collective of a program, for what rank 0 does,
        and to begin and to end together, before it asks who is missing, says so and ends all; None:
        without end.
        """
        self._functions.xlac_mpi_limit(ctypes.c_double(seconds or 0.0))

    def abort(self, code: int) -> None:
        """Ends all ranks, with an exit code."""
        self._functions.xlac_mpi_abort(ctypes.c_int32(code))

    def table(self, prepared: Sequence[PreparedExchange]) -> MpiTable:
        """The functions for a program's exchanges, once they are settled. Raises UnsupportedError
        for messages that MPI cannot send at once.
        """
        for one in prepared:
            if max(one.sent, one.received) > LARGEST:
                problem = f"collective '{one.name}' has {max(one.sent, one.received):,} elements"
                raise UnsupportedError(Diagnostic("XL7806", f"{problem}; MPI sends 2^31 - 1"))
        table = MpiTable(self._functions, prepared)
        self.when_settled(lambda: table.settle(lambda one: self._group(one.members, one.own)))
        return table

    def _group(self, members: tuple[int, ...], own: int) -> int:
        """The communicator of a group; all ranks make theirs in the same order."""
        if members not in self._groups:
            group = self._functions.xlac_mpi_group(min(members), own)
            self._groups[members] = int(group)
        return self._groups[members]

    def broadcast(self, data: bytes, what: str = "a message of rank 0") -> bytes:
        """What rank 0 gives, on every rank; `what` says in messages for what they wait."""
        count, name = ctypes.c_int64(len(data)), what.encode()
        self._functions.xlac_mpi_broadcast(ctypes.byref(count), 8, name)
        block = ctypes.create_string_buffer(data if self.rank == 0 else b"", count.value or 1)
        for start in range(0, count.value, PIECE):
            part = ctypes.byref(block, start)
            size = min(PIECE, count.value - start)
            self._functions.xlac_mpi_broadcast(part, size, name)
        return block.raw[: count.value]

    def gather(self, array: Array) -> list[Array] | None:
        """The arrays of all ranks, of one shape and dtype, on rank 0; None on the others."""
        own = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        every = np.empty((self.size, own.size), np.uint8) if self.rank == 0 else None
        for start in range(0, own.size, PIECE):
            part = np.ascontiguousarray(own[start : start + PIECE])
            parts = np.empty((self.size, part.size), np.uint8) if self.rank == 0 else None
            target = None if parts is None else parts.ctypes.data_as(ctypes.c_void_p)
            source = part.ctypes.data_as(ctypes.c_void_p)
            self._functions.xlac_mpi_gather(source, part.size, target)
            if every is not None and parts is not None:
                every[:, start : start + PIECE] = parts
        return None if every is None else [e.view(array.dtype).reshape(array.shape) for e in every]

    def overdue(self, name: str, waited: float) -> bool:
        """Whether this rank, or one that waits in the same collective, has waited too long; answers
        those that ask where it is. An empty name: it waits no more.
        """
        return bool(self._functions.xlac_mpi_overdue(name.encode(), ctypes.c_double(waited)))

    def late(self, name: str, waited: float) -> NoReturn:
        """Says which ranks are missing in a collective, and ends all."""
        self._functions.xlac_mpi_late(name.encode(), ctypes.c_double(waited))
        raise AssertionError("MPI_Abort returned")

    def fail(self, name: str, problem: str) -> NoReturn:
        """Ends all ranks, with a message: a collective has failed."""
        text = f"error: rank {self.rank}, collective '{name}': {problem} [XL7807]"
        print(text, file=sys.stderr, flush=True)
        self.abort(FAILED)
        raise AssertionError("MPI_Abort returned")

    def groups(self, members: Sequence[tuple[int, ...]]) -> None:
        """Makes this rank's groups, before tables that use them; every rank calls it with as many,
        its own of each kind.
        """
        for one in members:
            self._group(one, one.index(self.rank))

    def send(self, block: Array, rank: int, tag: int, what: str) -> MpiMessage:
        """Begins to send bytes to a rank."""
        return MpiMessage(self._functions, block, rank, tag, True, what)

    def receive(self, block: Array, rank: int, tag: int, what: str) -> MpiMessage:
        """Begins to receive bytes that a rank sends."""
        return MpiMessage(self._functions, block, rank, tag, False, what)

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """A block in which this rank does something for which others wait, and calls none of these
        functions: the others are told every second that it lives, where MPI lets a second thread
        do that, and their limit counts from then.
        """
        self._functions.xlac_mpi_work(what.encode())
        try:
            yield
        finally:
            self._functions.xlac_mpi_work(None)

    def meet(self, seconds: float) -> bool:
        """Whether all ranks call this within some seconds; where not, only `abort` may follow."""
        return bool(self._functions.xlac_mpi_meet(ctypes.c_double(seconds)))


class MpiTable:
    """A table of MPI's functions for a program; freed with it."""

    def __init__(self, functions: Any, prepared: Sequence[PreparedExchange]) -> None:
        self._functions, self._prepared = functions, prepared
        self.address = int(functions.xlac_mpi_table(ctypes.c_int64(1 + prepared[-1].number)))
        self._names = [one.name.encode() for one in prepared]  # the table refers to them

    def settle(self, group_of: Callable[[PreparedExchange], int]) -> None:
        """Describes the exchanges, with their groups."""
        for one, name in zip(self._prepared, self._names, strict=True):
            source = next((s for s, t in one.pairs if t == one.own), -1)
            target = next((t for s, t in one.pairs if s == one.own), -1)
            about = (ctypes.c_int32 * 8)(
                KINDS.index(one.kind),
                _type(one.dtype),
                COMBINE.index(one.combine),
                one.own,
                len(one.members),
                one.root,
                source,
                target,
            )
            self._functions.xlac_mpi_exchange(
                ctypes.c_void_p(self.address),
                ctypes.c_int64(one.number),
                about,
                ctypes.c_int64(one.sent),
                ctypes.c_int64(one.received),
                ctypes.c_int64(group_of(one)),
                name,
            )

    def __del__(self) -> None:
        self._functions.xlac_mpi_free(ctypes.c_void_p(self.address))


class MpiMessage:
    """A message between two ranks that is under way, and whose memory it keeps until it is over."""

    def __init__(
        self, functions: Any, block: Array, rank: int, tag: int, sends: bool, what: str
    ) -> None:
        self._functions, self._block, self._what = functions, block, what.encode()
        self._message = int(
            functions.xlac_mpi_message(
                ctypes.c_void_p(block.ctypes.data),
                ctypes.c_int64(block.size),
                ctypes.c_int32(rank),
                ctypes.c_int32(tag),
                ctypes.c_int32(sends),
                self._what,
            )
        )

    def done(self) -> bool:
        """Whether its memory may be used, without waiting."""
        return bool(self._functions.xlac_mpi_done(ctypes.c_int64(self._message), self._what))

    def over(self) -> None:
        """Waits until its memory may be used; the last call."""
        self._functions.xlac_mpi_over(ctypes.c_int64(self._message), self._what)


def _type(dtype: DType) -> int:
    return TYPES.index(DType.F16 if dtype is DType.BF16 else dtype)


def opened(folder: Path, limit: float | None = LIMIT) -> MpiRank:
    """This process as a rank of MPI. Raises UnsupportedError as `library`."""
    return MpiRank(ctypes.CDLL(str(library(folder)), mode=ctypes.RTLD_GLOBAL), limit)
