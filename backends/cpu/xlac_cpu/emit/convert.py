"""Casts between element types, including 16-bit floats, as LLVM IR."""

from __future__ import annotations

from xlac_cpu.emit.spelling import constant, memory, number, register, suffix, vector
from xlac_cpu.emit.writer import LlvmWriter
from xlac_sdk.dtypes import DType


def cast(
    w: LlvmWriter, value: str, source: DType, target: DType, lanes: int, native_half: bool
) -> str:
    """Rounds to nearest even, truncates and saturates to integers, wraps between integers."""
    if source is target:
        return value
    if source.is_half:
        wide = widen(w, value, source, lanes, native_half)
        return cast(w, wide, DType.F32, target, lanes, native_half)
    if target.is_half:
        return _narrow(w, value, source, target, lanes, native_half)
    kind, result = register(source, lanes), register(target, lanes)
    if target is DType.BOOL:
        zero = constant(number(0, source), register(source), lanes)
        return w.op(f"{'fcmp une' if source.is_float else 'icmp ne'} {kind} {value}, {zero}")
    if source.is_float and target.is_float:
        return w.op(f"{'fpext' if source is DType.F32 else 'fptrunc'} {kind} {value} to {result}")
    if source.is_float and lanes > 1:
        return _saturated(w, value, source, target, lanes)
    if source.is_float:
        sign = "s" if target.is_signed else "u"
        to, of = (suffix(register(dtype), lanes) for dtype in (target, source))
        return w.intrinsic(f"llvm.fpto{sign}i.sat.{to}.{of}", result, (kind, value))
    if target.is_float:
        signed = source.is_signed and source is not DType.BOOL
        return w.op(f"{'sitofp' if signed else 'uitofp'} {kind} {value} to {result}")
    if target.bits == source.bits and source is not DType.BOOL:
        return value
    if target.bits < source.bits and source is not DType.BOOL:
        return w.op(f"trunc {kind} {value} to {result}")
    return w.op(
        f"{'sext' if source.is_signed and source is not DType.BOOL else 'zext'} {kind} {value} to "
        f"{result}"
    )


def _saturated(w: LlvmWriter, value: str, source: DType, target: DType, lanes: int) -> str:
    """Saturating conversion of floats to integers; 8 and 16 bits by way of 32. LLVM's own intrinsic
    is compiled lane by lane. What was rounded is limited before, and rounded by the conversion,
    where it can do that: limits are integers.
    """
    rounds = w.nearest and value in w.rounded and source is DType.F32 and target.bits < 32
    value = w.rounded[value] if rounds else value
    kind, scalar, flags = register(source, lanes), register(source), vector("i1", lanes)
    top = 1 << (target.bits - target.is_signed)
    digits = 24 if source is DType.F32 else 53
    below = top - 1 if target.bits <= digits else top - (1 << (top.bit_length() - 1 - digits))

    def limit(value: int) -> str:
        return constant(number(float(value), source), scalar, lanes)

    low = limit(-top if target.is_signed else 0)
    inside = w.op(f"fcmp ogt {kind} {value}, {low}")  # false for NaN, which becomes the lower limit
    held = w.op(f"select {flags} {inside}, {kind} {value}, {kind} {low}")
    if target.is_signed:
        real = w.op(f"fcmp ord {kind} {value}, {value}")
        held = w.op(f"select {flags} {real}, {kind} {held}, {kind} {limit(0)}")
    inside = w.op(f"fcmp olt {kind} {held}, {limit(below)}")
    held = w.op(f"select {flags} {inside}, {kind} {held}, {kind} {limit(below)}")
    narrow = register(target, lanes)
    if target.bits < 32:
        whole = vector("i32", lanes)
        if rounds:
            name = f"llvm.lrint.{suffix('i32', lanes)}.{suffix(scalar, lanes)}"
            result = w.op(f"trunc {whole} {w.intrinsic(name, whole, (kind, held))} to {narrow}")
            if target.bits == 8:
                w.rounded_bytes[result] = value, target
            return result
        return w.op(f"trunc {whole} {w.op(f'fptosi {kind} {held} to {whole}')} to {narrow}")
    integer = w.op(f"fpto{'s' if target.is_signed else 'u'}i {kind} {held} to {narrow}")
    if below == top - 1:
        return integer
    over = w.op(f"fcmp oge {kind} {value}, {limit(top)}")
    last = constant(number(top - 1, target), register(target), lanes)
    return w.op(f"select {flags} {over}, {narrow} {last}, {narrow} {integer}")


