"""Cases for vectors: loops, masks, strides, gathers, shuffles, reductions of lanes, bools, local
buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from xlac_sdk.conformance.case import ConformanceCase, Tolerance
from xlac_sdk.conformance.programs import in_rows, single, twice
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Assign, Buffer, Const, Kernel, Shuffle
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.semantics import FOLDABLE
from xlac_sdk.kernel_ir.verify import applies
from xlac_sdk.target import Target

P, F32, BOOL = Primitive, DType.F32, DType.BOOL


def cases(target: Target) -> Iterator[ConformanceCase]:
    """One case for each construct, if the target has vectors."""
    lanes = target.lanes(F32)
    if lanes > 1:
        for make in VECTOR:
            yield make(lanes)
        yield from folds(target)


def vector_strip(lanes: int) -> ConformanceCase:
    """Vectors over a buffer, and a scalar tail."""
    size = 3 * lanes + 5

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, 3 * lanes, lanes) as i:
            b.store(y, build.ramp(i, 1, lanes), twice(build.load(x, build.ramp(i, 1, lanes))))
        with b.loop("j", 3 * lanes, size) as j:
            b.store(y, j, twice(build.load(x, j)))

    return single("vectors and a scalar tail", body, size=size, group="vectors")


def vector_masked(lanes: int) -> ConformanceCase:
    """Vectors, with a masked last one."""
    size = 2 * lanes + 3

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, size, lanes) as i:
            at = build.ramp(i, 1, lanes)
            mask = b.let("mask", build.apply(P.LT, at, build.splat(build.index(size), lanes)))
            b.store(y, at, twice(build.load(x, at, mask=mask)), mask)

    return single("masked vectors over the end of a buffer", body, size=size, group="vectors")


def vector_bits(lanes: int) -> ConformanceCase:
    """Bytes joined to words and words split into bytes: the lowest bits come first."""
    size = 4 * lanes

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        with b.loop("i", 0, size, 4 * lanes) as i:
            parts = b.let("parts", build.load(x, build.ramp(i, 1, 4 * lanes)))
            words = b.let("words", build.bits(parts, DType.I32))
            one = b.let("one", build.bits(build.load(x, i, 4), DType.U32))
            moved = build.apply(P.XOR, words, build.splat(build.cast(one, DType.I32), lanes))
            patterns = build.apply(
                P.ADD, moved, build.ramp(Const(1 << 23, DType.I32), 1 << 8, lanes)
            )
            b.store(y, build.ramp(i, 1, 4 * lanes), build.bits(b.let("w", patterns), DType.U8))

    return single("words of bytes", body, size=size, group="vectors", dtype=DType.U8)


def vector_strided(lanes: int) -> ConformanceCase:
    """Elements read backwards, and written two apart."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        b.store(y, build.ramp(0, 2, lanes), build.load(x, build.ramp(2 * lanes - 1, -1, lanes)))
        b.store(y, build.ramp(1, 2, lanes), build.load(x, build.ramp(1, 2, lanes)))

    return single("vectors with strides 2 and -1", body, size=2 * lanes, group="vectors")


