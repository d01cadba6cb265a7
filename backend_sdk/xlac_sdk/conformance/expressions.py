"""Cases for scalar expressions: deep ones, unusual names, integers that wrap, every special number
as a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xlac_sdk.conformance.case import ConformanceCase, Tolerance
from xlac_sdk.conformance.programs import SIZE, single
from xlac_sdk.conformance.values import special
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Apply, Buffer, Const, Expr, Let, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P, F32, I32, I64 = Primitive, DType.F32, DType.I32, DType.I64


def deep() -> ConformanceCase:
    """An expression of 100 levels, each used twice by the next."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, SIZE) as i:
            value = build.load(x, i)
            for _ in range(100):  # shared at every level: 2 ** 100 as a tree
                value = build.apply(
                    P.MAX,
                    build.apply(P.SUB, value, Const(0.25, F32)),
                    build.apply(P.SUB, Const(0.125, F32), value),
                )
            b.store(y, i, value)

    return single("a deep expression whose parts are shared", body)


def names() -> ConformanceCase:
    """Names that are keywords of some language."""
    words = (
        "double",
        "lambda",
        "while",
        "define",
        "ptr",
        "exp",
        "expf",
        "index",
        "None",
        "label",
        "i32",
        "entry",
        "e1_",
        "t1",
        "b_x",
        "int64_t",
    )

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("for_", 0, SIZE) as i:
            value: Expr = build.load(x, i)
            for word in words:
                var = Var(word, F32)
                b.emit(Let(var, build.apply(P.ADD, value, Const(1.0, F32))))
                value = var
            b.store(y, i, build.apply(P.EXP, build.apply(P.MUL, value, Const(0.01, F32))))

    return single(
        "names that are words of other languages",
        body,
        names=("const", "restrict"),
        tolerance=Tolerance(3),
    )


def integers() -> ConformanceCase:
    """Integers of 64 bits, which wrap and shift."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, SIZE) as i:
            value = b.let("value", build.load(x, i))
            wide = build.cast(value, I64)
            big = Apply(P.MUL, (wide, Const(0x123456789ABCDEF, I64)), I64)
            big = Apply(P.ADD, (big, Const(-(1 << 63), I64)), I64)
            back = build.cast(build.apply(P.SHR, big, Const(7, I64)), I32)
            b.store(
                y, i, build.apply(P.SUB, back, build.apply(P.MUL, value, Const(-(1 << 31), I32)))
            )

    return single("integers that wrap", body, dtype=I32)


def large() -> ConformanceCase:
    """A loop of 2^18 iterations."""
    size = 1 << 18

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        total = b.variable("total", Const(0, I64))
        with b.loop("i", 0, size) as i:
            b.assign(total, build.apply(P.ADD, total, build.load(x, i)))
        b.store(y, 0, total)

    return single("a total over a large buffer", body, size=size, out=1, dtype=I64)


def constants(target: Target) -> Iterator[ConformanceCase]:
    """Every special number as a constant of the text, for each dtype."""
    for dtype in DType:
        if not target.stores(dtype):
            continue
        numbers = special(dtype).tolist()

        def body(
            b: build.Builder,
            x: Buffer,
            y: Buffer,
            numbers: list[float] = numbers,
            dtype: DType = dtype,
        ) -> None:
            for at, number in enumerate(numbers):
                b.store(y, at, Const(number, dtype))

        yield single(
            f"constants of {dtype}", body, dtype=dtype, size=len(numbers), group="constants"
        )


CASES: tuple[Callable[[], ConformanceCase], ...] = (deep, names, integers, large)
