"""What expansions are written with: values with operators, named one by one in the block being
written.

`Writer.apply` names every result by a Let, never writes the same operation twice in one scope, and
expands at once what the target lacks, so an expansion may use any primitive and its result is
always legal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import (
    Apply,
    Assign,
    Const,
    Expr,
    Fold,
    For,
    If,
    Let,
    Splat,
    Stmt,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive, result_dtype
from xlac_sdk.target import Target

P = Primitive
Number = int | float | bool
Key = str | int | tuple["Key", ...]
Expansion = Callable[..., "Value"]  # (writer, *operands) -> result
Table = Mapping[Primitive, Expansion]


@dataclass(frozen=True, slots=True)
class Format:
    """How a float type is laid out. `bits` is the signed integer type of its width."""

    dtype: DType
    bits: DType
    unsigned: DType
    mantissa: int  # stored bits of the significand
    bias: int

    @property
    def width(self) -> int:
        return self.dtype.bits

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    @property
    def magic(self) -> float:
        """Adding it rounds a number below half of it to an integer, which is then in its low bits."""
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
        return self.expr.dtype

    @property
    def lanes(self) -> int:
        return self.expr.lanes

    @property
    def format(self) -> Format:
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
        return self.on.apply(P.EQ, self, other)

    def ne(self, other: Value | Number) -> Value:
        return self.on.apply(P.NE, self, other)

    def like(self, other: Value | Number) -> Value:
        """A number as a constant of this type."""
        if isinstance(other, Value):
            return other
        return Value(self.on, Const(_wrapped(other, self.dtype), self.dtype, self.lanes))

    def cast(self, dtype: DType) -> Value:
        return self if dtype is self.dtype else self.on.native(P.CAST, self, dtype=dtype)

    def bitcast(self, dtype: DType) -> Value:
        return self if dtype is self.dtype else self.on.native(P.BITCAST, self, dtype=dtype)

    @property
    def bits(self) -> Value:
        """A float's bits as a signed integer."""
        return self.bitcast(self.format.bits)

    @property
    def isnan(self) -> Value:
        return self.ne(self)

    def at_least(self, low: float) -> Value:
        """Clamped from below; NaN stays NaN. x86's max instruction is exactly this."""
        return self.on.select(self < low, self.like(low), self)

    def at_most(self, high: float) -> Value:
        return self.on.select(self.like(high) < self, self.like(high), self)


