"""What ranks do alike, or one after the other, so that none waits for one that has failed."""

from __future__ import annotations

from collections.abc import Callable

from xlac.ranks.program import RankProgram
from xlac.runtime.compiled import Compiled
from xlac_sdk.backend import Backend
from xlac_sdk.host.ranks.communicator import Communicator
from xlac_sdk.host.registry import find
from xlac_sdk.source import Diagnostic, UnsupportedError

FAILED, DONE = b"!", b"."

ReadyProgram = tuple[RankProgram, Compiled]


class ReportedElsewhereError(Exception):
    """Rank 0 has failed, and reports why; this rank ends without a word."""


def backend_of(here: Communicator, target: str) -> Backend:
    """The backend of a rank. Where a machine has several devices of a kind, each of its ranks has
    its own, unless the target names one. Raises UnsupportedError where there are fewer.
    """
    backend = find(target)
    return backend if ":" in target else backend.on_rank(here.local)


def by_rank_0(here: Communicator, what: str, work: Callable[[], bytes | None]) -> bytes:
    """Work that rank 0 alone does; its result on every rank. `what` completes "waits for rank 0 to"
    in messages. Raises, on rank 0, the error of the work; on the others ReportedElsewhereError
    then.
    """
    awaited = f"rank 0 to {what}"
    if here.rank == 0:
        try:
            with here.working(what):
                made = work()
        except BaseException:
            here.broadcast(FAILED, awaited)
            raise
        return here.broadcast(DONE + (made or b""), awaited)[1:]
    told = here.broadcast(b"", awaited)
    if told == FAILED:
        raise ReportedElsewhereError
    return told[1:]


def rank_0_first(here: Communicator, work: Callable[[], ReadyProgram]) -> ReadyProgram:
    """The program of every rank, made on rank 0 first: what it compiles the others take from the
    cache. Raises as `by_rank_0`, and UnsupportedError where ranks would run different programs.
    """
    ready: list[ReadyProgram] = []

    def first() -> bytes:
        ready.append(work())
        return ready[0][0].digest.encode()

    digest = by_rank_0(here, "compile", first).decode()
    if not ready:
        with here.working("load what rank 0 has compiled"):
            ready.append(work())
    program, compiled = ready[0]
    if program.digest != digest:
        problem = f"rank {here.rank} has another plan than rank 0: other files, or another xlac"
        raise UnsupportedError(Diagnostic("XL7809", problem))
    here.settle()
    return program, compiled
