"""Cases for whole programs: copies, loops, branches, choices by size, constants, state,
the arena.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from xlac_sdk.conformance.case import ConformanceCase
from xlac_sdk.conformance.state_steps import state, two_states
from xlac_sdk.conformance.step_parts import BOOL, F32, I32, N, affine, numbered, program_of, slot_of
from xlac_sdk.conformance.values import special
from xlac_sdk.dims import symbol, symbols
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Const, Kernel, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.programs.program import (
    Argument,
    Branch,
    Choice,
    Copy,
    Launch,
    Program,
    Repeat,
    Role,
    Slot,
    Step,
    While,
)
from xlac_sdk.programs.program import Case as SizeCase
from xlac_sdk.target import Target

P = Primitive


def cases(target: Target) -> Iterator[ConformanceCase]:
    """The cases of steps, for a target."""
    yield from (
        identity(),
        chain(),
        strides(),
        backwards(),
        nested(),
        newton(),
        constants(),
        nothing(),
        state(),
        two_states(),
        hostile(),
    )
    for index in (-1, 0, 1, 2, 7):
        yield branch(index)
    for n, m in ((4, 2), (4, 3), (2, 2), (7, 1)):
        yield choice(n, m)


def identity() -> ConformanceCase:
    """A copy from an input to an output."""
    x, y = slot_of("x", Role.INPUT), slot_of("y", Role.OUTPUT)
    return ConformanceCase(
        "a copy from input to output",
        "steps",
        program_of((x, y), (Copy(Argument(y), Argument(x), N),)),
        {"x": numbered()},
    )


def chain() -> ConformanceCase:
    """Three temporaries, of which the first and the last share memory."""
    x, y = slot_of("x", Role.INPUT), slot_of("y", Role.OUTPUT)
    a, b, c = (slot_of(n, Role.TEMPORARY, offset=o) for n, o in (("a", 0), ("b", 64), ("c", 0)))
    first, second = affine("grow", 2.0, 1.0), affine("shift", 1.0, -0.5)
    steps = (
        Launch(first, (Argument(x), Argument(a))),
        Launch(second, (Argument(a), Argument(b))),
        Launch(first, (Argument(b), Argument(c))),
        Launch(second, (Argument(c), Argument(y))),
    )
    return ConformanceCase(
        "temporaries that share memory in turn",
        "steps",
        program_of((x, y, a, b, c), steps, 128),
        {"x": numbered()},
    )


def strides() -> ConformanceCase:
    """y[k] = x[k] * 2 + 1 row by row, then the even rows copied once more."""
    x, y = slot_of("x", Role.INPUT, size=4 * N), slot_of("y", Role.OUTPUT, size=6 * N)
    kernel = affine("rows", 2.0, 1.0)
    row = (("step", N),)
    steps = (
        Repeat("step", 4, (Launch(kernel, (Argument(x, 0, row), Argument(y, 0, row))),)),
        Repeat(
            "again",
            2,
            (Copy(Argument(y, 4 * N, (("again", N),)), Argument(x, 1, (("again", 2 * N),)), N),),
        ),
    )
    return ConformanceCase(
        "arguments that move with a loop",
        "steps",
        program_of((x, y), steps),
        {"x": numbered(4 * N)},
    )


def backwards() -> ConformanceCase:
    """A reversed scan: carry = carry / 2 + x[t], with every carry stored."""
    x, y = slot_of("x", Role.INPUT, size=4 * N), slot_of("y", Role.OUTPUT, size=4 * N)
    carry = slot_of("carry", Role.TEMPORARY)
    back = (("t", -N),)
    body = (
        Launch(affine("turn", 0.5, 0.0, update=True), (Argument(x, 3 * N, back), Argument(carry))),
        Copy(Argument(y, 3 * N, back), Argument(carry), N),
    )
    steps = (Copy(Argument(carry), Argument(x), N), Repeat("t", 4, body))
    return ConformanceCase(
        "a scan from the end", "steps", program_of((x, y, carry), steps, 64), {"x": numbered(4 * N)}
    )


def nested() -> ConformanceCase:
    """Nested loops of steps, whose counters offset a copy."""
    x, y = slot_of("x", Role.INPUT, size=6), slot_of("y", Role.OUTPUT, size=6)
    copy = Copy(Argument(y, 0, (("i", 3), ("j", 1))), Argument(x, 0, (("i", 1), ("j", 2))), 1)
    steps = (
        Repeat("i", 2, (Repeat("j", 3, (copy,)),)),
        Repeat("never", 0, (Copy(Argument(y), Argument(x), 6),)),
    )
    return ConformanceCase(
        "loops in loops, and one that never runs",
        "steps",
        program_of((x, y), steps),
        {"x": numbered(6)},
    )


def newton() -> ConformanceCase:
    """while any |y * y - x| is large: y = (y + x / y) / 2"""
    x, y = slot_of("x", Role.INPUT), slot_of("y", Role.OUTPUT)
    flag, count = (
        slot_of("flag", Role.TEMPORARY, BOOL, 1),
        slot_of("count", Role.TEMPORARY, I32, 1, 64),
    )
    xs, ys = Buffer("x", F32, N, align=1), Buffer("y", F32, N, access=Access.UPDATE, align=1)
    b = build.Builder()
    with b.loop("i", 0, N) as i:
        y_i = b.let("held", build.load(ys, i))
        mean = build.apply(P.ADD, y_i, build.apply(P.DIV, build.load(xs, i), y_i))
        b.store(ys, i, build.apply(P.MUL, mean, Const(0.5, F32)))
    better = Kernel("better", (xs, ys), b.body())

    out, turns = (
        Buffer("flag", BOOL, 1, access=Access.WRITE, align=1),
        Buffer("turns", I32, 1, access=Access.UPDATE, align=1),
    )
    b = build.Builder()
    b.store(out, 0, build.apply(P.LT, build.load(turns, 0), Const(8, I32)))
    b.store(turns, 0, build.apply(P.ADD, build.load(turns, 0), Const(1, I32)))
    test = Kernel("test", (out, turns), b.body())

    b = build.Builder()
    zero = Buffer("turns", I32, 1, access=Access.WRITE, align=1)
    b.store(zero, 0, Const(0, I32))
    reset = Kernel("reset", (zero,), b.body())
    steps = (
        Launch(reset, (Argument(count),)),
        Copy(Argument(y), Argument(x), N),
        While(
            (Launch(test, (Argument(flag), Argument(count))),),
            Argument(flag),
            (Launch(better, (Argument(x), Argument(y))),),
        ),
    )
    return ConformanceCase(
        "a loop that a kernel ends",
        "steps",
        program_of((x, y, flag, count), steps, 128),
        {"x": np.arange(1, N + 1).astype("f4")},
    )


def branch(index: int) -> ConformanceCase:
    """A branch among several, selected by an index."""
    x, k, y = slot_of("x", Role.INPUT), slot_of("k", Role.INPUT, I32, 1), slot_of("y", Role.OUTPUT)
    choices = tuple(
        (Launch(affine(f"branch{i}", float(i + 2), 0.25), (Argument(x), Argument(y))),)
        for i in range(3)
    )
    program = program_of((x, k, y), (Branch(Argument(k), choices),))
    return ConformanceCase(
        f"a branch taken by {index}",
        "steps",
        program,
        {"x": numbered(), "k": np.array([index], np.int32)},
    )


def choice(n: int, m: int) -> ConformanceCase:
    """Three ways to compute y[n] from x[n]: for n = 4 and m = 2, for n = 4, and for any n; through
    the arena.
    """
    open_n, open_m = symbol("n", 1, 9, 4), symbol("m", 0, 5, 2)
    x = Slot("x", "s_x", F32, (open_n,), Role.INPUT)
    other = Slot("other", "s_other", F32, (open_m,), Role.INPUT)
    y = Slot("y", "s_y", F32, (open_n,), Role.OUTPUT)
    whole = Slot("", "s_whole", F32, (open_n,), Role.TEMPORARY)
    four = Slot("", "s_four", F32, (4,), Role.TEMPORARY)
    (size_n,), (size_m,) = symbols(open_n), symbols(open_m)

    def way(kernel: Kernel, held: Slot) -> tuple[Step, ...]:
        sizes = tuple(open_n for _ in kernel.sizes)
        return Launch(kernel, (Argument(x), Argument(held)), sizes), Copy(
            Argument(y), Argument(held), held.elements
        )

    cases = (
        SizeCase(((size_n, 4), (size_m, 2)), way(affine("both", 2.0, 0.25, 4), four)),
        SizeCase(((size_n, 4),), way(affine("one", 3.0, 0.25, 4), four)),
    )
    steps = (Choice(cases, way(affine("any", 5.0, 0.25, Var("n", DType.I64)), whole)),)
    slots = (x, other, y, whole, four)
    program = Program("conformance", (x, other), (y,), slots, steps, {}, 64, sizes=(size_n, size_m))
    return ConformanceCase(
        f"steps chosen by sizes {n} and {m}",
        "steps",
        program,
        {"x": numbered(n), "other": numbered(m)},
    )


def constants() -> ConformanceCase:
    """Constants of every dtype, passed through."""
    slots: list[Slot] = []
    steps: list[Step] = []
    data: dict[str, Array] = {}
    for dtype in DType:
        values = special(dtype)
        given = Slot(f"constant {dtype}", f"c_{dtype}", dtype, values.shape, Role.CONSTANT)
        wanted = Slot(dtype.value, f"out_{dtype}", dtype, values.shape, Role.OUTPUT)
        data[given.symbol] = values
        slots += [given, wanted]
        steps.append(Copy(Argument(wanted), Argument(given), len(values)))
    return ConformanceCase(
        "constants of every dtype",
        "steps",
        program_of(tuple(slots), tuple(steps), constants=data),
        {},
    )


def nothing() -> ConformanceCase:
    """Slots without elements."""
    x, y, t = (
        slot_of("x", Role.INPUT, size=0),
        slot_of("y", Role.OUTPUT, size=0),
        slot_of("t", Role.TEMPORARY, size=0),
    )
    steps = (Copy(Argument(t), Argument(x), 0), Copy(Argument(y), Argument(t), 0))
    return ConformanceCase(
        "tensors of no elements", "steps", program_of((x, y, t), steps), {"x": numbered(0)}
    )


def hostile() -> ConformanceCase:
    """Names given by users must not reach generated code."""
    x = Slot('"; system("true"); */ {{ 1 / 0 }} ??/ \\\n🙂', "s_x", F32, (N,), Role.INPUT)
    y = Slot("int", "s_y", F32, (N,), Role.OUTPUT)
    program = Program(
        "*/ #include <none> %d {% x %}\\",
        (x,),
        (y,),
        (x, y),
        (Copy(Argument(y), Argument(x), N),),
        {},
    )
    return ConformanceCase("hostile names", "steps", program, {x.name: numbered()})