class Writer:
    """Writes statements ahead of the one being made legal. `fast` picks the less accurate
    expansions.
    """

    def __init__(
        self, target: Target, expansions: Table, fresh: Callable[[], str], fast: bool = False
    ) -> None:
        self.target, self.fast = target, fast
        self.statements: list[Stmt] = []
        self._expansions, self._fresh = expansions, fresh
        self._known: list[dict[Key, Value]] = [{}]
        self._mutable: set[str] = set()

    def take(self) -> list[Stmt]:
        """Everything written since the last call; what was computed is forgotten."""
        statements, self.statements = self.statements, []
        self._known = [{}]
        self._mutable.clear()
        return statements

    # ---- operations ---------------------------------------------------------------------------

    def apply(
        self, primitive: Primitive, *operands: Value | Number, dtype: DType | None = None
    ) -> Value:
        """A primitive, expanded if the target lacks it."""
        if self.spells(primitive, operands):
            return self.native(primitive, *operands, dtype=dtype)
        return self.expand(primitive, *self._values(operands))

    def expand(self, primitive: Primitive, *operands: Value) -> Value:
        """A primitive through its expansion, once a scope for equal operands."""
        key = ("expanded", primitive.value, *(_key(o.expr) for o in operands))
        known = self._recall(key)
        if known is None:
            known = self._expansions[primitive](self, *operands)
            self._remember(key, known)
        return known

    def native(
        self, primitive: Primitive, *operands: Value | Number, dtype: DType | None = None
    ) -> Value:
        """A primitive that the target is known to spell; scalars are widened to meet vectors."""
        exprs = tuple(v.expr for v in self._values(operands))
        lanes = max(e.lanes for e in exprs)
        exprs = tuple(build.splat(e, lanes) for e in exprs)
        result = dtype or result_dtype(primitive, tuple(e.dtype for e in exprs))
        return self.let(Apply(primitive, exprs, result, lanes))

    def spells(self, primitive: Primitive, operands: Sequence[Value | Number]) -> bool:
        which = operands[1] if primitive is P.SELECT and len(operands) > 1 else operands[0]
        return not isinstance(which, Value) or self.target.spells(primitive, which.dtype)

    def select(self, condition: Value, then: Value | Number, otherwise: Value | Number) -> Value:
        kind = then if isinstance(then, Value) else otherwise
        assert isinstance(kind, Value), "a choice between two numbers has no type"
        return self.native(P.SELECT, condition, kind.like(then), kind.like(otherwise))

    def fma(self, a: Value, b: Value | Number, c: Value | Number) -> Value:
        """`a * b + c`, rounded once where the target does so cheaply."""
        if self.fused(a.dtype):
            return self.native(P.FMA, a, a.like(b), a.like(c))
        return a * b + c

    def fused(self, dtype: DType) -> bool:
        """Whether the target has an instruction for `a * b + c`, rounded once."""
        return self.target.fma and self.target.spells(P.FMA, dtype)

    def polynomial(self, x: Value, coefficients: Sequence[float]) -> Value:
        """`c[0] + c[1] x + …` by Horner's rule."""
        total = x.like(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            total = self.fma(total, x, c)
        return total

    def any(self, condition: Value) -> Value:
        """True when a condition holds in some lane: a scalar."""
        return condition if condition.lanes == 1 else self.let(Fold(P.OR, condition.expr))

    # ---- names --------------------------------------------------------------------------------

    def value(self, expr: Expr) -> Value:
        """An expression as an operand; anything but a name or a constant is named first."""
        if isinstance(expr, Const | Var) or (
            isinstance(expr, Splat) and isinstance(expr.value, Var)
        ):
            return Value(self, expr)
        if isinstance(expr, Splat):
            return Value(self, Splat(self.value(expr.value).expr, expr.lanes))
        return self._name(expr)

    def let(self, expr: Expr) -> Value:
        """Names an operation on names and constants, once a scope."""
        key = _key(expr)
        known = self._recall(key)
        if known is None:
            known = self._name(expr)
            self._remember(key, known)
        return known

    def _name(self, expr: Expr) -> Value:
        var = Var(self._fresh(), expr.dtype, expr.lanes)
        self.statements.append(Let(var, expr))
        return Value(self, var)

    def variable(self, first: Value) -> Value:
        """A mutable name. Read it only where its value of the moment is meant."""
        var = Var(self._fresh(), first.dtype, first.lanes)
        self.statements.append(Let(var, first.expr, mutable=True))
        self._mutable.add(var.name)
        return Value(self, var)

    def assign(self, var: Value, value: Value) -> None:
        assert isinstance(var.expr, Var)
        self.statements.append(Assign(var.expr, build.splat(value.expr, var.lanes)))

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Statements under a scalar condition."""
        with self._block() as body:
            yield
        self.statements.append(If(condition.expr, tuple(body)))

    @contextmanager
    def repeat(self, count: Value) -> Iterator[None]:
        """Statements run a scalar number of times (an index)."""
        counter = Var(self._fresh(), build.INDEX)
        with self._block() as body:
            yield
        self.statements.append(For(counter, build.index(0), count.expr, tuple(body)))

    @contextmanager
    def _block(self) -> Iterator[list[Stmt]]:
        outer, self.statements = self.statements, []
        self._known.append({})
        yield self.statements
        self._known.pop()
        self.statements = outer

    # ---- remembering --------------------------------------------------------------------------

    def _values(self, operands: Sequence[Value | Number]) -> tuple[Value, ...]:
        kind = next(o for o in reversed(operands) if isinstance(o, Value))
        return tuple(kind.like(o) for o in operands)

    def _recall(self, key: Key) -> Value | None:
        for scope in reversed(self._known):
            if key in scope:
                return scope[key]
        return None

    def _remember(self, key: Key, value: Value) -> None:
        if not self._mutable or not self._reads_mutable(key):
            self._known[-1][key] = value

    def _reads_mutable(self, key: Key) -> bool:
        return key in self._mutable or (
            isinstance(key, tuple) and any(map(self._reads_mutable, key))
        )


def _key(expr: Expr) -> Key:
    """What makes two operations on names the same one. Constants count by their text: -0.0 is not
    0.0.
    """
    match expr:
        case Var(name=name):
            return name
        case Const(value=value, dtype=dtype, lanes=lanes):
            return (repr(value), dtype.value, lanes)
        case Splat(value=value, lanes=lanes):
            return ("splat", _key(value), lanes)
        case Fold(primitive=primitive, value=value):
            return ("fold", primitive.value, _key(value))
        case Apply(primitive=primitive, operands=operands, dtype=dtype):
            return (primitive.value, dtype.value, *map(_key, operands))
    raise TypeError(f"{type(expr).__name__} is not written by expansions")


def _wrapped(number: Number, dtype: DType) -> Number:
    """A constant in the range of its type: bit patterns may be written either way."""
    if dtype.is_float:
        return float(number)
    if dtype is DType.BOOL:
        return bool(number)
    number = int(number) & ((1 << dtype.bits) - 1)
    return number - (1 << dtype.bits) if dtype.is_signed and number >> (dtype.bits - 1) else number