Kind = tuple[DType, int]  # an element type, and the number of lanes


def bits(w: LlvmWriter, value: str, source: Kind, target: Kind, turned: bool) -> str:
    """Bitcast. When lanes are merged or split, the first has the lowest bits; LLVM's bitcast uses
    the machine's byte order, so on big-endian machines (`turned`) bytes are swapped.
    """
    before, after = memory(*source), memory(*target)
    if before == after:
        return value
    value = _swapped(w, value, source) if turned else value
    value = w.op(f"bitcast {before} {value} to {after}")
    return _swapped(w, value, target) if turned else value


def _swapped(w: LlvmWriter, value: str, kind: Kind) -> str:
    """Swaps the bytes of each lane."""
    dtype, lanes = kind
    if dtype.nbytes == 1:
        return value
    whole, own = vector(f"i{dtype.bits}", lanes), memory(dtype, lanes)
    value = w.op(f"bitcast {own} {value} to {whole}") if own != whole else value
    name = f"llvm.bswap.{suffix(f'i{dtype.bits}', lanes)}"
    value = w.intrinsic(name, whole, (whole, value))
    return w.op(f"bitcast {whole} {value} to {own}") if own != whole else value


def widen(w: LlvmWriter, value: str, source: DType, lanes: int, native: bool) -> str:
    """A 16-bit float as f32: exact."""
    whole, narrow, wide = vector("i32", lanes), vector("i16", lanes), vector("float", lanes)
    if source is DType.F16 and native:
        half = w.op(f"bitcast {narrow} {value} to {vector('half', lanes)}")
        return w.op(f"fpext {vector('half', lanes)} {half} to {wide}")
    b = Bits(w, lanes)
    bits = w.op(f"zext {narrow} {value} to {whole}")
    if source is DType.BF16:
        return w.op(f"bitcast {whole} {b.op('shl', bits, 16)} to {wide}")
    magnitude = b.op("shl", b.op("and", bits, 0x7FFF), 13)
    exponent = b.op("and", magnitude, 0x0F800000)
    moved = b.op("add", magnitude, (127 - 15) << 23)
    special = b.op("add", moved, (128 - 16) << 23)
    tiny = w.op(
        f"bitcast {whole} {b.op('add', moved, 1 << 23)} to {wide}"
    )  # subnormal: the subtraction normalizes it
    least = constant(number(2.0**-14, DType.F32), "float", lanes)
    normal = w.op(f"bitcast {wide} {w.op(f'fsub {wide} {tiny}, {least}')} to {whole}")
    result = b.choose(b.test("eq", exponent, 0), normal, moved)
    result = b.choose(b.test("eq", exponent, 0x0F800000), special, result)
    sign = b.op("shl", b.op("and", bits, 0x8000), 16)
    return w.op(f"bitcast {whole} {w.op(f'or {whole} {result}, {sign}')} to {wide}")


