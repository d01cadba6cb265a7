"""Values that expansions compute with: expressions with operators, tied to the writer that made
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive

if TYPE_CHECKING:
    from xlac_sdk.lowering.math.writer import Writer

P = Primitive


Number = int | float | bool


@dataclass(frozen=True, slots=True)
class Format:
    """The layout of a float type. `bits` is the signed integer type of its width."""

    dtype: DType
    bits: DType
    unsigned: DType
    mantissa: int  # stored bits of the significand
    bias: int

    @property
    def width(self) -> int:
        """Bits of the format."""
        return self.dtype.bits

    @property
    def smallest_normal(self) -> float:
        """The smallest normal number."""
        return 2.0 ** (1 - self.bias)

    @property
    def magic(self) -> float:
        """Adding it rounds a number below half of it to an integer, which is then in
        the low bits.
        """
        return 1.5 * 2.0**self.mantissa

    def pattern(self, value: float) -> int:
        """The bits of a number, as a signed integer."""
        import struct

        kind = ("<f", "<i") if self.dtype is DType.F32 else ("<d", "<q")
        return int(struct.unpack(kind[1], struct.pack(kind[0], value))[0])


F32 = Format(DType.F32, DType.I32, DType.U32, 23, 127)


F64 = Format(DType.F64, DType.I64, DType.U64, 52, 1023)


class Value:
    """A named value or constant, with Python's operators. Comparisons give bools; `==` is `eq`."""

    __slots__ = ("expr", "on")

    def __init__(self, on: Writer, expr: Expr) -> None:
        self.on, self.expr = on, expr

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.expr.dtype

    @property
    def lanes(self) -> int:
        """The number of lanes."""
        return self.expr.lanes

    @property
    def format(self) -> Format:
        """Its floating-point format."""
        return F32 if self.dtype is DType.F32 else F64

    def __add__(self, other: Value | Number) -> Value:
        return self.on.apply(P.ADD, self, other)

    def __radd__(self, other: Number) -> Value:
        return self.on.apply(P.ADD, self.like(other), self)

    def __sub__(self, other: Value | Number) -> Value:
        return self.on.apply(P.SUB, self, other)

    def __rsub__(self, other: Number) -> Value:
        return self.on.apply(P.SUB, self.like(other), self)

    def __mul__(self, other: Value | Number) -> Value:
        return self.on.apply(P.MUL, self, other)

    def __rmul__(self, other: Number) -> Value:
        return self.on.apply(P.MUL, self.like(other), self)

    def __truediv__(self, other: Value | Number) -> Value:
        return self.on.apply(P.DIV, self, other)

    def __rtruediv__(self, other: Number) -> Value:
        return self.on.apply(P.DIV, self.like(other), self)

    def __neg__(self) -> Value:
        return self.on.apply(P.NEG, self)

    def __abs__(self) -> Value:
        return self.on.apply(P.ABS, self)

    def __and__(self, other: Value | Number) -> Value:
        return self.on.apply(P.AND, self, other)

    def __or__(self, other: Value | Number) -> Value:
        return self.on.apply(P.OR, self, other)

    def __xor__(self, other: Value | Number) -> Value:
        return self.on.apply(P.XOR, self, other)

    def __invert__(self) -> Value:
        return self.on.apply(P.NOT, self)

    def __lshift__(self, count: Value | int) -> Value:
        return self.on.native(P.SHL, self, count)

    def __rshift__(self, count: Value | int) -> Value:
        return self.on.native(P.SHR, self, count)

    def __lt__(self, other: Value | Number) -> Value:
        return self.on.apply(P.LT, self, other)

    def __gt__(self, other: Value | Number) -> Value:
        return self.on.apply(P.LT, self.like(other), self)

    def __le__(self, other: Value | Number) -> Value:
        return self.on.apply(P.LE, self, other)

    def __ge__(self, other: Value | Number) -> Value:
        return self.on.apply(P.LE, self.like(other), self)

    def eq(self, other: Value | Number) -> Value:
        """Whether they are equal, lane by lane."""
        return self.on.apply(P.EQ, self, other)

    def ne(self, other: Value | Number) -> Value:
        """Whether they differ, lane by lane."""
        return self.on.apply(P.NE, self, other)

    def like(self, other: Value | Number) -> Value:
        """A number as a constant of this type."""
        if isinstance(other, Value):
            return other
        return Value(self.on, Const(_wrapped(other, self.dtype), self.dtype, self.lanes))

    def cast(self, dtype: DType) -> Value:
        """The value converted to a type."""
        return self if dtype is self.dtype else self.on.native(P.CAST, self, dtype=dtype)

    def bitcast(self, dtype: DType) -> Value:
        """Its bits as another type of that width."""
        return self if dtype is self.dtype else self.on.native(P.BITCAST, self, dtype=dtype)

    @property
    def bits(self) -> Value:
        """A float's bits as a signed integer."""
        return self.bitcast(self.format.bits)

    @property
    def isnan(self) -> Value:
        """Whether it is NaN, lane by lane."""
        return self.ne(self)

    def at_least(self, low: float) -> Value:
        """Clamped from below; NaN stays NaN, as with x86's max instruction."""
        return self.on.select(self < low, self.like(low), self)

    def at_most(self, high: float) -> Value:
        """Clamped from above."""
        return self.on.select(self.like(high) < self, self.like(high), self)


def _wrapped(number: Number, dtype: DType) -> Number:
    """A constant in the range of its type; bit patterns may be given as signed or unsigned."""
    if dtype.is_float:
        return float(number)
    if dtype is DType.BOOL:
        return bool(number)
    number = int(number) & ((1 << dtype.bits) - 1)
    return number - (1 << dtype.bits) if dtype.is_signed and number >> (dtype.bits - 1) else number
