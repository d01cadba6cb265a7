"""Instructions across the lanes of a vector, and those of registers of one width."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlac_cpu.emit.spelling import constant, register, suffix, vector
from xlac_cpu.emit.writer import LlvmWriter
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive

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
    """The maximum or minimum of the lanes of floats, NaN if one is NaN.

    As integers of their bits, with all but the sign flipped in negative ones, floats are ordered as
    they should be: -0 below +0, and NaN beyond infinity on the side of its sign, which is chosen.
    So a step is one instruction, where floats take three. AVX-512 has the registers for the
    constants, and the comparison of 64-bit integers.
    """
    bits = dtype.bits
    width = f"i{bits}"
    kind, whole = register(dtype, lanes), vector(width, lanes)
    quiet = (0x7FC00000 if bits == 32 else 0x7FF8 << 48) - (0 if up else 1 << (bits - 1))
    is_nan = w.op(f"fcmp uno {kind} {value}, {value}")
    key = w.op(f"bitcast {kind} {value} to {whole}")
    key = w.op(
        f"select {vector('i1', lanes)} {is_nan}, {whole} {constant(str(quiet), width, lanes)}, "
        f"{whole} {key}"
    )
    key = _flipped(w, key, width, lanes)
    while lanes > 1:
        whole, half = vector(width, lanes), lanes // 2
        # the last two lanes stay in a vector register
        parts = [picked(w, whole, key, range(k, k + half)) for k in (0, half)] if half > 1 else []
        other = parts[1] if parts else picked(w, whole, key, (1, 1))
        kept = half if parts else lanes
        name = f"llvm.s{'max' if up else 'min'}.{suffix(width, kept)}"
        kind = vector(width, kept)
        key = w.intrinsic(name, kind, (kind, parts[0] if parts else key), (kind, other))
        lanes = half
    key = _flipped(w, key, width, 2)
    kind = register(dtype, 2)
    return w.op(
        f"extractelement {kind} {w.op(f'bitcast {vector(width, 2)} {key} to {kind}')}, i64 0"
    )


def _flipped(w: LlvmWriter, key: str, width: str, lanes: int) -> str:
    """Integers with all bits but the sign flipped where they are negative."""
    kind, bits = vector(width, lanes), int(width[1:])
    sign = w.op(f"ashr {kind} {key}, {constant(str(bits - 1), width, lanes)}")
    if w.ternary and lanes * bits in (128, 256, 512):  # key ^ (sign & most)
        most = constant(str((1 << (bits - 1)) - 1), width, lanes)
        name = f"llvm.x86.avx512.pternlog.{'q' if bits == 64 else 'd'}.{lanes * bits}"
        return w.intrinsic(name, kind, (kind, key), (kind, sign), (kind, most), ("i32", "120"))
    flips = w.op(f"lshr {kind} {sign}, {constant('1', width, lanes)}")
    return w.op(f"xor {kind} {key}, {flips}")


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
