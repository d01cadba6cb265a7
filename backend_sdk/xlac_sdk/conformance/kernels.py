"""Cases for statements and scalar expressions: loops, scopes, masks, local buffers, exact numbers, odd names."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from xlac_sdk import build
from xlac_sdk.conformance.case import EXACT, Array, Case, Tolerance
from xlac_sdk.conformance.values import special
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel import (
    Access,
    Apply,
    Buffer,
    Const,
    Expr,
    If,
    Instruction,
    Kernel,
    Let,
    Load,
    LoopKind,
    Prefetch,
    Store,
    Var,
)  # fmt: skip
from xlac_sdk.primitives import Primitive
from xlac_sdk.program import Argument, Launch, Program, Role, Slot
from xlac_sdk.target import Target

P, F32, I32, I64, BOOL = Primitive, DType.F32, DType.I32, DType.I64, DType.BOOL
SIZE = 37  # odd on purpose


def cases(target: Target) -> Iterator[Case]:
    """One case for each construct, and one for the constants of each dtype."""
    for make in SCALAR:
        yield make()
    yield from constants(target)


def single(
    name: str, body: Callable[[build.Builder, Buffer, Buffer], None], *, size: int = SIZE, out: int | None = None,
    dtype: DType = F32, result: DType | None = None, access: Access = Access.WRITE, tolerance: Tolerance = EXACT,
    group: str = "statements", names: tuple[str, str] = ("x", "y"),
) -> Case:  # fmt: skip
    """A program of one kernel with one input and one output."""
    made = result or dtype
    x = Buffer(names[0], dtype, size, align=1)
    y = Buffer(names[1], made, size if out is None else out, access=access, align=1)
    builder = build.Builder()
    body(builder, x, y)
    identifier = "k_" + "".join(c if c.isalnum() else "_" for c in name)
    return of_kernel(name, Kernel(identifier, (x, y), builder.body()), _values(dtype, size), tolerance, group)


def of_kernel(name: str, kernel: Kernel, values: Array, tolerance: Tolerance = EXACT, group: str = "statements", sizes: tuple[int, ...] = ()) -> Case:
    x, y = kernel.parameters
    assert isinstance(y.size, int) or sizes
    count = y.size if isinstance(y.size, int) else len(values)
    given = Slot("x", "in0", x.dtype, (len(values),), Role.INPUT)
    wanted = Slot("y", "out0", y.dtype, (count,), Role.OUTPUT)
    launch = Launch(kernel, (Argument(given), Argument(wanted)), sizes)
    program = Program("conformance", (given,), (wanted,), (given, wanted), (launch,), {})
    return Case(name, group, program, {"x": values}, tolerance)


def _values(dtype: DType, size: int) -> Array:
    rng = np.random.default_rng(size)
    if dtype.is_float:
        return rng.standard_normal(size).astype(dtype.numpy)
    return rng.integers(0, 2 if dtype is BOOL else 100, size).astype(dtype.numpy)


def twice(value: Expr) -> Expr:
    return build.apply(P.ADD, value, value)


def _index(value: int) -> Const:
    return build.index(value)


# ---- loops -----------------------------------------------------------------------------------


def serial() -> Case:
    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, SIZE) as i:
            b.store(y, i, Const(-1.0, F32))
        with b.loop("i", 2, SIZE - 1, 3) as i:
            b.store(y, i, twice(build.load(x, i)))

    return single("a loop with a start and a step", body)


def empty_loop() -> Case:
    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, SIZE) as i:
            b.store(y, i, build.load(x, i))
            with b.loop("j", i, i) as j:
                b.store(y, j, Const(0.0, F32))
            with b.loop("k", build.add(i, 3), i) as k:
                b.store(y, k, Const(0.0, F32))

    return single("loops that never run", body)


def unrolled() -> Case:
    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, 9) as i, b.loop("j", 0, 4, kind=LoopKind.UNROLLED) as j:
            at = build.add(build.mul(i, 4), j)
            held = b.let("held", build.load(x, at))
            b.store(y, at, twice(held))
        with b.loop("k", 36, 37) as k:
            b.store(y, k, build.load(x, k))

    return single("an unrolled loop inside a loop", body)


def parallel() -> Case:
    size = 100_003

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, size, kind=LoopKind.PARALLEL, grain=16) as i:
            b.store(y, i, twice(build.load(x, i)))

    return single("a parallel loop over many elements", body, size=size)


def parallel_step() -> Case:
    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 1, SIZE, 4, kind=LoopKind.PARALLEL) as i, b.loop("j", build.sub(i, 1), build.add(i, 3)) as j:
            b.store(y, j, twice(build.load(x, j)))

    return single("a parallel loop with a start and a step", body, size=36)


def nested() -> Case:
    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, 5) as i:
            total = b.variable("total", Const(0.0, F32))
            with b.loop("j", i, 7) as j:
                b.assign(total, build.apply(P.ADD, total, build.load(x, build.add(build.mul(i, 7), j))))
            b.store(y, i, total)

    return single("a running total in a nest of loops", body, size=35, out=5)


def no_elements() -> Case:
    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        b.emit(If(Const(False, BOOL), (Store(y, _index(0), Load(x, _index(0))),)))

    return single("buffers of no elements", body, size=0)


def symbolic() -> Case:
    n = Var("n", I64, low=0, high=1000)
    x, y = Buffer("x", F32, n, align=1), Buffer("y", F32, n, access=Access.WRITE, align=1)
    b = build.Builder()
    with b.loop("i", 0, n) as i:
        b.store(y, i, twice(build.load(x, build.sub(build.sub(n, i), 1))))
    return of_kernel("a size given at run time", Kernel("k_sized", (x, y), b.body(), (n,)), _values(F32, SIZE), sizes=(SIZE,))


# ---- statements ------------------------------------------------------------------------------


def branches() -> Case:
    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, SIZE) as i:
            value = b.let("value", build.load(x, i))
            below = build.apply(P.LT, value, Const(0.0, F32))
            inner = (If(build.apply(P.LT, i, _index(5)), (Store(y, i, Const(7.0, F32)),)),)
            b.store(y, i, Const(1.0, F32))
            b.emit(If(below, (Store(y, i, twice(value)),), inner))

    return single("if, else and if inside else", body)


def variables() -> Case:
    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        one, two = b.variable("one", Const(0.0, F32)), b.variable("two", Const(1.0, F32))
        with b.loop("i", 0, SIZE) as i:
            old = Var("old", F32)
            b.emit(Let(old, one))
            b.assign(one, two)
            b.assign(two, build.apply(P.ADD, old, build.load(x, i)))
            with b.when(build.apply(P.LT, Const(3.0, F32), two)):
                b.assign(two, Const(-3.0, F32))
            b.store(y, i, build.apply(P.MUL, one, two))

    return single("variables that swap and are reset", body)


def scopes() -> Case:
    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        v = Var("v", F32)
        for start, factor in ((0, 2.0), (20, 3.0)):  # the same names in sibling blocks
            with b.loop("i", start, 37 if start else 20) as i:
                b.emit(Let(v, build.load(x, i)))
                b.emit(Let(Var("unused", I64), i))
                b.store(y, i, build.apply(P.MUL, v, Const(factor, F32)))

    return single("names bound again in another block", body)


def local() -> Case:
    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        held = b.local("held", F32, SIZE)
        with b.loop("i", 0, SIZE) as i:
            b.store(held, i, build.load(x, i))
        with b.loop("j", 0, SIZE) as j:
            b.store(y, j, build.load(held, build.sub(SIZE - 1, j)))

    return single("a local buffer read backwards", body)


def in_place() -> Case:
    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, SIZE) as i:
            b.store(y, i, build.load(x, i))
        with b.loop("j", 1, SIZE) as j:
            b.store(y, j, build.apply(P.ADD, build.load(y, j), build.load(y, build.sub(j, 1))))

    return single("a buffer that is read and written", body, access=Access.UPDATE)


def read_before_write() -> Case:
    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, SIZE) as i:
            b.store(y, i, build.load(x, i))
        first = Var("first", F32)
        b.emit(Let(first, build.load(y, 0)))  # the value of now, not of when it is used
        b.store(y, 0, build.load(y, SIZE - 1))
        b.store(y, SIZE - 1, first)

    return single("a name keeps the value that it was bound to", body, access=Access.UPDATE)


def masked_scalar() -> Case:
    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, SIZE) as i:
            b.store(y, i, Const(9.0, F32))
            even = build.apply(P.EQ, build.mod(i, 2), _index(0))
            inside = build.apply(P.LT, i, _index(SIZE - 5))
            # where the mask is false the index is out of bounds
            value = Load(x, build.add(i, 5), 1, inside)
            b.store(y, i, value, even)

    return single("masked accesses of one lane", body)


def gathered() -> Case:
    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, SIZE) as i:
            at = b.let("at", build.mod(build.cast(build.load(x, i), I64), SIZE))
            b.store(y, at, build.load(x, at))
        with b.loop("j", 0, SIZE) as j:
            b.store(y, j, build.load(x, build.mod(build.mul(j, 5), SIZE)))

    return single("indices that are data", body, dtype=I32, access=Access.WRITE)


def atomic() -> Case:
    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, 5) as i:
            b.store(y, i, Const(0, I32))
        with b.loop("j", 0, SIZE) as j:
            b.store(y, build.mod(j, 5), build.load(x, j), atomic=P.ADD)

    return single("atomic addition", body, dtype=I32, out=5, access=Access.UPDATE)


def instruction() -> Case:
    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        b.emit(Prefetch(x, _index(1 << 20)))
        with b.loop("i", 0, SIZE) as i:
            meaning = (Store(y, i, twice(build.load(x, i))),)
            b.emit(Instruction("conformance.unheard_of", (y, x, i), meaning))

    return single("an instruction nobody has, and a prefetch out of bounds", body)


def deep() -> Case:
    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, SIZE) as i:
            value = build.load(x, i)
            for _ in range(100):  # shared at every level: 2 ** 100 as a tree
                value = build.apply(P.MAX, build.apply(P.SUB, value, Const(0.25, F32)), build.apply(P.SUB, Const(0.125, F32), value))
            b.store(y, i, value)

    return single("a deep expression whose parts are shared", body)


def names() -> Case:
    words = ("double", "lambda", "while", "define", "ptr", "exp", "expf", "index", "None", "label", "i32", "entry", "e1_", "t1", "b_x", "int64_t")

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("for_", 0, SIZE) as i:
            value: Expr = build.load(x, i)
            for word in words:
                var = Var(word, F32)
                b.emit(Let(var, build.apply(P.ADD, value, Const(1.0, F32))))
                value = var
            b.store(y, i, build.apply(P.EXP, build.apply(P.MUL, value, Const(0.01, F32))))

    return single("names that are words of other languages", body, names=("const", "restrict"), tolerance=Tolerance(3))


def integers() -> Case:
    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, SIZE) as i:
            value = b.let("value", build.load(x, i))
            wide = build.cast(value, I64)
            big = Apply(P.MUL, (wide, Const(0x123456789ABCDEF, I64)), I64)
            big = Apply(P.ADD, (big, Const(-(1 << 63), I64)), I64)
            back = build.cast(build.apply(P.SHR, big, Const(7, I64)), I32)
            b.store(y, i, build.apply(P.SUB, back, build.apply(P.MUL, value, Const(-(1 << 31), I32))))

    return single("integers that wrap", body, dtype=I32)


def large() -> Case:
    size = 1 << 18

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        total = b.variable("total", Const(0, I64))
        with b.loop("i", 0, size) as i:
            b.assign(total, build.apply(P.ADD, total, build.load(x, i)))
        b.store(y, 0, total)

    return single("a total over a large buffer", body, size=size, out=1, dtype=I64)


def constants(target: Target) -> Iterator[Case]:
    """Every special number as a constant of the text, for each dtype."""
    for dtype in DType:
        if not dtype.is_half and dtype not in target.dtypes:
            continue
        numbers = special(dtype).tolist()

        def body(b: build.Builder, x: Buffer, y: Buffer, numbers: list[float] = numbers, dtype: DType = dtype) -> None:
            for at, number in enumerate(numbers):
                b.store(y, at, Const(number, dtype))

        yield single(f"constants of {dtype}", body, dtype=dtype, size=len(numbers), group="constants")


SCALAR: tuple[Callable[[], Case], ...] = (
    serial, empty_loop, unrolled, parallel, parallel_step, nested, no_elements, symbolic, branches, variables, scopes,
    local, in_place, read_before_write, masked_scalar, gathered, atomic, instruction, deep, names, integers, large,
)  # fmt: skip
