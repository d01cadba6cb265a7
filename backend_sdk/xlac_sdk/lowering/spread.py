"""The conversion of kernels to grids of threads (`grid.py`)."""

from __future__ import annotations

from dataclasses import replace

from xlac_sdk.kernel_ir import indexing
from xlac_sdk.kernel_ir.bounds import bounds
from xlac_sdk.kernel_ir.division import div
from xlac_sdk.kernel_ir.grid import grid
from xlac_sdk.kernel_ir.kernel import Const, For, If, Kernel, Let, LoopKind, Stmt, Var, names
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.sums import INDEX
from xlac_sdk.lowering.fewer_blocks import fewer_blocks
from xlac_sdk.support.unused_names import unused_name

THREADS = 128  # block size of a kernel that does not specify one


def spread(
    kernel: Kernel,
    threads: int = THREADS,
    grained: bool = False,
    most_blocks: int = 0,
    most_rows: int = 1,
) -> Kernel:
    """The kernel as a grid: a PARALLEL iteration becomes a thread, a serial kernel a single thread.
    With `grained` a thread runs as many iterations as are worth a separate task. A launch has at
    most `most_blocks` blocks (`Target.most_blocks`; 0: any number) in each of `most_rows` rows,
    also for kernels that were grids already; `rows_of_blocks` says how many it has.
    """
    return fewer_blocks(_spread(kernel, threads, grained), most_blocks, most_rows)


def _spread(kernel: Kernel, threads: int, grained: bool) -> Kernel:
    if grid(kernel) is not None:
        return kernel
    taken = names(kernel)
    block_name, thread_name = unused_name("block", taken), unused_name("thread", taken)
    loop = kernel.parallel
    if loop is None:
        return _gridded(
            kernel, _counter(block_name, 1), 1, _counter(thread_name, 1), 1, kernel.body
        )
    count = div(indexing.add(indexing.sub(loop.stop, loop.start), loop.step - 1), loop.step)
    if isinstance(count, Const):
        threads = min(threads, 1 << max(0, int(count.value) - 1).bit_length())
    each = threads * (loop.grain if grained else 1)
    blocks = div(indexing.add(count, each - 1), each)
    block, thread = _counter(block_name, blocks), _counter(thread_name, threads)
    number = indexing.add(indexing.mul(block, threads), thread)
    if grained and loop.grain > 1:
        number = indexing.mul(number, loop.grain)
    counter = indexing.cast(
        indexing.add(loop.start, indexing.mul(number, loop.step)), loop.counter.dtype
    )
    if grained and loop.grain > 1:
        begin = Var(unused_name("begin", taken), loop.counter.dtype)
        end = indexing.add(begin, loop.grain * loop.step)
        least = indexing.apply(Primitive.MIN, end, loop.stop)
        inner = For(loop.counter, begin, least, loop.body, loop.step)
        return _gridded(kernel, block, blocks, thread, threads, (Let(begin, counter), inner))
    body: tuple[Stmt, ...] = (Let(loop.counter, counter), *loop.body)
    if not (isinstance(count, Const) and int(count.value) % threads == 0):
        body = (If(indexing.apply(Primitive.LT, number, count), body),)
    return _gridded(kernel, block, blocks, thread, threads, body)


def _counter(name: str, stop: indexing.Number) -> Var:
    stop = indexing.lift(stop)
    last = bounds(stop)[1]
    return Var(
        name,
        INDEX,
        low=0,
        high=None if last is None else max(0, last - 1),
        below=None if isinstance(stop, Const) else stop,
    )


def _gridded(
    kernel: Kernel,
    block: Var,
    blocks: indexing.Number,
    thread: Var,
    threads: int,
    body: tuple[Stmt, ...],
) -> Kernel:
    zero = indexing.index(0)
    inner = For(thread, zero, indexing.index(threads), body, kind=LoopKind.THREAD)
    return replace(
        kernel, body=(For(block, zero, indexing.lift(blocks), (inner,), kind=LoopKind.BLOCK),)
    )
