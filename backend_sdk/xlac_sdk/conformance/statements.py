"""Cases for statements: branches, names and their scopes, local buffers, in-place updates, masks,
atomics.
"""

from __future__ import annotations

from collections.abc import Callable

from xlac_sdk.conformance.case import ConformanceCase
from xlac_sdk.conformance.programs import SIZE, single, twice
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import (
    Access,
    Buffer,
    Const,
    If,
    Instruction,
    Let,
    Load,
    Prefetch,
    Store,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive

P, F32, I32, I64 = Primitive, DType.F32, DType.I32, DType.I64


def branches() -> ConformanceCase:
    """An `if` with an `else`."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, SIZE) as i:
            value = b.let("value", build.load(x, i))
            below = build.apply(P.LT, value, Const(0.0, F32))
            inner = (If(build.apply(P.LT, i, build.index(5)), (Store(y, i, Const(7.0, F32)),)),)
            b.store(y, i, Const(1.0, F32))
            b.emit(If(below, (Store(y, i, twice(value)),), inner))

    return single("if, else and if inside else", body)


def settled() -> ConformanceCase:
    """A named comparison with a constant result, which languages write in different ways."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, SIZE) as i:
            number = b.let("number", build.cast(i, I32))
            never = b.let("never", build.apply(P.LT, number, Const(-(1 << 31), I32)))
            b.store(y, i, build.select(never, Const(7.0, F32), build.load(x, i)))

    return single("comparisons with the least number", body)


def variables() -> ConformanceCase:
    """A variable that is assigned."""

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


def scopes() -> ConformanceCase:
    """The same name in two blocks."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        v = Var("v", F32)
        for start, factor in ((0, 2.0), (20, 3.0)):  # the same names in sibling blocks
            with b.loop("i", start, 37 if start else 20) as i:
                b.emit(Let(v, build.load(x, i)))
                b.emit(Let(Var("unused", I64), i))
                b.store(y, i, build.apply(P.MUL, v, Const(factor, F32)))

    return single("names bound again in another block", body)


def local() -> ConformanceCase:
    """A local buffer of the kernel."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        held = b.local("held", F32, SIZE)
        with b.loop("i", 0, SIZE) as i:
            b.store(held, i, build.load(x, i))
        with b.loop("j", 0, SIZE) as j:
            b.store(y, j, build.load(held, build.sub(SIZE - 1, j)))

    return single("a local buffer read backwards", body)


def in_place() -> ConformanceCase:
    """A buffer that is read and written."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, SIZE) as i:
            b.store(y, i, build.load(x, i))
        with b.loop("j", 1, SIZE) as j:
            b.store(y, j, build.apply(P.ADD, build.load(y, j), build.load(y, build.sub(j, 1))))

    return single("a buffer that is read and written", body, access=Access.REREAD)


def read_before_write() -> ConformanceCase:
    """A buffer whose elements are read before they are overwritten."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, SIZE) as i:
            b.store(y, i, build.load(x, i))
        first = Var("first", F32)
        b.emit(Let(first, build.load(y, 0)))  # the value at this point, not at its use
        b.store(y, 0, build.load(y, SIZE - 1))
        b.store(y, SIZE - 1, first)

    return single("a name keeps the value that it was bound to", body, access=Access.REREAD)


def masked_scalar() -> ConformanceCase:
    """A masked store of one element."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, SIZE) as i:
            b.store(y, i, Const(9.0, F32))
            even = build.apply(P.EQ, build.mod(i, 2), build.index(0))
            inside = build.apply(P.LT, i, build.index(SIZE - 5))
            # where the mask is false the index is out of bounds
            value = Load(x, build.add(i, 5), 1, inside)
            b.store(y, i, value, even)

    return single("masked accesses of one lane", body)


def gathered() -> ConformanceCase:
    """Elements at indices that are read from memory."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, SIZE) as i:
            at = b.let("at", build.mod(build.cast(build.load(x, i), I64), SIZE))
            b.store(y, at, build.load(x, at))
        with b.loop("j", 0, SIZE) as j:
            b.store(y, j, build.load(x, build.mod(build.mul(j, 5), SIZE)))

    return single("indices that are data", body, dtype=I32, access=Access.WRITE)


def atomic() -> ConformanceCase:
    """Atomic stores, which combine with the stored value."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, 5) as i:
            b.store(y, i, Const(0, I32))
        with b.loop("j", 0, SIZE) as j:
            b.store(y, build.mod(j, 5), build.load(x, j), atomic=P.ADD)

    return single("atomic addition", body, dtype=I32, out=5, access=Access.REREAD)


def instruction() -> ConformanceCase:
    """An instruction that the target does not have, run by its semantics."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        b.emit(Prefetch(x, build.index(1 << 20)))
        with b.loop("i", 0, SIZE) as i:
            meaning = (Store(y, i, twice(build.load(x, i))),)
            b.emit(Instruction("conformance.unheard_of", (y, x, i), meaning))

    return single("an instruction nobody has, and a prefetch out of bounds", body)


CASES: tuple[Callable[[], ConformanceCase], ...] = (
    branches, settled, variables, scopes, local, in_place, read_before_write, masked_scalar,
    gathered, atomic, instruction,
)  # fmt: skip
