"""Writes kernel IR: expressions that simplify as they are made, and a builder for statements.

Index arithmetic stays in a canonical form: a sum of `Var * constant` plus a constant, under at most one
`Ramp`. So a schedule writes `row * width + column` and a contiguous vector access falls out when
`column` is a ramp of stride 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel import (
    Allocate,
    Apply,
    Assign,
    Barrier,
    Buffer,
    Const,
    Expr,
    Fold,
    For,
    If,
    Let,
    Load,
    LoopKind,
    Prefetch,
    Ramp,
    Space,
    Splat,
    Stmt,
    Store,
    Var,
)  # fmt: skip
from xlac_sdk.primitives import Primitive, result_dtype

INDEX = DType.I64  # the type of every index expression; a backend may narrow it where that is safe

P = Primitive


def index(value: int) -> Const:
    return Const(value, INDEX)


def lift(value: Expr | int) -> Expr:
    return Const(value, INDEX) if isinstance(value, int) else value


def splat(value: Expr, lanes: int) -> Expr:
    """`value` widened to `lanes`; a vector of that many lanes is returned as it is."""
    if value.lanes == lanes:
        return value
    assert value.lanes == 1, f"cannot widen {value.lanes} lanes to {lanes}"
    if isinstance(value, Const):
        return Const(value.value, value.dtype, lanes)
    return Splat(value, lanes)


def apply(primitive: Primitive, *operands: Expr, dtype: DType | None = None) -> Expr:
    """A primitive on operands, scalars widened to meet vectors."""
    lanes = max(o.lanes for o in operands)
    wide = tuple(splat(o, lanes) for o in operands)
    result = dtype or result_dtype(primitive, tuple(o.dtype for o in operands))
    return Apply(primitive, wide, result, lanes)


def cast(value: Expr, dtype: DType) -> Expr:
    if value.dtype is dtype:
        return value
    if isinstance(value, Splat):
        return Splat(cast(value.value, dtype), value.lanes)
    return Apply(P.CAST, (value,), dtype, value.lanes)


def select(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    return apply(P.SELECT, condition, then, otherwise)


# ---- index arithmetic ------------------------------------------------------------------------

Terms = dict[Expr, int]  # scalar index expressions and their factors; Const(1) holds the constant
ONE = Const(1, INDEX)


def terms(expr: Expr) -> Terms:
    """A scalar index expression as a sum; anything that is not one is a single opaque term."""
    match expr:
        case Const(value=value):
            return {ONE: int(value)} if value else {}
        case Apply(Primitive.ADD, (a, b)):
            found = dict(terms(a))
            for term, factor in terms(b).items():
                found[term] = found.get(term, 0) + factor
            return {t: f for t, f in found.items() if f}
        case Apply(Primitive.MUL, (a, Const(value=k))):
            return {t: f * int(k) for t, f in terms(a).items() if f * int(k)}
    return {expr: 1}


def total(parts: Terms) -> Expr:
    """The expression that `terms` takes apart."""
    result: Expr | None = None
    for term, factor in parts.items():
        if term == ONE or not factor:
            continue
        one = term if factor == 1 else Apply(P.MUL, (term, Const(factor, INDEX)), INDEX)
        result = one if result is None else Apply(P.ADD, (result, one), INDEX)
    constant = parts.get(ONE, 0)
    if result is None:
        return Const(constant, INDEX)
    return Apply(P.ADD, (result, Const(constant, INDEX)), INDEX) if constant else result


def add(a: Expr | int, b: Expr | int) -> Expr:
    """Index addition."""
    a, b = lift(a), lift(b)
    if a.lanes == b.lanes == 1:
        found = dict(terms(a))
        for term, factor in terms(b).items():
            found[term] = found.get(term, 0) + factor
        return total(_rejoin(found))
    lanes = max(a.lanes, b.lanes)
    base, stride, vectors = _vector_terms(a)
    base2, stride2, vectors2 = _vector_terms(b)
    for term, factor in vectors2.items():
        vectors[term] = vectors.get(term, 0) + factor
    return _vector_total(add(base, base2), stride + stride2, vectors, lanes)


def mul(a: Expr | int, b: Expr | int) -> Expr:
    """Index multiplication."""
    a, b = lift(a), lift(b)
    if isinstance(a, Const):
        a, b = b, a
    if isinstance(b, Const):
        k = int(b.value)
        if isinstance(a, Const):
            return Const(int(a.value) * k, INDEX, max(a.lanes, b.lanes))
        lanes = max(a.lanes, b.lanes)
        if k == 0:
            return splat(Const(0, INDEX), lanes)
        if k == 1:
            return splat(a, lanes)
        if lanes == 1:
            return total({t: f * k for t, f in terms(a).items()})
        base, stride, vectors = _vector_terms(a)
        return _vector_total(mul(base, k), stride * k, {t: f * k for t, f in vectors.items()}, lanes)
    return apply(P.MUL, a, b)


def _quotient(term: Expr) -> tuple[Expr, Expr, int] | None:
    """For `e rem k`: what `e div k` is written as, e, and k."""
    match term:
        case Apply(Primitive.REM, (e, Const(value=k))) if int(k) > 0:
            return _divide(e, int(k)), e, int(k)
    return None


def _divide(e: Expr, k: int) -> Expr:
    """The opaque quotient of an index by a constant; quotients of quotients are one division."""
    match e:
        case Apply(Primitive.DIV, (inner, Const(value=j))) if int(j) > 0 and _positive(inner):
            return Apply(P.DIV, (inner, Const(int(j) * k, INDEX, e.lanes)), INDEX, e.lanes)
    return Apply(P.DIV, (e, Const(k, INDEX, e.lanes)), INDEX, e.lanes)


def _positive(expr: Expr) -> bool:
    low = bounds(expr)[0]
    return low is not None and low >= 0


def _rejoin(found: Terms) -> Terms:
    """`(e div k) * k + e rem k` is e: what a reshape of a reshape comes to."""
    for term in found:
        known = _quotient(term)
        if known is None:
            continue
        quotient, e, k = known
        factor = found[term]
        if factor and found.get(quotient) == factor * k:
            rest = {t: f for t, f in found.items() if t != term and t != quotient}
            for t, f in terms(e).items():
                rest[t] = rest.get(t, 0) + f * factor
            return _rejoin(rest)
    return found


def _vector_terms(expr: Expr) -> tuple[Expr, int, Terms]:
    """An index as a scalar, the step from lane to lane, and a sum of vectors of no known form."""
    match expr:
        case Const(value=value):
            return Const(value, INDEX), 0, {}
        case Splat(value=value):
            return value, 0, {}
        case Ramp(base=base, stride=stride):
            return base, stride, {}
        case Apply(Primitive.ADD, (a, b)) if expr.lanes > 1:
            base, stride, vectors = _vector_terms(a)
            base2, stride2, vectors2 = _vector_terms(b)
            for term, factor in vectors2.items():
                vectors[term] = vectors.get(term, 0) + factor
            return add(base, base2), stride + stride2, vectors
        case Apply(Primitive.MUL, (a, Const(value=k))) if expr.lanes > 1:
            base, stride, vectors = _vector_terms(a)
            return mul(base, int(k)), stride * int(k), {t: f * int(k) for t, f in vectors.items()}
    return (expr, 0, {}) if expr.lanes == 1 else (index(0), 0, {expr: 1})


def _vector_total(base: Expr, stride: int, vectors: Terms, lanes: int) -> Expr:
    """The expression that `_vector_terms` takes apart."""
    for term, factor in vectors.items():
        known = _quotient(term)
        if known is not None and factor and vectors.get(known[0]) == factor * known[2]:
            quotient, e, _ = known
            rest = {t: f for t, f in vectors.items() if t != term and t != quotient}
            base2, stride2, vectors2 = _vector_terms(e)
            for t, f in vectors2.items():
                rest[t] = rest.get(t, 0) + f * factor
            return _vector_total(add(base, mul(base2, factor)), stride + stride2 * factor, rest, lanes)
    result: Expr | None = ramp(base, stride, lanes) if stride or base != index(0) or not any(vectors.values()) else None
    for term, factor in vectors.items():
        if factor:
            one = term if factor == 1 else apply(P.MUL, term, index(factor))
            result = one if result is None else apply(P.ADD, result, one)
    assert result is not None
    return result


def sub(a: Expr | int, b: Expr | int) -> Expr:
    """Index subtraction."""
    return add(a, mul(b, -1))


def ramp(base: Expr | int, stride: int, lanes: int) -> Expr:
    """A vector of indices; a stride of 0 is a splat, one lane a scalar."""
    base = lift(base)
    if lanes == 1:
        return base
    return splat(base, lanes) if stride == 0 else Ramp(base, stride, lanes)


def bounds(expr: Expr) -> tuple[int | None, int | None]:
    """The least and greatest value that a scalar or vector index can take, where known."""
    match expr:
        case Const(value=value):
            return int(value), int(value)
        case Var(low=low, high=high):
            return low, high
        case Splat(value=value):
            return bounds(value)
        case Ramp(base=base, stride=stride, lanes=lanes):
            low, high = bounds(base)
            span = stride * (lanes - 1)
            return (None if low is None else low + min(span, 0)), (None if high is None else high + max(span, 0))
        case Apply(Primitive.ADD, (a, b)):
            (al, ah), (bl, bh) = bounds(a), bounds(b)
            return (None if al is None or bl is None else al + bl), (None if ah is None or bh is None else ah + bh)
        case Apply(Primitive.MUL, (a, Const(value=value))):
            k = int(value)
            low, high = bounds(a)
            ends = [None if e is None else e * k for e in (low, high)]
            return (ends[0], ends[1]) if k >= 0 else (ends[1], ends[0])
        case Apply(Primitive.REM, (a, Const(value=value))) if (bounds(a)[0] or 0) >= 0 and int(value) > 0:
            return (0, int(value) - 1) if bounds(a)[0] is not None else (None, None)
        case Apply(Primitive.DIV, (a, Const(value=value))) if int(value) > 0:
            low, high = bounds(a)
            if low is not None and low >= 0:
                return low // int(value), None if high is None else high // int(value)
    return None, None


def multiple(expr: Expr) -> int:
    """A positive number that divides every value of a scalar index (0 when the value is 0)."""
    from math import gcd

    match expr:
        case Const(value=value):
            return abs(int(value))
        case Var(multiple=known):
            return known
        case Apply(Primitive.ADD, (a, b)):
            return gcd(multiple(a), multiple(b))
        case Apply(Primitive.MUL, (a, b)):
            return multiple(a) * multiple(b)
    return 1


def _split(expr: Expr, k: int) -> tuple[Expr, Expr]:
    """A scalar index as `quotient * k + rest`, moving every term that k divides into the quotient."""
    quotient: Terms = {}
    rest: Terms = {}
    for term, factor in terms(expr).items():
        if factor % k == 0:
            quotient[term] = factor // k
        elif term == ONE and factor >= k:
            quotient[term], rest[term] = factor // k, factor % k
        else:
            rest[term] = factor
    return total(quotient), total(rest)


def div(a: Expr | int, k: int) -> Expr:
    """Index division by a positive constant; the dividend is not negative."""
    return _divmod(lift(a), k)[0]


def mod(a: Expr | int, k: int) -> Expr:
    """Index remainder by a positive constant; the dividend is not negative."""
    return _divmod(lift(a), k)[1]


def _divmod(a: Expr, k: int) -> tuple[Expr, Expr]:
    if k == 1:
        return a, splat(index(0), a.lanes)
    low, high = bounds(a)
    if low is not None and low >= 0 and high is not None and high < k:
        return splat(index(0), a.lanes), a
    if isinstance(a, Splat):
        q, r = _divmod(a.value, k)
        return splat(q, a.lanes), splat(r, a.lanes)
    if isinstance(a, Ramp):
        quotient, rest = _split(a.base, k)
        low, high = bounds(rest)
        positive = low is not None and low >= 0
        if a.stride % k == 0 and positive:
            q, r = _divmod(rest, k)
            return ramp(add(quotient, q), a.stride // k, a.lanes), splat(r, a.lanes)
        span = a.stride * (a.lanes - 1)
        inside = positive and high is not None and a.stride > 0 and high + span < k
        if not inside and positive and a.stride > 0 and k % (a.stride * a.lanes) == 0 and multiple(rest) % (a.stride * a.lanes) == 0:
            q, r = _divmod(rest, k)  # the base never lets the ramp cross a multiple of k
            return splat(add(quotient, q), a.lanes), ramp(r, a.stride, a.lanes)
        if inside:
            return splat(quotient, a.lanes), ramp(rest, a.stride, a.lanes)
    elif a.lanes == 1:
        quotient, rest = _split(a, k)
        low, high = bounds(rest)
        if isinstance(rest, Const) and 0 <= int(rest.value) < k:
            return quotient, rest
        if low is not None and low >= 0:
            if high is not None and high < k:
                return quotient, rest
            by = index(k)
            return add(quotient, _divide(rest, k)), Apply(P.REM, (rest, by), INDEX)
    by = Const(k, INDEX, a.lanes)
    return _divide(a, k), Apply(P.REM, (a, by), INDEX, a.lanes)


# ---- statements ------------------------------------------------------------------------------


class Builder:
    """Collects statements. Nested blocks are Python `with` blocks, so a schedule reads like its loop nest."""

    def __init__(self) -> None:
        self._blocks: list[list[Stmt]] = [[]]
        self._counts: dict[str, int] = {}

    def fresh(self, hint: str) -> str:
        """An identifier not used before in this kernel."""
        count = self._counts.get(hint, 0)
        self._counts[hint] = count + 1
        return f"{hint}_{count}" if count else hint

    def emit(self, stmt: Stmt) -> None:
        self._blocks[-1].append(stmt)

    @property
    def open_blocks(self) -> tuple[list[Stmt], ...]:
        """The blocks being written, outermost first: whoever remembers names can tell which are in scope."""
        return tuple(self._blocks)

    def body(self) -> tuple[Stmt, ...]:
        """Everything written so far."""
        assert len(self._blocks) == 1, "a block is still open"
        return tuple(self._blocks[0])

    @contextmanager
    def block(self) -> Iterator[list[Stmt]]:
        """Collects statements apart; the caller decides where they go."""
        self._blocks.append([])
        yield self._blocks[-1]
        self._blocks.pop()

    @contextmanager
    def loop(
        self, hint: str, start: Expr | int, stop: Expr | int, step: int = 1,
        kind: LoopKind = LoopKind.SERIAL, grain: int = 1,
    ) -> Iterator[Expr]:  # fmt: skip
        """A loop; yields its counter. A loop of exactly one iteration is replaced by its body, unless PARALLEL."""
        start, stop = lift(start), lift(stop)
        count: int | None = None  # iterations, where known
        if isinstance(start, Const) and isinstance(stop, Const):
            count = max(0, -(-(int(stop.value) - int(start.value)) // step))
        if count == 1 and kind is not LoopKind.PARALLEL:
            yield start
            return
        low, high = bounds(start)[0], bounds(stop)[1]
        if count and high is not None and low is not None and high > low:
            high = low + (high - low - 1) // step * step
        elif high is not None:
            high -= 1
        from math import gcd

        by = gcd(multiple(start), step)
        counter = Var(self.fresh(hint), INDEX, low=low, high=high, multiple=by)
        with self.block() as body:
            yield counter
        if count != 0:
            self.emit(For(counter, start, stop, tuple(body), step, kind, grain))

    def let(self, hint: str, value: Expr) -> Expr:
        """Names a value; constants and names are returned as they are."""
        if isinstance(value, Const | Var):
            return value
        low, high = bounds(value) if value.dtype is INDEX else (None, None)
        by = multiple(value) if value.dtype is INDEX and value.lanes == 1 else 1
        var = Var(self.fresh(hint), value.dtype, value.lanes, low, high, by or 1)
        self.emit(Let(var, value))
        return var

    def variable(self, hint: str, value: Expr) -> Var:
        """A mutable name with a first value."""
        var = Var(self.fresh(hint), value.dtype, value.lanes)
        self.emit(Let(var, value, mutable=True))
        return var

    def assign(self, var: Var, value: Expr) -> None:
        self.emit(Assign(var, splat(value, var.lanes)))

    def local(self, hint: str, dtype: DType, size: int, space: Space = Space.LOCAL) -> Buffer:
        buffer = Buffer(self.fresh(hint), dtype, size, space)
        self.emit(Allocate(buffer))
        return buffer

    def store(
        self, buffer: Buffer, at: Expr | int, value: Expr, mask: Expr | None = None, *,
        align: int = 0, streaming: bool = False, atomic: Primitive | None = None,
    ) -> None:  # fmt: skip
        """Writes a value. Constant-stride-1 ramps become consecutive stores."""
        where = lift(at)
        if isinstance(where, Ramp) and where.stride == 1:
            value, where = splat(value, where.lanes), where.base
        elif where.lanes > 1:
            value = splat(value, where.lanes)
        self.emit(Store(buffer, where, value, mask, align, streaming, atomic))

    def when(self, condition: Expr) -> _When:
        return _When(self, condition)

    def barrier(self) -> None:
        self.emit(Barrier())

    def prefetch(self, buffer: Buffer, at: Expr | int, write: bool = False) -> None:
        self.emit(Prefetch(buffer, lift(at), write))


class _When:
    """`with builder.when(c): …` writes an If."""

    def __init__(self, builder: Builder, condition: Expr) -> None:
        self.builder, self.condition = builder, condition

    def __enter__(self) -> None:
        self._block = self.builder.block()
        self._body = self._block.__enter__()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._block.__exit__(None, None, None)
        if kind is None and self._body:
            self.builder.emit(If(self.condition, tuple(self._body)))


def load(buffer: Buffer, at: Expr | int, lanes: int = 1, mask: Expr | None = None, align: int = 0) -> Expr:
    """Reads elements: consecutive for a stride-1 ramp, gathered for another vector, else one.

    With `lanes > 1` and a scalar index, reads that many consecutive elements.
    """
    where = lift(at)
    if isinstance(where, Splat):
        return Splat(Load(buffer, where.value), where.lanes) if mask is None else Load(buffer, where, where.lanes, mask)
    if isinstance(where, Ramp) and where.stride == 1:
        return Load(buffer, where.base, where.lanes, mask, align)
    if isinstance(where, Const) and where.lanes > 1:
        return Splat(Load(buffer, index(int(where.value))), where.lanes)
    return Load(buffer, where, max(lanes, where.lanes), mask, align)


def fold(primitive: Primitive, value: Expr) -> Expr:
    return value if value.lanes == 1 else Fold(primitive, value)
