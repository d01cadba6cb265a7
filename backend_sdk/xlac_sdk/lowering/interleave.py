"""Interleaves iterations of a parallel loop: several at once, statement by statement.

A short row (a softmax of 30 elements, a norm of 256) is one long chain of dependent instructions: a
maximum, its lanes folded, exp, a sum, folded again, a quotient. A processor looks a few hundred
instructions ahead, which is two or three such rows one after the other; side by side they keep its
units busy. Results stay the same to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import (
    Allocate,
    Apply,
    Assign,
    Buffer,
    Const,
    Expr,
    Fold,
    For,
    If,
    Kernel,
    Let,
    Load,
    LoopKind,
    Prefetch,
    Space,
    Stmt,
    Store,
    Var,
    statements,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.rewrite import KernelRewriter
from xlac_sdk.kernel_ir.sharing import roots, walk
from xlac_sdk.lowering.unused_prefix import UnusedNames
from xlac_sdk.target import Target

REGISTERS = 16  # of a target: constants of exp take a dozen
BYTES = 32  # of a register: of narrower ones a row is so many that it keeps a processor busy
# the share of the registers that what the iterations read takes: of more, some are spilled
SHARE, SHARE_OF_TWO = 3 / 8, 1 / 2
LONGEST = 32  # vectors of an iteration: a longer one keeps a processor busy by itself
ROOM = 32 << 10  # bytes of a stack that all iterations take
STATEMENTS = 1024  # of all iterations that are run at once, which bounds compile time


def interleaved(kernel: Kernel, target: Target) -> Kernel:
    """A legalized kernel with iterations of its parallel loop interleaved where that pays: short
    code without branches that combines the lanes of vectors.
    """
    loop = kernel.parallel
    if loop is None or target.size:
        return kernel
    if target.vector_registers < REGISTERS or target.vector_bytes < BYTES:
        return kernel
    if loop.step != 1 or not (isinstance(loop.start, Const) and loop.start.value == 0):
        return kernel
    reads = _Reads(target)
    if not reads.known(loop.body, {loop.counter.name}, 1):
        return kernel
    count = _at_once(reads, target, loop)
    known = int(loop.stop.value) if isinstance(loop.stop, Const) else None
    if count < 2 or (known is not None and known < 2 * count):
        return kernel
    return replace(kernel, body=(_several(kernel, loop, count),))


def _at_once(reads: _Reads, target: Target, loop: For) -> int:
    """How many iterations are run at once."""
    every = [one for stmt in statements(loop.body) for one in roots(stmt)]
    if not any(isinstance(one, Fold) for one in walk(every)):
        return 1
    registers = max(1, reads.registers)
    count = int(target.vector_registers * SHARE) // registers
    if 2 * registers <= target.vector_registers * SHARE_OF_TWO:
        count = max(2, count)
    room = ROOM // max(1, reads.local_bytes)
    return min(count, room, STATEMENTS // len(list(statements(loop.body))))


@dataclass(slots=True)
class _Reads:
    """What an iteration reads that others do not: the most `registers` of one block, as it is read
    or the widest value that is computed from it, the `vectors` in all, and the bytes of its local
    buffers.
    """

    target: Target
    registers: int = 0
    vectors: int = 0
    local_bytes: int = 0

    def known(self, body: Sequence[Stmt], own: set[str], times: int) -> bool:
        """Counts a block that runs `times`; whether it is short, and has no control flow but loops
        of known length. `own` are names whose values differ between iterations.
        """
        here = widest = 0
        for stmt in body:
            match stmt:
                case For(start=Const(value=start), stop=Const(value=stop), kind=LoopKind.SERIAL):
                    turns = -(-(int(stop) - int(start)) // stmt.step)
                    if not self.known(stmt.body, own, times * turns):
                        return False
                case Let(var=var, value=value):
                    here += self._of(value, own)
                    if _names(value) & own:
                        own.add(var.name)
                        if var.dtype is not build.INDEX:  # bytes become floats or i32
                            widest = max(widest, self._registers(var))
                case Assign(var=var, value=value):
                    here += self._of(value, own)
                case Store(value=value, atomic=None):
                    here += self._of(value, own)
                case Allocate(buffer=Buffer(size=int(size), dtype=dtype)):
                    self.local_bytes += size * dtype.nbytes
                case Prefetch():
                    pass
                case _:
                    return False
        self.registers = max(self.registers, here, widest)
        self.vectors += here * times
        return self.vectors <= LONGEST

    def _of(self, value: Expr, own: set[str]) -> int:
        loads = [one for one in walk([value]) if isinstance(one, Load)]
        return sum(
            self._registers(one)
            for one in loads
            if one.buffer.space is not Space.LOCAL and _names(one.index) & own
        )

    def _registers(self, one: Expr) -> int:
        return -(-one.lanes * one.dtype.compute.nbytes // self.target.vector_bytes)


def _names(expr: Expr) -> set[str]:
    return {one.name for one in walk([expr]) if isinstance(one, Var)}


def _several(kernel: Kernel, loop: For, count: int) -> For:
    """The loop over `count` iterations at once; the last ones, if fewer, are in a loop of their
    own.
    """
    fresh, stop = UnusedNames(kernel), loop.stop
    groups = build.div(build.add(stop, count - 1), count)
    most = build.bounds(groups)[1]
    group = replace(
        loop.counter,
        name=fresh(),
        high=None if most is None else most - 1,
        below=None if isinstance(groups, Const) else groups,
    )
    first = build.mul(group, count)
    copies = [_Copy(loop.counter, fresh) for _ in range(count)]
    starts = (Let(copy.counter, build.add(first, n)) for n, copy in enumerate(copies))
    body = (*starts, *_side_by_side(loop.body, copies, fresh))
    if build.multiple(stop) % count:
        one = _Copy(loop.counter, fresh)
        rest = For(one.counter, first, stop, _side_by_side(loop.body, [one], fresh))
        fits = Apply(Primitive.LE, (build.add(first, count), stop), DType.BOOL)
        body = (If(fits, body, (rest,)),)
    grain = max(1, loop.grain // count)
    return For(group, build.index(0), groups, body, kind=loop.kind, grain=grain)


class _Copy:
    """One of the iterations that are run at once, whose names are fresh."""

    def __init__(self, counter: Var, fresh: Callable[[], str]) -> None:
        self.fresh = fresh
        self.counter = replace(counter, name=fresh(), multiple=1)
        self.named: dict[str, Var] = {counter.name: self.counter}
        self.buffers: dict[Buffer, Buffer] = {}
        self.rewriter = KernelRewriter(self._visit, self.buffers)

    def _visit(self, one: Expr) -> Expr:
        return self.named.get(one.name, one) if isinstance(one, Var) else one

    def stmt(self, stmt: Stmt) -> Stmt:
        """A statement other than a loop, in this iteration."""
        new = self.rewriter.stmt(stmt)
        match new:
            case Let(var=var):
                self.named[var.name] = replace(var, name=self.fresh())
                return replace(new, var=self.named[var.name])
            case Assign(var=var):
                return replace(new, var=self.named[var.name])
            case Allocate(buffer=buffer):
                self.buffers[buffer] = replace(buffer, name=self.fresh())
                return Allocate(self.buffers[buffer])
        return new


def _side_by_side(
    body: Sequence[Stmt], copies: Sequence[_Copy], fresh: Callable[[], str]
) -> tuple[Stmt, ...]:
    """Each statement for all copies, one after the other; a loop is one for all."""
    together: list[Stmt] = []
    for stmt in body:
        if not isinstance(stmt, For):
            together += [copy.stmt(stmt) for copy in copies]
            continue
        counter = replace(stmt.counter, name=fresh())
        for copy in copies:
            copy.named[stmt.counter.name] = counter
        together.append(
            replace(stmt, counter=counter, body=_side_by_side(stmt.body, copies, fresh))
        )
    return tuple(together)
