"""Limits the number of blocks of a grid: each block executes several of the original ones in
turn.
"""

from __future__ import annotations

from dataclasses import replace

from xlac_sdk.kernel_ir import indexing
from xlac_sdk.kernel_ir.bounds import bounds
from xlac_sdk.kernel_ir.division import div
from xlac_sdk.kernel_ir.grid import Grid, grid
from xlac_sdk.kernel_ir.kernel import (
    Barrier,
    Const,
    Exchange,
    For,
    If,
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


def fewer_blocks(kernel: Kernel, most: int, rows: int = 1) -> Kernel:
    """The same grid in at most `most` blocks (`Target.most_blocks`; 0: any number), or so many in
    each of at most `rows` rows. Block b executes the original blocks b, b + m, b + 2 m, … for the
    m that there are at most. The kernel itself where it never has more.

    In rows, a grid of more than `most` blocks has a multiple of `most`; the last do nothing.
    """
    if rows <= 1:
        return _in_rounds(kernel, most)
    return _in_rows(_in_rounds(kernel, most * rows), most)


def rows_of_blocks(blocks: int, most: int) -> tuple[int, int]:
    """The two dimensions of a launch of the blocks of a kernel in rows: in each row, and rows."""
    return (blocks, 1) if not most or blocks <= most else (most, -(-blocks // most))


def _exceeding(kernel: Kernel, most: int) -> Grid | None:
    """The kernel as a grid that may have more than `most` blocks (0: any number), else None."""
    form = grid(kernel)
    if not most or form is None:
        return None
    high = bounds(form.blocks)[1]
    return form if high is None or high > most else None


def _in_rows(kernel: Kernel, most: int) -> Kernel:
    """The grid with a multiple of `most` blocks where it has more; those that it did not have do
    nothing.
    """
    form = _exceeding(kernel, most)
    if form is None:
        return kernel
    # without bounds, by which the condition would be simplified away
    counter = replace(form.block.counter, high=None, below=None)
    condition = indexing.apply(Primitive.LT, counter, form.blocks)
    thread = replace(form.thread, body=(If(condition, form.thread.body),))
    first = indexing.apply(Primitive.MIN, form.blocks, indexing.index(most))
    beyond = indexing.apply(Primitive.MAX, form.blocks, indexing.index(most))
    count = indexing.add(first, indexing.mul(div(indexing.sub(beyond, 1), most), most))
    if isinstance(form.blocks, Const):
        count = indexing.index(-(-int(form.blocks.value) // most) * most)
    inner = (*form.block.body[:-1], thread)
    return replace(kernel, body=(replace(form.block, counter=counter, stop=count, body=inner),))


def _in_rounds(kernel: Kernel, most: int) -> Kernel:
    """The grid in at most `most` blocks."""
    form = _exceeding(kernel, most)
    if form is None:
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
