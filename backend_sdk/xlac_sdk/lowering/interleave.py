"""Interleaves iterations of a parallel loop: several at once, statement by statement.

A short row (a softmax of 30 elements, a norm of 64) is one long chain of dependent instructions: a
maximum, its lanes folded, exp, a sum, folded again, a quotient. A processor looks a few hundred
instructions ahead, which is two or three such rows one after the other; side by side they keep its
units busy. Results stay the same to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain

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
    Prefetch,
    Space,
    Stmt,
    Store,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.rewrite import KernelRewriter
from xlac_sdk.kernel_ir.sharing import roots, walk
from xlac_sdk.lowering.unused_prefix import UnusedNames
from xlac_sdk.target import Target

REGISTERS = 16  # of a target: constants of exp take a dozen
SHARE = 4  # one register in SHARE holds what the iterations read: of more, some are spilled
STATEMENTS = 1024  # of all iterations that are run at once, which bounds compile time


def interleaved(kernel: Kernel, target: Target) -> Kernel:
    """A legalized kernel with iterations of its parallel loop interleaved where that pays: code
    without branches that combines the lanes of vectors.
    """
    loop = kernel.parallel
    if loop is None or target.size or target.vector_registers < REGISTERS:
        return kernel
    if loop.step != 1 or not _is_plain(loop):
        return kernel
    wide = target.vector_registers // SHARE
    count = min(wide // _registers(loop, target), STATEMENTS // len(loop.body))
    known = int(loop.stop.value) if isinstance(loop.stop, Const) else None
    if count < 2 or (known is not None and known < 2 * count):
        return kernel
    return replace(kernel, body=(_several(kernel, loop, count),))


def _is_plain(loop: For) -> bool:
    """Whether an iteration is statements without control flow, and folds vectors."""
    if not (isinstance(loop.start, Const) and loop.start.value == 0):
        return False
    for stmt in loop.body:
        if not isinstance(stmt, Let | Assign | Store | Allocate | Prefetch):
            return False
        if isinstance(stmt, Store) and stmt.atomic is not None:
            return False
    every = chain.from_iterable(walk(roots(stmt)) for stmt in loop.body)
    return any(isinstance(one, Fold) for one in every)


def _registers(loop: For, target: Target) -> int:
    """The registers that what an iteration reads takes: that which other iterations do not read."""
    own, count = {loop.counter.name}, 0
    for stmt in loop.body:
        every = list(walk(roots(stmt)))
        if isinstance(stmt, Let) and any(isinstance(v, Var) and v.name in own for v in every):
            own.add(stmt.var.name)
        for one in every:
            if isinstance(one, Load) and one.buffer.space is not Space.LOCAL:
                names = (v.name for v in walk([one.index]) if isinstance(v, Var))
                nbytes = one.lanes * one.dtype.compute.nbytes
                count += -(-nbytes // target.vector_bytes) if not own.isdisjoint(names) else 0
    return max(1, count)


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
    copies = []
    for number in range(count):
        counter, body = _copied(loop, fresh)
        copies.append((Let(counter, build.add(first, number)), *body))
    body = tuple(chain.from_iterable(zip(*copies, strict=True)))
    if build.multiple(stop) % count:
        counter, one = _copied(loop, fresh)
        rest = For(counter, first, stop, one)
        fits = Apply(Primitive.LE, (build.add(first, count), stop), DType.BOOL)
        body = (If(fits, body, (rest,)),)
    grain = max(1, loop.grain // count)
    return For(group, build.index(0), groups, body, kind=loop.kind, grain=grain)


def _copied(loop: For, fresh: Callable[[], str]) -> tuple[Var, tuple[Stmt, ...]]:
    """The counter and the statements of an iteration under fresh names."""
    counter = replace(loop.counter, name=fresh(), multiple=1)
    named: dict[str, Var] = {loop.counter.name: counter}
    buffers: dict[Buffer, Buffer] = {}

    def visit(one: Expr) -> Expr:
        return named.get(one.name, one) if isinstance(one, Var) else one

    rewriter = KernelRewriter(visit, buffers)
    body: list[Stmt] = []
    for stmt in loop.body:
        new = rewriter.stmt(stmt)
        match new:
            case Let(var=var):
                named[var.name] = replace(var, name=fresh())
                new = replace(new, var=named[var.name])
            case Assign(var=var):
                new = replace(new, var=named[var.name])
            case Allocate(buffer=buffer):
                buffers[buffer] = replace(buffer, name=fresh())
                new = Allocate(buffers[buffer])
        body.append(new)
    return counter, tuple(body)