def vector_gather(lanes: int) -> ConformanceCase:
    """Elements at indices in a vector."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        at = b.let(
            "at",
            build.mod(build.mul(build.ramp(0, 1, lanes), 7), lanes)
            if lanes % 7
            else build.ramp(0, 1, lanes),
        )
        mask = build.apply(P.LT, at, build.splat(build.index(lanes // 2), lanes))
        b.store(y, build.ramp(0, 1, lanes), Const(5.0, F32, lanes))
        b.store(y, at, build.load(x, at), mask)

    return single("masked gather and scatter", body, size=lanes, group="vectors")


def vector_table(lanes: int) -> ConformanceCase:
    """Lookups of bytes in a table of 256, in each of its quarters."""
    lanes = min(lanes, 256)

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        for quarter in range(4):
            flipped = Const(quarter << 6, DType.U8, lanes)
            chosen = b.let("c", build.apply(P.XOR, build.load(x, build.ramp(0, 1, lanes)), flipped))
            entries = build.load(x, build.cast(chosen, build.INDEX))
            b.store(y, build.ramp(quarter * lanes, 1, lanes), entries)

    return single(
        "bytes in a table", body, size=256, out=4 * lanes, dtype=DType.U8, group="vectors"
    )


def vector_shuffle(lanes: int) -> ConformanceCase:
    """A permutation of the lanes of two vectors."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        one, two = (
            b.let(n, build.load(x, build.ramp(k * lanes, 1, lanes)))
            for k, n in enumerate(("one", "two"))
        )
        reversed_ = Shuffle((one,), tuple(range(lanes - 1, -1, -1)))
        woven = Shuffle((one, two), tuple(k for i in range(lanes // 2) for k in (i, lanes + i)))
        b.store(y, build.ramp(0, 1, lanes), reversed_)
        b.store(y, build.ramp(lanes, 1, lanes), woven)
        b.store(y, 2 * lanes, Shuffle((one, two), (lanes + 1,)))

    return single("shuffles", body, size=2 * lanes, out=2 * lanes + 1, group="vectors")


def vector_accumulate(lanes: int) -> ConformanceCase:
    """A variable that is a vector, summed over its lanes at the end."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        total = b.variable("total", Const(0.0, F32, lanes))
        with b.loop("i", 0, 4 * lanes, lanes) as i:
            part = build.load(x, build.ramp(i, 1, lanes))
            one = build.load(x, build.div(i, lanes))
            b.assign(total, build.apply(P.ADD, total, build.apply(P.MUL, part, one)))
        b.emit(Assign(total, build.apply(P.MUL, total, Const(0.5, F32))))
        b.store(y, build.ramp(0, 1, lanes), total)

    # a backend may contract each product into its sum, so one rounding of each may differ
    return single(
        "a vector that accumulates",
        body,
        size=4 * lanes,
        out=lanes,
        group="vectors",
        tolerance=Tolerance(4, 1e-6),
    )


def vector_select(lanes: int) -> ConformanceCase:
    """Comparisons of vectors, and a select for each lane."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        value = b.let("value", build.load(x, build.ramp(0, 1, lanes)))
        below = b.let("below", build.apply(P.LT, value, Const(0.0, F32)))
        both = build.apply(P.AND, below, build.apply(P.LT, Const(-1.0, F32), value))
        picked = build.select(both, build.splat(build.load(x, 0), lanes), value)
        b.store(
            y,
            build.ramp(0, 1, lanes),
            build.select(build.apply(P.NOT, below), picked, twice(picked)),
        )

    return single("vectors of bool", body, size=lanes, group="vectors")


def vector_bools(lanes: int) -> ConformanceCase:
    """Vectors of bools."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        at = build.ramp(0, 1, lanes)
        b.store(
            y, at, build.apply(P.XOR, build.load(x, at), build.load(x, build.ramp(1, 1, lanes)))
        )

    return single(
        "vectors of bool in memory", body, size=lanes + 1, out=lanes, dtype=BOOL, group="vectors"
    )


def vector_local(lanes: int) -> ConformanceCase:
    """Vectors in a local buffer of the kernel."""

    def body(b: build.Builder, x: Buffer, y: Buffer) -> None:
        held = b.local("held", F32, 2 * lanes)
        with b.loop("i", 0, 2 * lanes, lanes) as i:
            b.store(held, build.ramp(i, 1, lanes), build.load(x, build.ramp(i, 1, lanes)))
        b.store(y, build.ramp(0, 1, lanes), build.load(held, build.ramp(1, 1, lanes)))

    return single(
        "unaligned vectors of a local buffer", body, size=2 * lanes, out=lanes, group="vectors"
    )


def vector_rows(lanes: int) -> ConformanceCase:
    """A kernel for aligned buffers, launched where they are not."""
    x, y = Buffer("x", F32, lanes), Buffer("y", F32, lanes, access=Access.WRITE)
    b, at = build.Builder(), build.ramp(0, 1, lanes)
    b.store(y, at, twice(build.load(x, at)))
    kernel = Kernel("k_rows", (x, y), b.body())
    return in_rows("vectors of rows of any length", kernel, lanes, "vectors")


VECTOR: tuple[Callable[[int], ConformanceCase], ...] = (
    vector_strip, vector_masked, vector_bits, vector_strided, vector_gather, vector_table,
    vector_shuffle, vector_accumulate, vector_select, vector_bools, vector_local, vector_rows,
)  # fmt: skip


def folds(target: Target) -> Iterator[ConformanceCase]:
    """Every combination for reducing lanes, of every dtype; float operands are integers, so the
    order does not matter.
    """
    for primitive in sorted(FOLDABLE, key=lambda p: p.value):
        for dtype in DType:
            if dtype.is_half or not target.stores(dtype) or not applies(primitive, dtype):
                continue
            lanes = target.lanes(dtype)

            def body(
                b: build.Builder,
                x: Buffer,
                y: Buffer,
                primitive: Primitive = primitive,
                lanes: int = lanes,
            ) -> None:
                b.store(y, 0, build.fold(primitive, build.load(x, build.ramp(0, 1, lanes))))

            case = single(
                f"fold {primitive.value} of {dtype}",
                body,
                size=lanes,
                out=1,
                dtype=dtype,
                group="folds",
            )
            values = np.resize(np.array([1, 2, 1, 1]), lanes).astype(dtype.numpy)
            yield ConformanceCase(case.name, case.group, case.program, {"x": values})
