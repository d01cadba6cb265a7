"""The scalar operations of kernel IR, their types and their meaning in NumPy.

Semantics, settled once for every backend (StableHLO's, or XLA CPU's where StableHLO leaves a
choice):

* integers wrap; `x / 0` is all ones (-1) and `x rem 0` is x; the smallest integer / -1 is itself;
* `div` of integers truncates, `rem` has the dividend's sign, for floats as C's fmod;
* `max` and `min` of floats return NaN when either operand is NaN; +0 is larger than -0;
* a shift by at least the width gives 0, or all sign bits for `shr` of a signed integer;
* `cast` of a float to an integer truncates, saturates, and turns NaN into 0; to bool it is `x !=
  0`;
* `cast` to a narrower float rounds to nearest even; between integers it wraps;
* `round` goes to the nearest integer, ties to even;
* `gelu(x)` is x Phi(x), with Phi the normal distribution function; -0 at -inf, its limit;
* `ldexp(x, n)` is x * 2^n, rounded once, for a whole number n in the float type of x;
* `bitcast` keeps all bits of its operand: lanes of a wider type are joined from, and those of a
  narrower one are parts of, neighbouring lanes, the lowest bits first;
* `dot4(x, y, total)` is total plus the products of the four bytes of x and of y, in i32, which
  wraps: those of x are signed where it is i32, unsigned where it is u32; those of y are signed;
* `lookup(c0, …, c15, i)` is c[i mod 16], for an i32 i.
"""

from __future__ import annotations

from enum import Enum

from xlac_sdk.dtypes import DType


class Primitive(Enum):
    """A scalar operation; its value is its name in text."""

    # ---- mandatory: every backend spells these -------------------------------------------------
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    REM = "rem"
    MAX = "max"
    LT = "lt"
    EQ = "eq"
    AND = "and"
    OR = "or"
    XOR = "xor"
    SHL = "shl"
    SHR = "shr"
    SELECT = "select"
    CAST = "cast"
    BITCAST = "bitcast"
    FLOOR = "floor"
    EXP = "exp"
    LOG = "log"
    SIN = "sin"
    SQRT = "sqrt"
    # ---- optional: the SDK expands what a target does not list in `Target.primitives` -----------
    MIN = "min"
    LE = "le"
    NE = "ne"
    NEG = "neg"
    ABS = "abs"
    NOT = "not"
    FMA = "fma"
    CEIL = "ceil"
    TRUNC = "trunc"
    ROUND = "round"
    POW = "pow"
    EXP2 = "exp2"
    EXPM1 = "expm1"
    LOG2 = "log2"
    LOG1P = "log1p"
    COS = "cos"
    TANH = "tanh"
    SIGMOID = "sigmoid"
    ERF = "erf"
    GELU = "gelu"
    RSQRT = "rsqrt"
    LDEXP = "ldexp"
    ATAN2 = "atan2"
    POPCNT = "popcnt"
    CLZ = "clz"
    DOT4 = "dot4"
    DOT2 = "dot2"
    LOOKUP = "lookup"

    __hash__ = object.__hash__  # Enum's own method is slow Python, and kernels use these often

    def __repr__(self) -> str:
        return self.value

    @property
    def arity(self) -> int:
        """The number of operands."""
        return _ARITY.get(self, 2)

    @property
    def is_comparison(self) -> bool:
        """Whether the result is bool for all operand types."""
        return self in _COMPARISONS


_COMPARISONS = frozenset({Primitive.LT, Primitive.EQ, Primitive.LE, Primitive.NE})
_UNARY = (
    "cast bitcast floor exp log sin sqrt neg abs not ceil trunc round exp2 expm1 log2 log1p cos "
    "tanh sigmoid erf gelu rsqrt popcnt clz"
)
_TERNARY = (Primitive.SELECT, Primitive.FMA, Primitive.DOT4, Primitive.DOT2)
ENTRIES = 16  # of a table that `lookup` takes
_ARITY = {Primitive(name): 1 for name in _UNARY.split()} | dict.fromkeys(_TERNARY, 3)
_ARITY[Primitive.LOOKUP] = ENTRIES + 1
MANDATORY = frozenset(list(Primitive)[:21])
_TRANSCENDENTAL = "exp log sin pow exp2 expm1 log2 log1p cos tanh sigmoid erf gelu rsqrt atan2"
TRANSCENDENTAL = frozenset(map(Primitive, _TRANSCENDENTAL.split()))


# the operand whose type is the result's
_RESULT = {Primitive.SELECT: 1, Primitive.DOT4: 2, Primitive.DOT2: 2}


def operand_dtypes(primitive: Primitive, dtype: DType) -> tuple[DType, ...]:
    """The operand types of a primitive on values of `dtype`: select takes a condition first,
    dot4 and dot2 add to an i32, lookup takes an index last.
    """
    if primitive is Primitive.SELECT:
        return DType.BOOL, dtype, dtype
    if primitive is Primitive.DOT4:
        return dtype, DType.I32, DType.I32
    if primitive is Primitive.LOOKUP:
        return *(dtype,) * ENTRIES, DType.I32
    return (dtype,) * primitive.arity


def result_dtype(primitive: Primitive, operands: tuple[DType, ...]) -> DType:
    """The result type, for every primitive whose type follows from its operands (all but casts)."""
    if primitive.is_comparison:
        return DType.BOOL
    return operands[_RESULT.get(primitive, 0)]
