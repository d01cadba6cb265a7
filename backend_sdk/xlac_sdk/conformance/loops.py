"""Cases for loops: starts, steps, unrolled, parallel, nested and empty ones, and sizes given at run
time.
"""

from __future__ import annotations

from collections.abc import Callable

from xlac_sdk.conformance.case import ConformanceCase
from xlac_sdk.conformance.programs import SIZE, of_kernel, single, twice, values
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Const, If, Kernel, Load, LoopKind, Store, Var
from xlac_sdk.kernel_ir.primitives import Primitive

P, F32, I64, BOOL = Primitive, DType.F32, DType.I64, DType.BOOL


def serial() -> ConformanceCase:
    """A loop, one iteration after another."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, SIZE) as i:
            b.store(y, i, Const(-1.0, F32))
        with b.loop("i", 2, SIZE - 1, 3) as i:
            b.store(y, i, twice(build.load(x, i)))

    return single("a loop with a start and a step", body)


def empty_loop() -> ConformanceCase:
    """A loop without iterations."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, SIZE) as i:
            b.store(y, i, build.load(x, i))
            with b.loop("j", i, i) as j:
                b.store(y, j, Const(0.0, F32))
            with b.loop("k", build.add(i, 3), i) as k:
                b.store(y, k, Const(0.0, F32))

    return single("loops that never run", body)


def unrolled() -> ConformanceCase:
    """An unrolled loop."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, 9) as i, b.loop("j", 0, 4, kind=LoopKind.UNROLLED) as j:
            at = build.add(build.mul(i, 4), j)
            held = b.let("held", build.load(x, at))
            b.store(y, at, twice(held))
        with b.loop("k", 36, 37) as k:
            b.store(y, k, build.load(x, k))

    return single("an unrolled loop inside a loop", body)


def parallel() -> ConformanceCase:
    """A loop whose iterations are independent."""
    size = 100_003

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, size, kind=LoopKind.PARALLEL, grain=16) as i:
            b.store(y, i, twice(build.load(x, i)))

    return single("a parallel loop over many elements", body, size=size)


def parallel_step() -> ConformanceCase:
    """A parallel loop with a step greater than 1."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with (
            b.loop("i", 1, SIZE, 4, kind=LoopKind.PARALLEL) as i,
            b.loop("j", build.sub(i, 1), build.add(i, 3)) as j,
        ):
            b.store(y, j, twice(build.load(x, j)))

    return single("a parallel loop with a start and a step", body, size=36)


def nested() -> ConformanceCase:
    """A loop in a loop."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, 5) as i:
            total = b.variable("total", Const(0.0, F32))
            with b.loop("j", i, 7) as j:
                b.assign(
                    total, build.apply(P.ADD, total, build.load(x, build.add(build.mul(i, 7), j)))
                )
            b.store(y, i, total)

    return single("a running total in a nest of loops", body, size=35, out=5)


def no_elements() -> ConformanceCase:
    """A kernel over empty buffers."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        b.emit(If(Const(False, BOOL), (Store(y, build.index(0), Load(x, build.index(0))),)))

    return single("buffers of no elements", body, size=0)


def symbolic() -> ConformanceCase:
    """A loop up to a size that is given at launch."""
    n = Var("n", I64, low=0, high=1000)
    x, y = Buffer("x", F32, n, align=1), Buffer("y", F32, n, access=Access.WRITE, align=1)
    b = build.Builder()
    with b.loop("i", 0, n) as i:
        b.store(y, i, twice(build.load(x, build.sub(build.sub(n, i), 1))))
    return of_kernel(
        "a size given at run time",
        Kernel("k_sized", (x, y), b.body(), (n,)),
        values(F32, SIZE),
        sizes=(SIZE,),
    )


CASES: tuple[Callable[[], ConformanceCase], ...] = (
    serial, empty_loop, unrolled, parallel, parallel_step, nested, no_elements, symbolic,
)  # fmt: skip
