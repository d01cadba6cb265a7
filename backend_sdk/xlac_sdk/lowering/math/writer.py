"""The writer of expansions: values with operators, each named in the current block.

`Writer.apply` names every result by a Let, reuses equal operations within a scope, and expands
immediately what the target lacks, so an expansion may use any primitive and its result is always
legal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

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
from xlac_sdk.lowering.math.value import Number, Value
from xlac_sdk.target import Target

P = Primitive

Key = str | int | tuple["Key", ...]
Expansion = Callable[..., "Value"]  # (writer, *operands) -> result
Table = Mapping[Primitive, Expansion]


class Writer:
    """Writes the statements that precede a legalized one. `fast` selects less accurate
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
        """The statements written since the last call; reusable values are dropped."""
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
        """The expansion of a primitive, once per scope for equal operands."""
        key = ("expanded", primitive.value, *(_key(o.expr) for o in operands))
        known = self._recall(key)
        if known is None:
            known = self._expansions[primitive](self, *operands)
            self._remember(key, known)
        return known

    def native(
        self, primitive: Primitive, *operands: Value | Number, dtype: DType | None = None
    ) -> Value:
        """A primitive that the target is known to support; scalars are broadcast to
        match vectors.
        """
        exprs = tuple(v.expr for v in self._values(operands))
        lanes = max(e.lanes for e in exprs)
        exprs = tuple(build.splat(e, lanes) for e in exprs)
        result = dtype or result_dtype(primitive, tuple(e.dtype for e in exprs))
        return self.let(Apply(primitive, exprs, result, lanes))

    def spells(self, primitive: Primitive, operands: Sequence[Value | Number]) -> bool:
        """Whether the target supports a primitive on operands of a type."""
        which = operands[1] if primitive is P.SELECT and len(operands) > 1 else operands[0]
        return not isinstance(which, Value) or self.target.spells(primitive, which.dtype)

    def select(self, condition: Value, then: Value | Number, otherwise: Value | Number) -> Value:
        """`then` where the condition holds, else `otherwise`."""
        kind = then if isinstance(then, Value) else otherwise
        assert isinstance(kind, Value), "a choice between two numbers has no type"
        return self.native(P.SELECT, condition, kind.like(then), kind.like(otherwise))

    def fma(self, a: Value, b: Value | Number, c: Value | Number) -> Value:
        """`a * b + c`, rounded once if the target has an instruction for it."""
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

    def lookup(self, entries: Sequence[float], index: Value, like: Value) -> Value:
        """The entries of a table, numbers of the type of `like`, at the lowest bits of indices."""
        return self.apply(P.LOOKUP, *map(like.like, entries), index)

    def any(self, condition: Value) -> Value:
        """Whether a condition holds in some lane, as a scalar."""
        return condition if condition.lanes == 1 else self.let(Fold(P.OR, condition.expr))

    # ---- names --------------------------------------------------------------------------------

    def value(self, expr: Expr) -> Value:
        """An expression as an operand; named first unless it is a name or a constant."""
        if isinstance(expr, Const | Var) or (
            isinstance(expr, Splat) and isinstance(expr.value, Var)
        ):
            return Value(self, expr)
        if isinstance(expr, Splat):
            return Value(self, Splat(self.value(expr.value).expr, expr.lanes))
        return self._name(expr)

    def let(self, expr: Expr) -> Value:
        """Names an operation on names and constants, once per scope."""
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
        """A mutable variable. It must be read only where its current value is meant."""
        var = Var(self._fresh(), first.dtype, first.lanes)
        self.statements.append(Let(var, first.expr, mutable=True))
        self._mutable.add(var.name)
        return Value(self, var)

    def assign(self, var: Value, value: Value) -> None:
        """Assigns a value to a variable."""
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
        """Statements run a scalar number of times, an integer."""
        counter = Var(self._fresh(), count.dtype)
        with self._block() as body:
            yield
        start = Const(0, count.dtype)
        self.statements.append(For(counter, start, count.expr, tuple(body)))

    @contextmanager
    def _block(self) -> Iterator[list[Stmt]]:
        outer, self.statements = self.statements, []
        self._known.append({})
        yield self.statements
        self._known.pop()
        self.statements = outer

    # ---- reuse of equal operations ------------------------------------------------------------

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
    """The key under which equal operations on names are shared. Constants are distinguished by
    text: -0.0 is not 0.0.
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
