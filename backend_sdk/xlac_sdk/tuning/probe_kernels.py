"""Programs whose time says something of a device. They are kernel IR, so every backend runs them.

Memory that they read is state, which a device keeps between calls; a call takes four numbers and
returns one, so that only the kernel takes time.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import (
    Access,
    Allocate,
    Buffer,
    Const,
    Exchange,
    Expr,
    For,
    Kernel,
    LoopKind,
    Space,
    Stmt,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.programs.program import Argument, Launch, Program, Role, Slot
from xlac_sdk.target import Target

P, F32, I32, I64 = Primitive, DType.F32, DType.I32, DType.I64
GIVEN = 4  # numbers that a call takes
DEEP = 16  # dependent additions and exclusive ors of a turn of the chain
READS = 8  # vectors that a turn of a reading loop loads, each into a sum of its own
ROW = 1024  # elements of a row that a block sums


def chain(turns: int) -> Program:
    """x = (x + k) ^ k, `DEEP` operations a turn, each of which waits for the one before."""
    b, x, y = _ends(I32)
    k = b.let("k", build.load(x, 0))
    last = b.variable("last", k)
    with b.loop("turn", 0, turns):
        value: Expr = last
        for _ in range(DEEP // 2):
            value = b.let("sum", build.apply(P.ADD, value, k))
            value = b.let("mixed", build.apply(P.XOR, value, k))
        b.assign(last, value)
    b.store(y, 0, last)
    return _program(Kernel("chain", (x, y), b.body()))


def launches(count: int) -> Program:
    """So many launches of a kernel that copies one number."""
    b, x, y = _ends(I32)
    b.store(y, 0, build.load(x, 0))
    return _program(*[Kernel("nothing", (x, y), b.body())] * count)


def reads(nbytes: int, times: int, vector_bytes: int) -> Program:
    """One thread that reads `nbytes` from the beginning of its memory, again and again."""
    return rows(1, 0, nbytes, times, vector_bytes)


def rows(count: int, stride: int, nbytes: int, times: int, vector_bytes: int) -> Program:
    """The same of rows that begin `stride` bytes apart. `nbytes` is rounded to whole turns of the
    loop.
    """
    lanes = max(1, vector_bytes // I32.nbytes)
    turn = READS * lanes
    elements = max(1, nbytes // I32.nbytes // turn) * turn
    apart = stride // I32.nbytes
    b, x, y = _ends(I32)
    memory = Buffer("memory", I32, (count - 1) * apart + elements, align=lanes)
    sums = [b.variable("sum", build.splat(Const(0, I32), lanes)) for _ in range(READS)]
    with b.loop("time", 0, times), b.loop("row", 0, count) as row:
        begin = build.mul(row, apart)
        with b.loop("i", 0, elements, turn) as i:
            for n, total in enumerate(sums):
                at = build.add(build.add(begin, i), n * lanes)
                value = build.load(memory, at, lanes)
                b.assign(total, build.apply(P.XOR, total, value))
    b.store(y, 0, build.apply(P.XOR, _joined(P.XOR, sums), build.load(x, 0)))
    return _program(Kernel("read", (x, memory, y), b.body()))


def multiply_adds(lanes: int, accumulators: int, turns: int, target: Target) -> Program:
    """Sums of so many lanes, each multiplied and added to once a turn."""
    b, x, y = _ends(F32)
    by, more = (b.let("given", build.splat(build.load(x, n), lanes)) for n in (0, 1))
    sums = [
        b.variable("sum", build.splat(Const(float(n), F32), lanes)) for n in range(accumulators)
    ]
    with b.loop("turn", 0, turns):
        for total in sums:
            b.assign(total, _multiply_add(total, by, more, target))
    b.store(y, 0, _joined(P.ADD, sums))
    return _program(Kernel("multiply_add", (x, y), b.body()))


def functions(primitive: Primitive, lanes: int, elements: int, times: int) -> Program:
    """Sums of a function of each of `elements` numbers, which are zeros, again and again; a
    multiple of four vectors.
    """
    b, x, y = _ends(F32)
    memory = Buffer("memory", F32, elements, align=lanes)
    sums = [b.variable("sum", build.splat(Const(0.0, F32), lanes)) for _ in range(4)]
    with b.loop("time", 0, times), b.loop("i", 0, elements, 4 * lanes) as i:
        for n, total in enumerate(sums):
            value = build.apply(primitive, build.load(memory, build.add(i, n * lanes), lanes))
            b.assign(total, build.apply(P.ADD, total, value))
    b.store(y, 0, build.apply(P.ADD, _joined(P.ADD, sums), build.load(x, 0)))
    return _program(Kernel("function", (x, memory, y), b.body()))


def busy(blocks: int, threads: int, turns: int, live: int, target: Target) -> Program:
    """Blocks of threads, each of which keeps `live` sums, as those of matrix products do, gets a
    number from another of its block once a turn, and multiplies and adds to every sum.
    """
    b, x, y = _ends(F32, blocks * threads)
    block, thread = _counter("block", blocks), _counter("thread", threads)
    held = Buffer("held", F32, threads, Space.SHARED)
    by = b.let("by", build.load(x, 0))
    sums = [b.variable("sum", build.cast(thread, F32)) for _ in range(live)]
    with b.loop("turn", 0, turns):
        b.store(held, thread, sums[0])
        b.barrier()
        other = b.let("other", build.load(held, build.sub(threads - 1, thread)))
        for n, total in enumerate(sums):
            b.assign(total, _multiply_add(total, sums[n - 1] if n else by, other, target))
        b.barrier()
    b.store(y, build.add(build.mul(block, threads), thread), _joined(P.ADD, sums))
    return _program(_grid("busy", (x, y), block, thread, b.body(), held))


def copies(blocks: int, threads: int, lanes: int, each: int) -> Program:
    """Threads that copy memory, each `each` times `lanes` consecutive elements."""
    size = blocks * threads * lanes * each
    b, x, y = _ends(F32)
    block, thread = _counter("block", blocks), _counter("thread", threads)
    source = Buffer("source", F32, size, align=lanes)
    target = Buffer("target", F32, size, access=Access.WRITE, align=lanes)
    with b.loop("time", 0, each) as time:
        turn = build.add(build.mul(time, blocks), block)
        at = build.mul(build.add(build.mul(turn, threads), thread), lanes)
        b.store(target, at, build.load(source, at, lanes))
    first = build.apply(P.EQ, build.add(block, thread), build.index(0))
    with b.when(first):
        b.store(y, 0, build.load(x, 0))
    return _program(_grid("copy", (x, source, target, y), block, thread, b.body()))


def elementwise(blocks: int, threads: int, lanes: int, each: int, deep: int) -> Program:
    """Threads that load `each` vectors of `lanes` elements, apply `deep` exponentials to each, and
    store them, as elementwise kernels do.
    """
    size = blocks * threads * lanes * each
    b, x, y = _ends(F32)
    block, thread = _counter("block", blocks), _counter("thread", threads)
    source = Buffer("source", F32, size, align=lanes)
    made = Buffer("made", F32, size, access=Access.WRITE, align=lanes)
    first = b.let("first", build.add(build.mul(block, threads * each), thread))
    places = [build.mul(build.add(first, n * threads), lanes) for n in range(each)]
    values = [b.let("value", build.load(source, place, lanes)) for place in places]
    for place, value in zip(places, values, strict=True):
        for _ in range(deep):
            value = b.let("value", build.apply(P.EXP, value))
        b.store(made, place, value)
    with b.when(build.apply(P.EQ, build.add(block, thread), build.index(0))):
        b.store(y, 0, build.load(x, 0))
    return _program(_grid("elementwise", (x, source, made, y), block, thread, b.body()))


def exchanged_sums(blocks: int, threads: int, warp: int) -> Program:
    """Rows of `ROW` elements, each summed by `warp` threads: every one sums its part, and they
    exchange the results.
    """
    many = blocks * threads // warp
    b, x, y = _ends(F32, many)
    memory = Buffer("memory", F32, many * ROW)
    block, thread = _counter("block", blocks), _counter("thread", threads)
    row = build.add(build.mul(block, threads // warp), build.div(thread, warp))
    lane = b.let("lane", build.mod(thread, warp))
    total = b.variable("sum", build.load(x, 0))
    with b.loop("i", 0, ROW, warp) as i:
        at = build.add(build.add(build.mul(row, ROW), i), lane)
        b.assign(total, build.apply(P.ADD, total, build.load(memory, at)))
    value, distance = b.let("value", total), 1
    while distance < warp:
        value = b.let("value", build.apply(P.ADD, value, Exchange(value, distance)))
        distance *= 2
    with b.when(build.apply(P.EQ, lane, build.index(0))):
        b.store(y, row, value)
    return _program(_grid("exchange", (x, memory, y), block, thread, b.body()))


def _ends(dtype: DType, out: int = 1) -> tuple[build.Builder, Buffer, Buffer]:
    """A builder, what every call gives, and what it gets."""
    x = Buffer("x", dtype, GIVEN, align=1)
    return build.Builder(), x, Buffer("y", dtype, out, access=Access.WRITE, align=1)


def _multiply_add(value: Expr, by: Expr, more: Expr, target: Target) -> Expr:
    if target.spells(P.FMA, F32):
        return build.apply(P.FMA, value, by, more)
    return build.apply(P.ADD, build.apply(P.MUL, value, by), more)


def _joined(primitive: Primitive, values: Sequence[Expr]) -> Expr:
    total = values[0]
    for value in values[1:]:
        total = build.apply(primitive, total, value)
    return build.fold(primitive, total)


def _counter(name: str, stop: int) -> Var:
    return Var(name, I64, low=0, high=stop - 1)


def _grid(
    name: str,
    parameters: tuple[Buffer, ...],
    block: Var,
    thread: Var,
    body: tuple[Stmt, ...],
    *shared: Buffer,
) -> Kernel:
    """A kernel of blocks and threads."""
    zero = build.index(0)
    assert block.high is not None and thread.high is not None
    threads = build.index(thread.high + 1)
    inner = For(thread, zero, threads, body, kind=LoopKind.THREAD)
    whole: tuple[Stmt, ...] = (*map(Allocate, shared), inner)
    blocks = build.index(block.high + 1)
    return Kernel(name, parameters, (For(block, zero, blocks, whole, kind=LoopKind.BLOCK),))


def _program(*kernels: Kernel) -> Program:
    """A program that launches kernels in turn; parameters between the first and the last are state
    of its own.
    """
    parameters = kernels[0].parameters
    slots, offset = list[Slot](), 0
    for number, buffer in enumerate(parameters):
        ends = {0: Role.INPUT, len(parameters) - 1: Role.OUTPUT}
        role = ends.get(number, Role.STATE)
        assert isinstance(buffer.size, int)
        at = offset if role is Role.STATE else 0
        slots.append(Slot(buffer.name, f"s{number}", buffer.dtype, (buffer.size,), role, at))
        if role is Role.STATE:
            offset += -(-slots[-1].nbytes // 256) * 256
    arguments = tuple(map(Argument, slots))
    return Program(
        "probe",
        (slots[0],),
        (slots[-1],),
        tuple(slots),
        tuple(Launch(kernel, arguments) for kernel in kernels),
        {},
        state_bytes=offset,
    )
