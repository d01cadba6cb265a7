"""Blocks that share a result: the last one to arrive combines all partial results, so that no
second launch is needed.

A counter for each result tells a block how many have arrived before it. It is zero initially, and
is reset by the last block, so it is zero for every launch. Which block is the last differs from
call to call; what it adds, and in which order, does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xlac.codegen.core.elements import Elements
from xlac.codegen.core.lowered_group import Scratch
from xlac.codegen.gpu.core.grid import GridThread
from xlac.ir.dims import Dim
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Const, Expr, Instruction, Let, Store, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive
U32 = DType.U32
FENCE, TICKET = "memory.fence", "grid.arrive"


def has_tickets(target: Target) -> bool:
    """Whether a target has the atomic counter by which blocks find out which is the last."""
    return {FENCE, TICKET} <= target.instructions


def fence() -> Instruction:
    """A memory fence: writes before it are visible to threads that see writes after it, and reads
    after it see what other threads wrote before the writes it has observed.
    """
    return Instruction(FENCE, (), ())


def ticket(counters: Buffer, at: Expr, count: Expr, last: Buffer) -> Instruction:
    """Atomically counts a thread's arrival; `last` is 1 for the last of `count`, which resets the
    counter to zero.
    """
    taken = Var("ticket_taken", U32)
    is_last = build.apply(P.EQ, build.apply(P.ADD, taken, Const(1, U32)), count)
    meaning = (
        Let(taken, build.load(counters, at)),
        Store(last, build.index(0), build.select(is_last, Const(1, U32), Const(0, U32))),
        Store(
            counters,
            at,
            build.select(is_last, Const(0, U32), build.apply(P.ADD, taken, Const(1, U32))),
        ),
    )
    return Instruction(TICKET, (counters, at, count, last), meaning)


@contextmanager
def last(
    elements: Elements, here: GridThread, result: Expr, results: Dim, parts: Dim
) -> Iterator[None]:
    """A scope executed by the last block of those that share a result (a number below `results`).
    Every thread of the block must execute this; those that stored partial results must have
    executed a fence.
    """
    builder = elements.builder
    counters = elements.parameter(Scratch(U32, results, "tickets", persistent=True), Access.UPDATE)
    flag = here.shared("last", U32, 1)
    builder.barrier()
    with builder.when(build.apply(P.EQ, here.thread, build.index(0))):
        count = Const(parts, U32) if isinstance(parts, int) else build.cast(build.lift(parts), U32)
        builder.emit(ticket(counters, result, count, flag))
    builder.barrier()
    with builder.when(build.apply(P.NE, build.load(flag, build.index(0)), Const(0, U32))):
        builder.emit(fence())
        yield