def _narrow(
    w: LlvmWriter, value: str, source: DType, target: DType, lanes: int, native: bool
) -> str:
    """Any float to a 16-bit float. f64 is first rounded to odd, so that the second rounding is the
    only effective one.
    """
    if source is DType.F64:
        value = _round_to_odd(w, value, lanes)
    elif source is not DType.F32:
        value = cast(w, value, source, DType.F32, lanes, native)
    whole, narrow, wide = vector("i32", lanes), vector("i16", lanes), vector("float", lanes)
    if target is DType.F16 and native:
        half = w.op(f"fptrunc {wide} {value} to {vector('half', lanes)}")
        return w.op(f"bitcast {vector('half', lanes)} {half} to {narrow}")
    b = Bits(w, lanes)
    bits = w.op(f"bitcast {wide} {value} to {whole}")
    if target is DType.BF16:
        odd = b.op("and", b.op("lshr", bits, 16), 1)
        rounded = b.op("lshr", w.op(f"add {whole} {b.op('add', bits, 0x7FFF)}, {odd}"), 16)
        quiet = b.op("or", b.op("lshr", bits, 16), 0x40)
        is_nan = w.op(f"fcmp uno {wide} {value}, {value}")
        return w.op(f"trunc {whole} {b.choose(is_nan, quiet, rounded)} to {narrow}")
    sign = b.op("and", b.op("lshr", bits, 16), 0x8000)
    magnitude = b.op("and", bits, 0x7FFFFFFF)
    odd = b.op("and", b.op("lshr", magnitude, 13), 1)
    normal = b.op(
        "lshr", w.op(f"add {whole} {b.op('add', magnitude, ((15 - 127) << 23) + 0xFFF)}, {odd}"), 13
    )
    magic = ((127 - 15) + (23 - 10) + 1) << 23
    small = w.op(f"bitcast {whole} {magnitude} to {wide}")
    half = constant(
        number(0.5, DType.F32), "float", lanes
    )  # its unit in the last place is the smallest subnormal of the 16-bit type
    aligned = w.op(f"bitcast {wide} {w.op(f'fadd {wide} {small}, {half}')} to {whole}")
    subnormal = b.op("sub", aligned, magic)
    result = b.choose(b.test("ult", magnitude, 113 << 23), subnormal, normal)
    result = b.choose(
        b.test("uge", magnitude, (127 + 16) << 23), constant("31744", "i32", lanes), result
    )
    result = b.choose(b.test("ugt", magnitude, 255 << 23), constant("32256", "i32", lanes), result)
    return w.op(f"trunc {whole} {w.op(f'or {whole} {result}, {sign}')} to {narrow}")


def _round_to_odd(w: LlvmWriter, value: str, lanes: int) -> str:
    """f64 to f32 rounded to odd: inexact results get an odd last bit, which a later rounding cannot
    mistake for a tie.
    """
    double, wide, whole = vector("double", lanes), vector("float", lanes), vector("i32", lanes)
    b = Bits(w, lanes)
    near = w.op(f"fptrunc {double} {value} to {wide}")
    back = w.op(f"fpext {wide} {near} to {double}")
    bits = w.op(f"bitcast {wide} {near} to {whole}")
    size, seen = (
        w.intrinsic(f"llvm.fabs.{suffix('double', lanes)}", double, (double, v))
        for v in (value, back)
    )
    over = w.op(f"fcmp ogt {double} {seen}, {size}")
    cut = b.choose(over, b.op("sub", bits, 1), bits)
    inexact = w.op(f"fcmp one {double} {seen}, {size}")
    odd = b.choose(inexact, b.op("or", cut, 1), bits)
    return w.op(f"bitcast {whole} {odd} to {wide}")


class Bits:
    """Operations of i32 lanes with constants."""

    def __init__(self, w: LlvmWriter, lanes: int) -> None:
        self.w, self.lanes, self.kind = w, lanes, vector("i32", lanes)

    def op(self, name: str, value: str, by: int) -> str:
        """A binary operation of the bits and a number."""
        return self.w.op(
            f"{name} {self.kind} {value}, {constant(number(by, DType.I32), 'i32', self.lanes)}"
        )

    def test(self, order: str, value: str, by: int) -> str:
        """A comparison of the bits with a number."""
        return self.op(f"icmp {order}", value, by)

    def choose(self, condition: str, then: str, otherwise: str) -> str:
        """A select for each lane."""
        flags = vector("i1", self.lanes)
        return self.w.op(f"select {flags} {condition}, {self.kind} {then}, {self.kind} {otherwise}")
