"""Limits the number of blocks of a grid: each block executes several of the original ones in
turn.
"""

from __future__ import annotations

from dataclasses import replace

from xlac_sdk.kernel_ir import indexing
from xlac_sdk.kernel_ir.bounds import bounds
from xlac_sdk.kernel_ir.grid import Grid, grid
from xlac_sdk.kernel_ir.kernel import (
    Barrier,
    Exchange,
    For,
    Kernel,
    LoopKind,
    Stmt,
    Var,
    names,
    statements,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.sharing import roots, walk
from xlac_sdk.kernel_ir.sums import INDEX
from xlac_sdk.support.unused_names import unused_name


def fewer_blocks(kernel: Kernel, most: int) -> Kernel:
    """The same grid in at most `most` blocks (`Target.most_blocks`; 0: any number): block b
    executes the original blocks b, b + most, b + 2 most, … The kernel itself where it never has
    more.
    """
    form = grid(kernel)
    if not most or form is None:
        return kernel
    high = bounds(form.blocks)[1]
    if high is not None and high <= most:
        return kernel
    first = Var(unused_name("first", names(kernel)), INDEX, low=0, high=most - 1)
    body = form.thread.body
    if _shares(form):  # the next iteration overwrites what other threads may still read
        body = (*body, Barrier())
    rounds = For(form.block.counter, first, form.blocks, body, step=most)
    thread = replace(form.thread, body=(rounds,))
    count = indexing.apply(Primitive.MIN, form.blocks, indexing.index(most))
    inner = (*form.block.body[:-1], thread)
    outer = For(first, indexing.index(0), count, inner, kind=LoopKind.BLOCK)
    return replace(kernel, body=(outer,))


def _shares(form: Grid) -> bool:
    """Whether threads of a block communicate through shared memory."""
    body: tuple[Stmt, ...] = form.thread.body
    return bool(form.shared) or any(
        isinstance(stmt, Barrier) or any(isinstance(e, Exchange) for e in walk(roots(stmt)))
        for stmt in statements(body)
    )
