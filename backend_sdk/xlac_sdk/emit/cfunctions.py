"""C functions for primitives that differ from C's operators, free of undefined behaviour.

A spelling such as `div_i32({0}, {1})` names one; `function("div_i32")` is its text. The name
consists of the primitive and the type, so each is made on demand from one pattern.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from xlac_sdk.dtypes import DType

TYPES = {
    DType.F64: "double", DType.F32: "float", DType.F16: "uint16_t", DType.BF16: "uint16_t",
    DType.I8: "int8_t", DType.I16: "int16_t", DType.I32: "int32_t", DType.I64: "int64_t",
    DType.U8: "uint8_t", DType.U16: "uint16_t", DType.U32: "uint32_t", DType.U64: "uint64_t",
    DType.BOOL: "unsigned char",
}  # fmt: skip
UNSIGNED = {8: "uint8_t", 16: "uint16_t", 32: "uint32_t", 64: "uint64_t"}


def arithmetic(dtype: DType) -> str:
    """The unsigned type for additions and multiplications of an integer type, which C never
    promotes to a signed one.
    """
    return "uint64_t" if dtype.bits == 64 else "uint32_t"


PATTERNS = {
    "div_i": """$t div_$d($t a, $t b)
{
    if (b == 0) return -1;
    return b == -1 ? ($t)(0u - ($w)a) : ($t)(a / b);
}""",
    "div_u": """$t div_$d($t a, $t b)
{
    return b == 0 ? ($t)-1 : ($t)(a / b);
}""",
    "rem_i": """$t rem_$d($t a, $t b)
{
    if (b == 0) return a;
    return b == -1 ? 0 : ($t)(a % b);
}""",
    "rem_u": """$t rem_$d($t a, $t b)
{
    return b == 0 ? a : ($t)(a % b);
}""",
    "shl_": """$t shl_$d($t a, $t b)
{
    return ($u)b < $n ? ($t)(($w)a << b) : 0;
}""",
    "shr_i": """$t shr_$d($t a, $t b)
{
    const int by = ($u)b < $n ? (int)b : $n - 1;
    return a < 0 ? ($t)~(($u)~($u)a >> by) : ($t)(($u)a >> by);
}""",
    "shr_u": """$t shr_$d($t a, $t b)
{
    return b < $n ? ($t)(a >> b) : 0;
}""",
    "max_": """$t max_$d($t a, $t b)
{
    if (a > b) return a;
    if (a < b) return b;
    return a == b && a != 0 ? a : a + b; /* zeros: +0 wins; otherwise NaN */
}""",
    "min_": """$t min_$d($t a, $t b)
{
    if (a < b) return a;
    if (a > b) return b;
    return a == b && a != 0 ? a : -(-a + -b); /* zeros: -0 wins; otherwise NaN */
}""",
    "pow_i": """$t pow_$d($t a, $t b)
{
    $w result = 1, square = ($w)a;
    if (b < 0) return a == 1 ? 1 : a == -1 ? ($t)(b % 2 != 0 ? -1 : 1) : 0;
    for (; b != 0; b = ($t)(b / 2)) {
        if (b % 2 != 0) result *= square;
        square *= square;
    }
    return ($t)result;
}""",
    "pow_u": """$t pow_$d($t a, $t b)
{
    $w result = 1, square = a;
    for (; b != 0; b = ($t)(b / 2)) {
        if (b % 2 != 0) result *= square;
        square *= square;
    }
    return ($t)result;
}""",
    "popcnt_": """$t popcnt_$d($t a)
{
    int count = 0;
    $u rest = ($u)a;
    for (; rest != 0; rest = ($u)(rest & (rest - 1u))) ++count;
    return ($t)count;
}""",
    "clz_": """$t clz_$d($t a)
{
    int count = $n;
    $u rest = ($u)a;
    for (; rest != 0; rest = ($u)(rest >> 1)) --count;
    return ($t)count;
}""",
}

BITCAST = """$t bitcast_$s_$d($f value)
{
    $t result;
    memcpy(&result, &value, sizeof result);
    return result;
}"""

# the bounds are powers of two, so exact; the comparisons are false for NaN
SATURATE = """$t cast_$s_$d($f value)
{
    if (value >= $above) return $max;
    if (value <= $low) return $min;
    return value == value ? ($t)value : 0;
}"""

# a line that ends in a backslash goes on: the text of C has lines longer than ours
HALVES = {
    "f32_of_f16": """float f32_of_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, \
rest = h & 0x3ffu;
    if (exponent == 0) return sign != 0 ? -((float)rest * 5.9604644775390625e-8f) \
