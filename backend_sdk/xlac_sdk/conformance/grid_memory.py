"""Cases for GPUs on communication between threads: exchanges, atomic operations, wide accesses,
arrival counters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from xlac_sdk.conformance.case import ConformanceCase
from xlac_sdk.conformance.grid_parts import BLOCKS, GridBody, ends, grid_case
from xlac_sdk.conformance.programs import in_rows
from xlac_sdk.conformance.values import special
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import (
    Access,
    Buffer,
    Const,
    Exchange,
    Instruction,
    Kernel,
    Let,
    Space,
    Store,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.verify import applies
from xlac_sdk.programs.program import Argument, Launch, Program, Role, Slot
from xlac_sdk.target import Target

P, F32, I32, U32 = Primitive, DType.F32, DType.I32, DType.U32
ATOMIC = (P.ADD, P.MUL, P.MAX, P.MIN, P.AND, P.OR, P.XOR)
FENCE, ARRIVE = "memory.fence", "grid.arrive"


def cases(target: Target, threads: int) -> Iterator[ConformanceCase]:
    """The cases of a GPU, for blocks of `threads` threads."""
    yield from exchanges(target, threads)
    yield from atomics(target, threads)
    yield from wide(target, threads)
    if {FENCE, ARRIVE} <= target.instructions:
        yield tickets(threads)


def exchanges(target: Target, threads: int) -> Iterator[ConformanceCase]:
    """Exchanges between threads at every distance in a warp, for every type."""
    for dtype in DType:
        if not target.stores(dtype):
            continue
        x, y = ends(threads, dtype)
        b = GridBody(BLOCKS, threads)
        value = b.let("value", build.load(x, b.element))
        distance = 1
        while distance < target.warp:
            # a select evaluates both sides: every thread takes part
            odd = build.apply(P.EQ, build.mod(b.thread, 2), build.index(1))
            value = b.let("value", build.select(odd, value, Exchange(value, distance)))
            distance *= 2
        b.store(y, b.element, value)
        kernel = b.kernel(f"k_exchange_{dtype}", x, y)
        yield grid_case(f"exchange of {dtype}", kernel)


def atomics(target: Target, threads: int) -> Iterator[ConformanceCase]:
    """Every atomic combination, by threads of all blocks and of a single one, on shared
    elements.
    """
    for dtype in DType:
        if dtype not in target.dtypes or dtype.is_half:
            continue
        for primitive in ATOMIC:
            if applies(primitive, dtype):
                for space in (Space.GLOBAL, Space.SHARED):
                    yield _atomic(primitive, dtype, space, threads)


def _atomic(primitive: Primitive, dtype: DType, space: Space, threads: int) -> ConformanceCase:
    """Atomics on three elements, so that most threads contend; sums and products of small integers
    are exact in every order.
    """
    shared = space is Space.SHARED
    x, y = ends(threads, dtype, 3 * BLOCKS if shared else 3)
    if not shared:
        y = replace(y, access=Access.UPDATE)
    start = Const(dtype is DType.BOOL or 1, dtype)
    b = GridBody(BLOCKS, threads)
    place = build.mod(b.thread, 3)
    value = build.load(x, b.element)
    if shared:
        held = b.shared("held", dtype, 3)
        few = build.apply(P.LT, b.thread, build.index(3))
        with b.when(few):
            b.store(held, b.thread, start)
        b.barrier()
        b.store(held, place, value, atomic=primitive)
        b.barrier()
        with b.when(few):
            at = build.add(build.mul(b.block_number, 3), b.thread)
            b.store(y, at, build.load(held, b.thread))
    else:
        b.store(y, place, value, atomic=primitive)
    name = f"atomic {primitive.value} of {dtype}, {space.value}"
    kernel = b.kernel(f"k_atomic_{primitive.value}_{dtype}", x, y)
    case = grid_case(name, kernel)
    given = _meeting(primitive, dtype, BLOCKS * threads)
    if shared:
        return ConformanceCase(name, "grids", case.program, {"x": given})
    return _begun(name, kernel, given)


def _meeting(primitive: Primitive, dtype: DType, count: int) -> Array:
    """Numbers whose combination does not depend on the order."""
    rng = np.random.default_rng(count)
    if dtype is DType.BOOL:
        return rng.integers(0, 2, count).astype(bool)
    if primitive is P.MUL:
        return np.where(rng.random(count) < 0.02, 2, 1).astype(dtype.numpy)
    if primitive in (P.MAX, P.MIN) and dtype.is_float:
        ordinary = special(dtype)[:11]
        return np.resize(ordinary, count)
    if dtype.is_float or dtype.bits < 32:
        return rng.integers(0, 7, count).astype(dtype.numpy)
    info = np.iinfo(dtype.numpy)
    return rng.integers(info.min, info.max, count, dtype.numpy)


def _begun(name: str, kernel: Kernel, given: Array) -> ConformanceCase:
    """A program that initializes the elements to 1 before the kernel of atomics runs."""
    x, y = kernel.parameters
    assert isinstance(y.size, int)
    fill = Buffer("y", y.dtype, y.size, access=Access.WRITE, align=1)
    b = GridBody(1, y.size)
    b.store(fill, b.thread, Const(1, y.dtype))
    given_slot = Slot("x", "in0", x.dtype, (len(given),), Role.INPUT)
    out = Slot("y", "out0", y.dtype, (y.size,), Role.OUTPUT)
    steps = (
        Launch(b.kernel("k_begin", fill), (Argument(out),)),
        Launch(kernel, (Argument(given_slot), Argument(out))),
    )
    program = Program("conformance", (given_slot,), (out,), (given_slot, out), steps, {})
    return ConformanceCase(name, "grids", program, {"x": given})


def wide(target: Target, threads: int) -> Iterator[ConformanceCase]:
    """Vectors as wide as one thread's access, in global and shared memory, aligned and
    unaligned.
    """
    for dtype in (DType.F32, DType.U8, DType.F16, DType.I32):
        lanes = max(1, target.access_bytes // dtype.nbytes)
        if lanes == 1:
            continue
        for start in (0, 1):
            size = BLOCKS * threads * lanes
            x = Buffer("x", dtype, size + start, align=16)
            y = Buffer("y", dtype, size, access=Access.WRITE, align=16)
            b = GridBody(BLOCKS, threads)
            held = b.shared("held", dtype, threads * lanes)
            at = build.mul(b.element, lanes)
            mine = build.mul(b.thread, lanes)
            b.store(held, mine, build.load(x, build.add(at, start), lanes))
            b.barrier()
            other = build.mul(build.sub(threads - 1, b.thread), lanes)
            b.store(y, at, b.let("taken", build.load(held, other, lanes)))
            name = f"accesses of {lanes} {dtype}, from element {start}"
            kernel = b.kernel(f"k_wide_{dtype}_{start}", x, y)
            yield grid_case(name, kernel)
    if (lanes := target.access_bytes // F32.nbytes) > 1:
        size = BLOCKS * threads * lanes
        x, y = Buffer("x", F32, size), Buffer("y", F32, size, access=Access.WRITE)
        b = GridBody(BLOCKS, threads)
        at = build.mul(b.element, lanes)
        b.store(y, at, b.let("taken", build.load(x, at, lanes)))
        name = f"accesses of {lanes} f32, in rows of any length"
        yield in_rows(name, b.kernel("k_wide_rows", x, y), size, "grids")


def tickets(threads: int) -> ConformanceCase:
    """Blocks that store their parts of a sum and count their arrival: the last adds all parts and
    resets the counter, so that a second launch works too.
    """
    size = BLOCKS * threads
    x = Buffer("x", I32, size, align=1)
    parts = Buffer("parts", I32, size, access=Access.REREAD, align=4)
    counter = Buffer("counter", U32, 1, access=Access.UPDATE, align=4)
    y = Buffer("y", I32, 1, access=Access.REREAD, align=4)
    b = GridBody(BLOCKS, threads)
    flag = b.shared("flag", U32, 1)
    b.store(parts, b.element, build.load(x, b.element))
    b.emit(Instruction(FENCE, (), ()))
    b.barrier()
    zero = build.index(0)
    with b.when(build.apply(P.EQ, b.thread, zero)):
        taken, one, none = Var("taken", U32), Const(1, U32), Const(0, U32)
        following = build.apply(P.ADD, taken, one)
        is_last = build.apply(P.EQ, following, Const(BLOCKS, U32))
        meaning = (
            Let(taken, build.load(counter, zero)),
            Store(flag, zero, build.select(is_last, one, none)),
            Store(counter, zero, build.select(is_last, none, following)),
        )
        b.emit(Instruction(ARRIVE, (counter, zero, Const(BLOCKS, U32), flag), meaning))
    b.barrier()
    chosen = build.apply(P.NE, build.load(flag, zero), Const(0, U32))
    with b.when(build.apply(P.AND, chosen, build.apply(P.EQ, b.thread, zero))):
        b.emit(Instruction(FENCE, (), ()))
        total = b.variable("total", Const(0, I32))
        with b.loop("i", 0, size) as i:
            b.assign(total, build.apply(P.ADD, total, build.load(parts, i)))
        b.store(y, 0, total)
    kernel = b.kernel("k_tickets", x, parts, counter, y)
    fill = GridBody(1, 1)
    cleared = Buffer("counter", U32, 1, access=Access.WRITE, align=4)
    fill.store(cleared, fill.thread, Const(0, U32))
    slots = (
        Slot("x", "in0", I32, (size,), Role.INPUT),
        Slot("y", "out0", I32, (1,), Role.OUTPUT),
        Slot("parts", "t0", I32, (size,), Role.TEMPORARY, 64),
        Slot("counter", "t1", U32, (1,), Role.TEMPORARY),
    )
    first, last, part, count = map(Argument, slots)
    launch = Launch(kernel, (first, part, count, last))
    steps = (Launch(fill.kernel("k_clear", cleared), (count,)), launch, launch)
    arena = 64 + 4 * size
    program = Program("conformance", slots[:1], slots[1:2], slots, steps, {}, arena)
    given = np.arange(size, dtype=np.int32)
    return ConformanceCase("tickets of blocks", "grids", program, {"x": given})
