"""Instructions across the lanes of a vector, and those of registers of one width."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xlac_cpu.emit.spelling import constant, number, register, vector
from xlac_cpu.emit.writer import LlvmWriter
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive

WHOLE, PART = 64, 16  # the bytes and the floats of a register of AVX-512
CURRENT = 4  # the rounding of its conversions: nearest, ties to even
Combine = Callable[[tuple[str, ...], int], str]  # two vectors, and how many lanes they have


def picked(w: LlvmWriter, kind: str, value: str, picks: Sequence[int], other: str = "") -> str:
    """Lanes of one or two vectors of a type, by number."""
    chosen = ", ".join(f"i32 {pick}" for pick in picks)
    return w.op(
        f"shufflevector {kind} {value}, {kind} {other or 'poison'}, <{len(picks)} x i32> <{chosen}>"
    )


def fold_lanes(
    w: LlvmWriter, primitive: Primitive, value: str, dtype: DType, lanes: int, combine: Combine
) -> str:
    """The lanes combined by repeatedly halving the vector while it is even."""
    extreme = primitive in (Primitive.MAX, Primitive.MIN) and dtype.is_float
    if extreme and w.ternary and lanes & (lanes - 1) == 0 < lanes - 1:
        return _extreme(w, primitive is Primitive.MAX, value, dtype, lanes)
    scalar = register(dtype)
    rest: list[str] = []
    while lanes > 1:
        kind = vector(scalar, lanes)
        if lanes % 2:
            rest.append(w.op(f"extractelement {kind} {value}, i64 {lanes - 1}"))
        half = lanes // 2
        if half == 1:
            parts = tuple(w.op(f"extractelement {kind} {value}, i64 {k}") for k in (0, 1))
        else:
            parts = tuple(picked(w, kind, value, range(k, k + half)) for k in (0, half))
        value = combine(parts, half)
        lanes = half
    for one in rest:
        value = combine((value, one), 1)
    return value


def _extreme(w: LlvmWriter, up: bool, value: str, dtype: DType, lanes: int) -> str:
    """The maximum or minimum of the lanes of floats: NaN if one is NaN, and -0 is below +0.

    Halves are combined by one instruction each, x86's own, which is wrong about NaN and the sign of
    a zero. Whether there is a NaN, or a zero of the sign that wins, is found beside that, and
    corrected by a last one: it gives its second operand if one is NaN or both are zero.
    """
    scalar, integer = register(dtype), f"i{dtype.bits}"
    kind, whole = vector(scalar, lanes), vector(integer, lanes)
    wins = constant("0" if up else str(-(1 << (dtype.bits - 1))), integer, lanes)
    is_zero = w.op(f"icmp eq {whole} {w.op(f'bitcast {kind} {value} to {whole}')}, {wins}")
    is_nan = w.op(f"fcmp uno {kind} {value}, {value}")
    last, zero, nan = (number(n, dtype) for n in (-math.inf, 0.0, math.nan))
    if not up:
        last, zero = (number(n, dtype) for n in (math.inf, -0.0))
    last = _if_any(w, is_zero, lanes, zero, last, scalar)
    last = _if_any(w, is_nan, lanes, nan, last, scalar)
    while lanes > 1:
        kind, lanes = vector(scalar, lanes), lanes // 2
        if lanes == 1:
            low, high = (w.op(f"extractelement {kind} {value}, i64 {k}") for k in (0, 1))
        else:
            low, high = (picked(w, kind, value, range(k, k + lanes)) for k in (0, lanes))
        value = _of_two(w, up, low, high, vector(scalar, lanes), lanes)
    return _of_two(w, up, value, last, scalar, 1)


def _of_two(w: LlvmWriter, up: bool, a: str, b: str, kind: str, lanes: int) -> str:
    better = w.op(f"fcmp {'ogt' if up else 'olt'} {kind} {a}, {b}")
    return w.op(f"select {vector('i1', lanes)} {better}, {kind} {a}, {kind} {b}")


def _if_any(w: LlvmWriter, condition: str, lanes: int, then: str, otherwise: str, kind: str) -> str:
    """One of two scalars, by whether a condition holds in some lane."""
    bits = w.op(f"bitcast <{lanes} x i1> {condition} to i{lanes}")
    some = w.op(f"icmp ne i{lanes} {bits}, 0")
    return w.op(f"select i1 {some}, {kind} {then}, {kind} {otherwise}")


def scale(w: LlvmWriter, x: str, n: str, dtype: DType, lanes: int) -> str:
    """x * 2^n by AVX-512's instruction, once for each register that the vectors fill."""
    most, least = 512 // dtype.bits, 128 // dtype.bits
    kind, wide = register(dtype, lanes), max(least, 1 << (lanes - 1).bit_length())
    full = register(dtype, wide)
    if lanes == 1:
        x, n = (w.op(f"insertelement {full} poison, {kind} {v}, i64 0") for v in (x, n))
    elif lanes < wide:
        x, n = (picked(w, kind, v, [k % lanes for k in range(wide)]) for v in (x, n))
    if wide > most:
        half = wide // 2
        low, high = (
            scale(w, picked(w, full, x, part), picked(w, full, n, part), dtype, half)
            for part in (range(half), range(half, wide))
        )
        return picked(w, register(dtype, half), low, range(lanes), high)
    name = f"llvm.x86.avx512.mask.scalef.p{'d' if dtype is DType.F64 else 's'}.{wide * dtype.bits}"
    every = ("i16" if wide == 16 else "i8", "-1")
    rounding = [("i32", "4")] if wide == most else []  # as the machine is set
    result = w.intrinsic(name, full, (full, x), (full, n), (full, x), every, *rounding)
    if lanes == 1:
        return w.op(f"extractelement {full} {result}, i64 0")
    return result if lanes == wide else picked(w, full, result, range(lanes))


