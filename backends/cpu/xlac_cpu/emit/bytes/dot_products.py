"""Dot products within words: each 32-bit lane of the accumulator gets the sum of four products of
bytes, or of two of i16.
"""

from __future__ import annotations

from xlac_cpu.emit.lanes import picked
from xlac_cpu.emit.spelling import constant, vector
from xlac_cpu.emit.style import Style
from xlac_cpu.emit.writer import LlvmWriter
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive

WIDTHS = (4, 8, 16)  # lanes of registers
_PAIRS = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}


def spell(
    w: LlvmWriter, style: Style, primitive: Primitive, x: tuple[str, ...], dtype: DType, lanes: int
) -> str:
    """Writes dot4 or dot2 of vectors of `lanes` words. Bytes of x[0] are unsigned if `dtype` is
    u32. Vectors are widened to a register, or split among several.
    """
    if lanes > style.lanes:
        return _cut(w, style, primitive, x, dtype, lanes)
    full = next(width for width in WIDTHS if width >= lanes)
    given = [_filled(w, one, lanes, full) for one in x]
    if primitive is Primitive.DOT2:
        kind, short = vector("i32", full), vector("i16", 2 * full)
        pairs = [w.op(f"bitcast {kind} {one} to {short}") for one in given[:2]]
        sums = _pairs_added(w, pairs[0], pairs[1], given[2], full)
    else:
        sums = _register(w, style.dots, given, dtype, full)
    if lanes == 1:
        return w.op(f"extractelement {vector('i32', full)} {sums}, i64 0")
    return sums if lanes == full else picked(w, vector("i32", full), sums, range(lanes))


def _cut(
    w: LlvmWriter, style: Style, primitive: Primitive, x: tuple[str, ...], dtype: DType, lanes: int
) -> str:
    """`spell` for more lanes than a register has: each half by itself."""
    half, rest, parts = lanes // 2, lanes - lanes // 2, []
    for first, count in ((0, half), (half, rest)):
        places = range(first, first + count)
        part = tuple(picked(w, vector("i32", lanes), one, places) for one in x)
        parts.append(_filled(w, spell(w, style, primitive, part, dtype, count), count, rest))
    every = [*range(half), *range(rest, 2 * rest)]
    return picked(w, vector("i32", rest), parts[0], every, parts[1])


def _register(w: LlvmWriter, dots: str, x: list[str], dtype: DType, lanes: int) -> str:
    """`spell` for operands of exactly one register."""
    kind = vector("i32", lanes)
    if dots == "vpdpbusd":
        name = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
        return w.intrinsic(name, kind, (kind, x[2]), (kind, x[0]), (kind, x[1]))
    if dots == "pmaddwd":
        return _by_pairs(w, x, dtype, lanes)
    parts = [w.op(f"bitcast {kind} {one} to <16 x i8>") for one in x[:2]]
    name = f"llvm.aarch64.neon.{'usdot' if dtype is DType.U32 else 'sdot'}.v4i32.v16i8"
    return w.intrinsic(name, kind, (kind, x[2]), *(("<16 x i8>", part) for part in parts))


def _by_pairs(w: LlvmWriter, x: list[str], dtype: DType, lanes: int) -> str:
    """SSE2 to AVX-512: bytes at even and at odd positions are extended to 16 bits, and pmaddwd
    sums the 32-bit products of each pair.
    """
    kind, short = vector("i32", lanes), vector("i16", 2 * lanes)

    def halves(word: str, signed: bool) -> tuple[str, str]:
        by, low = (constant(str(n), "i16", 2 * lanes) for n in (8, 255))
        pairs = w.op(f"bitcast {kind} {word} to {short}")
        if not signed:
            return w.op(f"and {short} {pairs}, {low}"), w.op(f"lshr {short} {pairs}, {by}")
        high = w.op(f"shl {short} {pairs}, {by}")
        return w.op(f"ashr {short} {high}, {by}"), w.op(f"ashr {short} {pairs}, {by}")

    total = x[2]
    both = zip(halves(x[0], dtype is DType.I32), halves(x[1], True), strict=True)
    for left, right in both:
        total = _pairs_added(w, left, right, total, lanes)
    return total


def _pairs_added(w: LlvmWriter, left: str, right: str, total: str, lanes: int) -> str:
    """The total plus the products of pairs of i16, by pmaddwd."""
    kind, short = vector("i32", lanes), vector("i16", 2 * lanes)
    name = f"llvm.x86.{_PAIRS[lanes]}"
    products = w.intrinsic(name, kind, (short, left), (short, right))
    return w.op(f"freeze {kind} {w.op(f'add {kind} {total}, {products}')}")


def _filled(w: LlvmWriter, value: str, lanes: int, full: int) -> str:
    """A vector, or one word, widened to `full` lanes."""
    if lanes == full:
        return value
    if lanes == 1:
        return w.op(f"insertelement {vector('i32', full)} poison, i32 {value}, i64 0")
    places = [min(lane, lanes - 1) for lane in range(full)]
    return picked(w, vector("i32", lanes), value, places)
