"""Spells every primitive in LLVM IR, with the semantics of `xlac_sdk.kernel_ir.primitives`."""

from __future__ import annotations

from xlac_cpu.emit.lanes import fold_lanes, literal_float, looked_up, scale
from xlac_cpu.emit.spelling import constant, is_literal, number, register, suffix, vector
from xlac_cpu.emit.writer import LlvmWriter
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.source import Diagnostic, UnsupportedError

P = Primitive

# Functions for which LLVM calls the C library, one lane at a time. The SDK expands them beforehand,
# except for types without an expansion.
_LIBRARY = {
    P.EXP: "exp", P.LOG: "log", P.SIN: "sin", P.COS: "cos", P.POW: "pow", P.EXP2: "exp2",
    P.LOG2: "log2", P.TANH: "tanh", P.ATAN2: "atan2",
}  # fmt: skip
_ROUNDING = {
    P.FLOOR: "floor",
    P.CEIL: "ceil",
    P.TRUNC: "trunc",
    P.ROUND: "roundeven",
    P.SQRT: "sqrt",
    P.ABS: "fabs",
}
_FLOAT = {
    P.ADD: "fadd contract",
    P.SUB: "fsub contract",
    P.MUL: "fmul contract",
    P.DIV: "fdiv",
    P.REM: "frem",
}
_INTEGER = {P.ADD: "add", P.SUB: "sub", P.MUL: "mul", P.AND: "and", P.OR: "or", P.XOR: "xor"}
_COMPARE_FLOAT = {P.LT: "olt", P.LE: "ole", P.EQ: "oeq", P.NE: "une"}
_COMPARE = {P.LT: "lt", P.LE: "le", P.EQ: "eq", P.NE: "ne"}

NATIVE = (
    frozenset(_ROUNDING)
    | frozenset(_FLOAT)
    | frozenset(_INTEGER)
    | frozenset(_COMPARE)
    | {
        P.MAX,
        P.MIN,
        P.SHL,
        P.SHR,
        P.SELECT,
        P.CAST,
        P.BITCAST,
        P.NEG,
        P.NOT,
        P.FMA,
        P.POPCNT,
        P.CLZ,
        P.LDEXP,
        P.DOT4,
        P.DOT2,
        P.LOOKUP,
    }
)
"""The primitives that are a few instructions everywhere (FMA, LDEXP, DOT4, DOT2, LOOKUP: where the
machine has them).
"""


def spell(w: LlvmWriter, primitive: Primitive, x: tuple[str, ...], dtype: DType, lanes: int) -> str:
    """A primitive on operands of `dtype` (f32, f64, integer or bool; no 16-bit floats), except
    casts.
    """
    spelled = (_of_floats if dtype.is_float else _of_integers)(w, primitive, x, dtype, lanes)
    if spelled is not None:
        return spelled
    problem = f"the cpu backend has no instructions for '{primitive.value}' of {dtype}"
    raise UnsupportedError(Diagnostic("XL5106", problem))


def _of_floats(
    w: LlvmWriter, primitive: Primitive, x: tuple[str, ...], dtype: DType, lanes: int
) -> str | None:
    kind, name = register(dtype, lanes), suffix(register(dtype), lanes)
    match primitive:
        case P.ADD | P.SUB | P.MUL | P.DIV | P.REM:
            return w.op(f"{_FLOAT[primitive]} {kind} {x[0]}, {x[1]}")
        case P.FMA:
            return w.intrinsic(f"llvm.fma.{name}", kind, *((kind, v) for v in x))
        case P.MAX | P.MIN:
            return _extremum(w, primitive, x[0], x[1], dtype, lanes)
        case P.LT | P.LE | P.EQ | P.NE:
            return w.op(f"fcmp {_COMPARE_FLOAT[primitive]} {kind} {x[0]}, {x[1]}")
        case P.NEG:
            return w.op(f"fneg {kind} {x[0]}")
        case P.FLOOR | P.CEIL | P.TRUNC | P.ROUND | P.SQRT | P.ABS:
            result = w.intrinsic(f"llvm.{_ROUNDING[primitive]}.{name}", kind, (kind, x[0]))
            if primitive is P.ROUND:
                w.rounded[result] = x[0]
            return result
        case P.LDEXP:
            return scale(w, x[0], x[1], dtype, lanes)
        case P.LOOKUP:
            return looked_up(w, x[:-1], x[-1], lanes)
        case _ if primitive in _LIBRARY:
            return w.intrinsic(f"llvm.{_LIBRARY[primitive]}.{name}", kind, *((kind, v) for v in x))
    return None