def looked_up(w: LlvmWriter, entries: Sequence[str], index: str, lanes: int) -> str:
    """Entries of a table of 16 f32, by the lowest bits of an index: one instruction if they are
    constants, else chosen bit by bit.
    """
    known = [literal_float(e) for e in entries]
    if None not in known:
        return _permuted(w, f"<{', '.join(f'float {bits}' for bits in known)}>", index, lanes)
    values, kind, whole = list(entries), vector("float", lanes), vector("i32", lanes)
    for bit in range(len(values).bit_length() - 1):
        one = w.op(f"and {whole} {index}, {constant(str(1 << bit), 'i32', lanes)}")
        odd = w.op(f"icmp ne {whole} {one}, {constant('0', 'i32', lanes)}")
        values = [
            w.op(f"select {vector('i1', lanes)} {odd}, {kind} {second}, {kind} {first}")
            for first, second in zip(values[::2], values[1::2], strict=True)
        ]
    return values[0]


def literal_float(text: str) -> str | None:
    """The bits of a float constant, if `text` is one."""
    at = text.find("0x")
    return text[at : at + 18] if at >= 0 else None


def _permuted(w: LlvmWriter, table: str, index: str, lanes: int) -> str:
    """Entries of a table of 16 f32, a constant, by AVX-512's permutation of a register, which takes
    the four lowest bits of each index.
    """
    full = 16
    whole, floats = vector("i32", lanes), vector("float", full)
    if lanes > full:
        half = lanes // 2 if lanes % full == 0 else lanes // full * full
        cuts = ((0, half), (half, lanes))
        low, high = (
            _permuted(w, table, picked(w, whole, index, range(a, b)), b - a) for a, b in cuts
        )
        wide = max(half, lanes - half)
        parts = [
            one if n == wide else picked(w, vector("float", n), one, [k % n for k in range(wide)])
            for one, n in ((low, half), (high, lanes - half))
        ]
        every = [*range(half), *range(wide, wide + lanes - half)]
        return picked(w, vector("float", wide), parts[0], every, parts[1])
    if lanes == 1:
        index = w.op(f"insertelement {vector('i32', full)} poison, i32 {index}, i64 0")
    elif lanes < full:
        index = picked(w, whole, index, [k % lanes for k in range(full)])
    name, kind = "llvm.x86.avx512.permvar.sf.512", vector("i32", full)
    result = w.intrinsic(name, floats, (floats, table), (kind, index))
    if lanes == 1:
        return w.op(f"extractelement {floats} {result}, i64 0")
    return result if lanes == full else picked(w, floats, result, range(lanes))


def packed_bytes(w: LlvmWriter, value: str, target: DType) -> str:
    """64 floats, rounded and saturated to bytes; NaN is 0. AVX-512 narrows two vectors to one with
    saturation, in fewer instructions than limits and a truncation of each vector take.

    A conversion gives the least integer for what is too large, for which there is a limit before
    it, as for what is too small and for NaN, which saturate to the least byte.
    """
    kind, flags = register(DType.F32, WHOLE), vector("i1", WHOLE)
    whole, short = vector("i32", PART), vector("i16", 2 * PART)

    def limit(number_: float) -> str:
        return constant(number(number_, DType.F32), register(DType.F32), WHOLE)

    top = limit(127.0 if target.is_signed else 255.0)
    over = w.op(f"fcmp ogt {kind} {value}, {top}")
    held = w.op(f"select {flags} {over}, {kind} {top}, {kind} {value}")
    if target.is_signed:
        real = w.op(f"fcmp ord {kind} {value}, {value}")
        held = w.op(f"select {flags} {real}, {kind} {held}, {kind} {limit(0.0)}")
    parts = []
    for first in range(0, WHOLE, PART):
        part = picked(w, kind, held, range(first, first + PART))
        given = (register(DType.F32, PART), part), (whole, "zeroinitializer")
        last = ("i16", "-1"), ("i32", str(CURRENT))
        parts.append(w.intrinsic("llvm.x86.avx512.mask.cvtps2dq.512", whole, *given, *last))
    pairs = [
        w.intrinsic("llvm.x86.avx512.packssdw.512", short, (whole, a), (whole, b))
        for a, b in (parts[:2], parts[2:])
    ]
    name = f"llvm.x86.avx512.pack{'ss' if target.is_signed else 'us'}wb.512"
    narrow = vector("i8", WHOLE)
    bytes_ = w.intrinsic(name, narrow, *((short, pair) for pair in pairs))
    # each quarter of the register has four bytes of each part
    words = w.op(f"bitcast {narrow} {bytes_} to {whole}")
    turned = picked(w, whole, words, [4 * k + j for j in range(4) for k in range(4)])
    return w.op(f"bitcast {whole} {turned} to {narrow}")