: (float)rest * 5.9604644775390625e-8f;
    if (exponent == 31) return bitcast_u32_f32(sign | 0x7f800000u | rest << 13);
    return bitcast_u32_f32(sign | (exponent + 112u) << 23 | rest << 13);
}""",
    "f16_of_f32": """uint16_t f16_of_f32(float value)
{
    const uint32_t bits = bitcast_f32_u32(value), sign = bits >> 16 & 0x8000u, \
size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (size >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (size <= 0x33000000u) return (uint16_t)sign;
    if (size < 0x38800000u) { /* denormal: shift the significand, round to even */
        const uint32_t by = 126u - (size >> 23), all = (size & 0x7fffffu) | 0x800000u;
        const uint32_t kept = all >> by, rest = all & ((1u << by) - 1u), middle = 1u << (by - 1u);
        return (uint16_t)(sign | (kept + (rest > middle || \
(rest == middle && (kept & 1u) != 0) ? 1u : 0u)));
    }
    return (uint16_t)(sign | (size + 0xfffu + (size >> 13 & 1u) - 0x38000000u) >> 13);
}""",
    "f32_of_bf16": """float f32_of_bf16(uint16_t h)
{
    return bitcast_u32_f32((uint32_t)h << 16);
}""",
    "bf16_of_f32": """uint16_t bf16_of_f32(float value)
{
    const uint32_t bits = bitcast_f32_u32(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}""",
    "odd_of_f64": """float odd_of_f64(double value)
{
    /* rounded to odd, so that a second, narrower rounding gives what one would have */
    const float near = (float)value;
    const double back = (double)near;
    uint32_t bits = bitcast_f32_u32(near);
    if (back == value || value != value || near == 0 || (bits & 0x7f800000u) == 0x7f800000u \
|| (bits & 1u) != 0) return near;
    bits = (value > back) == (back > 0) ? bits + 1u : bits - 1u;
    return bitcast_u32_f32(bits);
}""",
}

_CALL = re.compile(r"\b((?:[a-z0-9]+_)+(?:[iuf]\d+|bf16|bool)(?:x\d+)?)\(")


def function(name: str, before: str = "static inline") -> str:
    """The text of a function, with the declaration specifiers `before`; KeyError if there is none
    of that name.
    """
    if name in HALVES:
        return f"{before} {HALVES[name]}"
    parts = name.split("_")
    dtype = DType(parts[-1])
    if parts[0] == "bitcast":
        return f"{before} {_fill(BITCAST, dtype, DType(parts[1]))}"
    if parts[0] == "cast":
        return f"{before} {_fill(SATURATE, dtype, DType(parts[1]))}"
    for key in (f"{parts[0]}_", f"{parts[0]}_{parts[-1][0]}"):
        if key in PATTERNS:
            return f"{before} {_fill(PATTERNS[key], dtype, dtype)}"
    raise KeyError(name)


def _fill(pattern: str, dtype: DType, source: DType) -> str:
    low, above = (
        (-(1 << (dtype.bits - 1)), 1 << (dtype.bits - 1))
        if dtype.is_signed
        else (0, 1 << dtype.bits)
    )
    suffix = "f" if source is DType.F32 else ""
    values = {
        "$above": f"{float(above)!r}{suffix}",
        "$low": f"{float(low)!r}{suffix}",
        "$max": integer(above - 1, dtype) if dtype.is_integer else "0",
        "$min": integer(low, dtype) if dtype.is_integer else "0",
        "$t": TYPES[dtype],
        "$f": TYPES[source],
        "$s": source.value,
        "$d": dtype.value,
        "$u": UNSIGNED[dtype.bits],
        "$w": arithmetic(dtype),
        "$n": str(dtype.bits),
    }
    for key, value in values.items():
        pattern = pattern.replace(key, value)
    return pattern


def integer(value: int, dtype: DType) -> str:
    """An integer literal with exactly that value and a type that holds it, without overflow in a
    negation.
    """
    if dtype is DType.U64:
        return f"UINT64_C({value})"
    if dtype is DType.U32:
        return f"{value}u"
    if dtype is DType.I64:
        return (
            f"INT64_C({value})"
            if value >= 0
            else f"(-INT64_C({-value - 1}) - 1)"
            if value == -(1 << 63)
            else f"(-INT64_C({-value}))"
        )
    if value == -(1 << 31):
        return "(-2147483647 - 1)"
    return str(value) if value >= 0 else f"({value})"


def needed(
    text: str, more: Mapping[str, str] | None = None, before: str = "static inline"
) -> list[str]:
    """The text of the functions that C text calls, each after those that it calls.

    `more` has functions of the caller's, by name; the others are declared with `before`.
    """
    texts: dict[str, str] = {}

    def visit(body: str) -> None:
        for name in dict.fromkeys(_CALL.findall(body)):
            if name in texts:
                continue
            try:
                inner = (more or {}).get(name) or function(name, before)
            except (KeyError, ValueError):
                continue
            visit(inner.partition("{")[2])
            texts[name] = inner

    visit(text)
    return list(texts.values())
