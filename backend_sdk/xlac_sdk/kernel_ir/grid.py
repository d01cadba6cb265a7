"""Kernels as grids of threads: the form that GPUs run, and its rules (`lowering/spread.py` brings
other kernels into it).

    For BLOCK b in [0, N) { Allocate SHARED…; For THREAD t in [0, T) { … } }

is the whole body of such a kernel. N may depend on the kernel's sizes, T is a constant. Every
thread of a block must reach each Barrier and each Exchange, so neither may be under a condition, or
in a loop, that differs between threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xlac_sdk.kernel_ir.extent import extent
from xlac_sdk.kernel_ir.kernel import (
    Access,
    Allocate,
    Assign,
    Barrier,
    Buffer,
    Const,
    Exchange,
    Expr,
    For,
    If,
    Instruction,
    Kernel,
    Let,
    Load,
    LoopKind,
    Space,
    Stmt,
    Store,
    Var,
    statements,
)
from xlac_sdk.kernel_ir.sharing import operands, roots, walk
from xlac_sdk.source import VerifyError

ALIGN = 16  # minimal alignment of shared buffers in bytes


@dataclass(frozen=True, slots=True)
class Grid:
    """The grid of a launch: blocks (over the kernel's sizes), threads of each, and
    shared memory.
    """

    blocks: Expr
    threads: int
    shared: tuple[Buffer, ...]
    block: For
    thread: For

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory, with buffers at the offsets of `places`."""
        return max(
            (at + b.dtype.nbytes * size(b) for b, at in places(self.shared).items()), default=0
        )

    def count(self, sizes: Mapping[str, int]) -> int:
        """Blocks for given values of the kernel's sizes; 0 if there is nothing to do."""
        return max(0, extent(self.blocks, sizes))


def launched(kernel: Kernel, sizes: tuple[int, ...]) -> tuple[int, int]:
    """The blocks of a launch with these sizes, 0 if there is nothing to do, and the threads of
    each.
    """
    form = grid(kernel)
    assert form is not None, f"kernel {kernel.name} is not a grid"
    names = {var.name: size for var, size in zip(kernel.sizes, sizes, strict=True)}
    return form.count(names), form.threads


def size(buffer: Buffer) -> int:
    """Elements of a buffer that a kernel allocates."""
    assert isinstance(buffer.size, int), "what a kernel allocates has a constant size"
    return buffer.size


def places(shared: tuple[Buffer, ...]) -> dict[Buffer, int]:
    """The offset of each shared buffer in bytes, in the order of descending alignment, which
    minimizes padding.
    """
    offsets: dict[Buffer, int] = {}
    at = 0
    for buffer in sorted(shared, key=lambda b: -max(ALIGN, b.align)):
        by = max(ALIGN, buffer.align)
        at = -(-at // by) * by
        offsets[buffer] = at
        at += size(buffer) * buffer.dtype.nbytes
    return offsets


def grid(kernel: Kernel) -> Grid | None:
    """The grid of a kernel in GPU form; None for one in another form."""
    match kernel.body:
        case (
            For(
                kind=LoopKind.BLOCK,
                stop=blocks,
                body=(*allocations, For(kind=LoopKind.THREAD, stop=Const(value=threads)) as thread),
            ) as block,
        ):
            shared = tuple(a.buffer for a in allocations if isinstance(a, Allocate))
            return Grid(blocks, int(threads), shared, block, thread)
    return None


# ---- rules -----------------------------------------------------------------------------------


def check(kernel: Kernel) -> None:
    """Raises VerifyError for a kernel with blocks, threads, exchanges or shared memory that is not
    in GPU form.
    """
    form = grid(kernel)
    if form is None:
        raise _wrong(
            kernel, "is no BLOCK loop around SHARED buffers and one THREAD loop of constant length"
        )
    for loop in (form.block, form.thread):
        if loop.step != 1 or not isinstance(loop.start, Const) or loop.start.value != 0:
            raise _wrong(kernel, f"loop '{loop.counter.name}' does not count from 0 by 1")
    if form.threads < 1:
        raise _wrong(kernel, "has blocks without threads")
    for stmt in form.block.body[:-1]:
        if not isinstance(stmt, Allocate) or stmt.buffer.space is not Space.SHARED:
            raise _wrong(
                kernel, "does more in a block than allocate SHARED buffers before its threads begin"
            )
    for stmt in statements(form.thread.body):
        if isinstance(stmt, For) and stmt.kind in (
            LoopKind.BLOCK,
            LoopKind.THREAD,
            LoopKind.PARALLEL,
        ):
            raise _wrong(
                kernel,
                f"loop '{stmt.counter.name}' is {stmt.kind.value}, inside the loop of threads",
            )
        if isinstance(stmt, Allocate) and stmt.buffer.space is Space.SHARED:
            raise _wrong(kernel, f"'{stmt.buffer.name}' is SHARED but allocated by a thread")
    _Meetings(kernel, form).run()


def _wrong(kernel: Kernel, what: str) -> VerifyError:
    return VerifyError(f"kernel {kernel.name}: {what}")


class _Meetings:
    """Finds barriers and exchanges that some threads of a block might not reach.

    A name is divergent if its value may differ between threads: the thread's number, anything
    computed from a divergent value, or loaded from memory that threads of other blocks, or each
    thread itself, write too, and a variable assigned in divergent control flow. What all threads of
    a block load from one position of SHARED memory is uniform.
    """

    def __init__(self, kernel: Kernel, form: Grid) -> None:
        self.kernel, self.grid = kernel, form
        self.differ = {form.thread.counter.name}

    def run(self) -> None:
        before = 0
        while before != len(self.differ):  # a loop may pass on what its end assigns
            before = len(self.differ)
            self.block(self.grid.thread.body, False, False)
        self.block(self.grid.thread.body, False, True)

    def block(self, body: tuple[Stmt, ...], alone: bool, final: bool) -> None:
        """`alone`: control flow is divergent here; `final`: errors are reported."""
        for stmt in body:
            if final:
                self.meet(stmt, alone)
            match stmt:
                case Let(var=var, value=value) | Assign(var=var, value=value):
                    if self.differs(value) or (alone and isinstance(stmt, Assign)):
                        self.differ.add(var.name)
                case For(counter=counter, start=start, stop=stop, body=inner):
                    apart = self.differs(start) or self.differs(stop)
                    if apart:
                        self.differ.add(counter.name)
                    self.block(inner, alone or apart, final)
                case If(condition=condition, then=then, otherwise=otherwise):
                    apart = alone or self.differs(condition)
                    self.block(then, apart, final)
                    self.block(otherwise, apart, final)
                case Instruction(meaning=meaning):
                    self.block(meaning, alone, final)
                case Allocate() | Barrier() | Store():
                    pass

    def meet(self, stmt: Stmt, alone: bool) -> None:
        if isinstance(stmt, Barrier) and alone:
            raise _wrong(
                self.kernel, "a barrier stands where only some threads of a block may come"
            )
        for expr in walk(roots(stmt)):
            if not isinstance(expr, Exchange):
                continue
            if alone:
                raise _wrong(
                    self.kernel, "an exchange stands where only some threads of a block may come"
                )
            if self.grid.threads % (1 << expr.distance.bit_length()):
                raise _wrong(
                    self.kernel,
                    f"an exchange over {expr.distance} among {self.grid.threads} threads",
                )

    def differs(self, expr: Expr) -> bool:
        known: dict[int, bool] = {}
        for one in walk([expr]):
            differs = any(known[id(o)] for o in operands(one))
            match one:
                case Var(name=name):
                    differs = name in self.differ
                case Load(buffer=Buffer(space=space, access=access)):
                    differs = (
                        differs
                        or space is Space.LOCAL
                        or (space is Space.GLOBAL and access is not Access.READ)
                    )
                case Exchange():
                    differs = True
            known[id(one)] = differs
        return known[id(expr)]
