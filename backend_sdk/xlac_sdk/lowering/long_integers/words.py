"""A 64-bit integer as two words of u32, or as an i32 that has its value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Apply, Const, Expr, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.ranges import fits, type_range
from xlac_sdk.lowering.math.value import Value
from xlac_sdk.lowering.math.writer import Writer

P, I32, U32 = Primitive, DType.I32, DType.U32
LONG = frozenset({DType.I64, DType.U64})
Bounds = tuple[int, int]
INT = type_range(I32)
Word = Value | Callable[[], Value]


class LongInteger:
    """One 64-bit integer, in one lane or several.

    It is `narrow`, an i32 expression with the same value, which lies in `bounds`, or else two words
    of u32. The upper word may be given as a function: it is computed where it is first asked for,
    as addresses need the lower one only.
    """

    __slots__ = ("_high", "_low", "bounds", "lanes", "narrow", "on")

    def __init__(self, on: Writer, lanes: int) -> None:
        self.on, self.lanes = on, lanes
        self.narrow: Expr | None = None
        self.bounds: Bounds | None = None
        self._low: Word | None = None
        self._high: Word | None = None

    @staticmethod
    def of_int(on: Writer, expr: Expr, bounds: Bounds = INT) -> LongInteger:
        """An i32 expression, which lies in bounds."""
        made = LongInteger(on, expr.lanes)
        made.narrow, made.bounds = expr, bounds
        return made

    @staticmethod
    def of_words(low: Value, high: Word) -> LongInteger:
        """Two words."""
        made = LongInteger(low.on, low.lanes)
        made._low, made._high = low, high
        return made

    @staticmethod
    def of_loads(on: Writer, lanes: int, low: Word, high: Word) -> LongInteger:
        """Two words, each computed where it is asked for."""
        made = LongInteger(on, lanes)
        made._low, made._high = low, high
        return made

    @staticmethod
    def of_number(on: Writer, value: int, lanes: int = 1) -> LongInteger:
        """A constant, signed or not."""
        if fits((value, value), I32):
            return LongInteger.of_int(on, Const(value, I32, lanes), (value, value))
        low, high = value & 0xFFFFFFFF, (value >> 32) & 0xFFFFFFFF
        words = (Value(on, Const(word, U32, lanes)) for word in (low, high))
        return LongInteger.of_words(*words)

    @property
    def low(self) -> Value:
        """The lower 32 bits."""
        if self._low is None:
            assert self.narrow is not None
            self._low = word_of(self.on, self.narrow)
        elif not isinstance(self._low, Value):
            self._low = self._low()
        return self._low

    @property
    def high(self) -> Value:
        """The upper 32 bits: those of the sign for a narrow one."""
        if self._high is None:
            assert self.narrow is not None and self.bounds is not None
            if self.bounds[0] >= 0:
                self._high = self.low.like(0)
            else:
                self._high = (self.on.value(self.narrow) >> 31).cast(U32)
        elif not isinstance(self._high, Value):
            self._high = self._high()
        return self._high

    @property
    def index(self) -> Expr:
        """Its lower 32 bits as an i32: the whole of it where it is an index."""
        if self.narrow is not None:
            return self.narrow
        low = self.low.expr
        if isinstance(low, Const):
            return Const(signed(int(low.value)), I32, low.lanes)
        return Apply(P.CAST, (low,), I32, low.lanes)


def signed(word: int) -> int:
    """A word of u32 as an i32."""
    return word - (1 << 32) if word >> 31 else word


def word_of(on: Writer, narrow: Expr) -> Value:
    """An i32 as a word of u32."""
    if isinstance(narrow, Const):
        return Value(on, Const(int(narrow.value) & 0xFFFFFFFF, U32, narrow.lanes))
    return on.value(narrow).cast(U32)


def is_zero(word: Value) -> bool:
    """Whether a word is known to be 0."""
    return isinstance(word.expr, Const) and word.expr.value == 0


def int_var(var: Var) -> Var:
    """An index variable as an i32, with what is known of it as far as that fits."""
    low = var.low if var.low is not None and INT[0] <= var.low else None
    high = var.high if var.high is not None and var.high <= INT[1] else None
    return Var(var.name, I32, var.lanes, low, high, var.multiple)


def retyped(expr: Expr) -> Expr:
    """Arithmetic on a kernel's sizes as i32."""
    match expr:
        case Const(value=value, dtype=dtype) if dtype in LONG:
            return Const(value, I32)
        case Var():
            return int_var(expr)
        case Apply(operands=given, dtype=dtype):
            made = tuple(map(retyped, given))
            return replace(expr, operands=made, dtype=I32 if dtype in LONG else dtype)
    return expr