def _of_integers(
    w: LlvmWriter, primitive: Primitive, x: tuple[str, ...], dtype: DType, lanes: int
) -> str | None:
    kind, name = register(dtype, lanes), suffix(register(dtype), lanes)
    sign = "s" if dtype.is_signed else "u"
    match primitive:
        case P.ADD | P.SUB | P.MUL | P.AND | P.OR | P.XOR:
            return w.op(f"{_INTEGER[primitive]} {kind} {x[0]}, {x[1]}")
        case P.LT | P.LE:
            return w.op(f"icmp {sign}{_COMPARE[primitive]} {kind} {x[0]}, {x[1]}")
        case P.EQ | P.NE:
            return w.op(f"icmp {_COMPARE[primitive]} {kind} {x[0]}, {x[1]}")
        case P.MAX | P.MIN if dtype is DType.BOOL:
            return w.op(f"{'or' if primitive is P.MAX else 'and'} {kind} {x[0]}, {x[1]}")
        case P.MAX | P.MIN:
            return w.intrinsic(
                f"llvm.{sign}{primitive.value}.{name}", kind, (kind, x[0]), (kind, x[1])
            )
        case P.DIV | P.REM:
            return _divide(w, primitive, x[0], x[1], dtype, lanes)
        case P.SHL | P.SHR:
            return _shift(w, primitive, x[0], x[1], dtype, lanes)
        case P.NEG:
            return w.op(f"sub {kind} {constant('0', register(dtype), lanes)}, {x[0]}")
        case P.NOT:
            return w.op(f"xor {kind} {x[0]}, {constant('-1', register(dtype), lanes)}")
        case P.ABS:
            return (
                x[0]
                if not dtype.is_signed
                else w.intrinsic(f"llvm.abs.{name}", kind, (kind, x[0]), ("i1", "false"))
            )
        case P.POPCNT:
            return w.intrinsic(f"llvm.ctpop.{name}", kind, (kind, x[0]))
        case P.CLZ:
            return w.intrinsic(f"llvm.ctlz.{name}", kind, (kind, x[0]), ("i1", "false"))
    return None


def select(w: LlvmWriter, condition: str, then: str, otherwise: str, kind: str, lanes: int) -> str:
    """Lane by lane; `kind` is the type of the values."""
    if condition in ("true", "false"):
        return then if condition == "true" else otherwise
    return w.op(f"select {vector('i1', lanes)} {condition}, {kind} {then}, {kind} {otherwise}")


def fold(w: LlvmWriter, primitive: Primitive, value: str, dtype: DType, lanes: int) -> str:
    """The lanes of a vector combined."""

    def combine(parts: tuple[str, ...], wide: int) -> str:
        return spell(w, primitive, parts, dtype, wide)

    return fold_lanes(w, primitive, value, dtype, lanes, combine)


def _extremum(w: LlvmWriter, primitive: Primitive, a: str, b: str, dtype: DType, lanes: int) -> str:
    """Maximum or minimum: NaN if either operand is; +0 above -0. `llvm.maximum` has the same
    semantics but twice the cost on x86.

    x86's own instruction returns its second operand if the operands are unordered or both zero. So
    with a nonzero constant as first operand it suffices; for two variables it is applied in both
    orders, whose results differ only in those cases, and the bits are combined.
    """
    kind = register(dtype, lanes)
    up = primitive is P.MAX
    if literal_float(a):
        a, b = b, a
    bits = literal_float(b)
    if bits and not (int(bits, 16) >> 52 & 0x7FF == 0x7FF and int(bits, 16) & ((1 << 52) - 1)):
        flags = vector("i1", lanes)
        if int(bits, 16) << 1 & ((1 << 64) - 1):
            better = w.op(f"fcmp {'ogt' if up else 'olt'} {kind} {b}, {a}")
            return w.op(f"select {flags} {better}, {kind} {b}, {kind} {a}")
        negative = bits == "0x8000000000000000"
        keep = {
            (True, False): "ugt",
            (True, True): "uge",
            (False, True): "ult",
            (False, False): "ule",
        }[up, negative]
        better = w.op(f"fcmp {keep} {kind} {a}, {b}")
        return w.op(f"select {flags} {better}, {kind} {a}, {kind} {b}")
    flags, order = vector("i1", lanes), "ogt" if up else "olt"
    first = w.op(f"select {flags} {w.op(f'fcmp {order} {kind} {a}, {b}')}, {kind} {a}, {kind} {b}")
    second = w.op(f"select {flags} {w.op(f'fcmp {order} {kind} {b}, {a}')}, {kind} {b}, {kind} {a}")
    whole = register(DType.I64 if dtype is DType.F64 else DType.I32, lanes)
    i, k = (w.op(f"bitcast {kind} {v} to {whole}") for v in (first, second))
    scalar, mask = ("i64", str(-(1 << 63))) if dtype is DType.F64 else ("i32", str(-(1 << 31)))
    sign = constant(mask, scalar, lanes)
    if up and w.ternary and lanes * dtype.bits in (128, 256, 512):  # i | k, but i & k in the sign
        name = f"llvm.x86.avx512.pternlog.{'q' if dtype is DType.F64 else 'd'}.{lanes * dtype.bits}"
        either = w.intrinsic(name, whole, (whole, i), (whole, k), (whole, sign), ("i32", "212"))
        return w.op(f"bitcast {whole} {either} to {kind}")
    either = w.op(f"or {whole} {i}, {k}")  # or-ing bits into a NaN keeps it a NaN
    # otherwise the results differ only for zeros of opposite signs: drop the sign
    if up:
        differs = w.op(f"and {whole} {w.op(f'xor {whole} {i}, {k}')}, {sign}")
        either = w.op(f"xor {whole} {either}, {differs}")
    return w.op(f"bitcast {whole} {either} to {kind}")


def _scalar_of(text: str) -> int | None:
    """The value of an integer constant, scalar or splat."""
    if is_literal(text):
        return int(text)
    if text.startswith("splat (i"):
        return int(text[:-1].split()[-1])
    return None


def _divide(w: LlvmWriter, primitive: Primitive, a: str, b: str, dtype: DType, lanes: int) -> str:
    """Truncating; avoids the hardware's traps (a zero divisor, the smallest integer by -1)."""
    kind, scalar, flags = register(dtype, lanes), register(dtype), vector("i1", lanes)
    sign = "s" if dtype.is_signed else "u"
    instruction = f"{sign}{'div' if primitive is P.DIV else 'rem'} {kind}"
    known = _scalar_of(b)
    if known is not None and known not in (0, -1):
        return w.op(f"{instruction} {a}, {b}")
    zero, one, ones = (constant(v, scalar, lanes) for v in ("0", "1", "-1"))
    is_zero = w.op(f"icmp eq {kind} {b}, {zero}")
    unsafe = is_zero
    if dtype.is_signed:
        least = constant(number(1 << (dtype.bits - 1), dtype), scalar, lanes)
        minus = w.op(f"icmp eq {kind} {b}, {ones}")
        overflow = w.op(f"and {flags} {minus}, {w.op(f'icmp eq {kind} {a}, {least}')}")
        unsafe = w.op(f"or {flags} {is_zero}, {overflow}")
    safe = w.op(f"select {flags} {unsafe}, {kind} {one}, {kind} {b}")
    # by 1: gives the smallest integer, and a remainder of 0
    result = w.op(f"{instruction} {a}, {safe}")
    return w.op(
        f"select {flags} {is_zero}, {kind} {ones if primitive is P.DIV else a}, {kind} {result}"
    )


def _shift(w: LlvmWriter, primitive: Primitive, a: str, b: str, dtype: DType, lanes: int) -> str:
    """A shift distance outside the width gives 0, or sign bits."""
    kind, scalar, flags = register(dtype, lanes), register(dtype), vector("i1", lanes)
    arithmetic = primitive is P.SHR and dtype.is_signed
    instruction = f"{'shl' if primitive is P.SHL else 'ashr' if arithmetic else 'lshr'} {kind}"
    known = _scalar_of(b)
    if known is not None and 0 <= known < dtype.bits:
        return w.op(f"{instruction} {a}, {b}")
    last = constant(str(dtype.bits - 1), scalar, lanes)
    near = w.intrinsic(f"llvm.umin.{suffix(scalar, lanes)}", kind, (kind, b), (kind, last))
    shifted = w.op(f"{instruction} {a}, {near}")
    if arithmetic:
        return shifted
    inside = w.op(f"icmp ule {kind} {b}, {last}")
    return w.op(f"select {flags} {inside}, {kind} {shifted}, {kind} {constant('0', scalar, lanes)}")
