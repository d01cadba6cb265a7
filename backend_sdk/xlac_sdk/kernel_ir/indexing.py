"""Index arithmetic that simplifies as it is built, and other expression constructors.

Indices stay in a canonical form: a sum of products of variables, each with a constant factor, plus
a constant, under at most one `Ramp` (`sums.py`). So a schedule writes `row * width + column`, which
is a contiguous vector access if `column` is a ramp of stride 1. A symbolic extent (`dims.Sym`) may
be used wherever a number may; `division.py` divides by either.
"""

from __future__ import annotations

from xlac_sdk.dims import Dim, Quotient, Sym, Symbol
from xlac_sdk.dims import bounds as bounds_of
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.bounds import bounds, multiple
from xlac_sdk.kernel_ir.kernel import Apply, Const, Expr, Ramp, Splat, Var
from xlac_sdk.kernel_ir.primitives import Primitive, result_dtype
from xlac_sdk.kernel_ir.sums import (
    INDEX,
    ONE,
    Terms,
    constant,
    divided,
    plus,
    product,
    rejoin,
    terms,
    total,
    undivided,
)

P = Primitive
index = constant


Number = Expr | Dim  # operands of index arithmetic


def lift(value: Number) -> Expr:
    """A number as an expression; a symbolic size becomes an expression over the kernel's sizes."""
    if isinstance(value, int):
        return index(value)
    return _sized(value) if isinstance(value, Sym) else value


def size_var(symbol: Symbol) -> Var:
    """The kernel size for a symbol."""
    return Var(symbol.identifier, INDEX, 1, symbol.min, symbol.max, symbol.multiple_of)


def _sized(size: Sym) -> Expr:
    result: Expr = index(0)
    for monomial, factor in size.parts:
        term: Expr = index(factor)
        for atom in monomial:
            term = mul(term, size_var(atom) if isinstance(atom, Symbol) else _floor(atom))
        result = add(result, term)
    return result


def _floor(quotient: Quotient) -> Expr:
    """A division that rounds down, as in sizes; the kernel's truncates."""
    low = bounds_of(quotient.dividend)[0]
    up = max(0, -(low // quotient.divisor))
    moved = add(quotient.dividend, up * quotient.divisor)
    return sub(divmod_constant(moved, quotient.divisor)[0], up)


def splat(value: Expr, lanes: int) -> Expr:
    """`value` broadcast to `lanes`; a vector of that many lanes is returned unchanged."""
    if value.lanes == lanes:
        return value
    assert value.lanes == 1, f"cannot widen {value.lanes} lanes to {lanes}"
    if isinstance(value, Const):
        return Const(value.value, value.dtype, lanes)
    return Splat(value, lanes)


def apply(primitive: Primitive, *operands: Expr, dtype: DType | None = None) -> Expr:
    """A primitive on operands, with scalars broadcast to match vectors."""
    lanes = max([o.lanes for o in operands])
    wide = tuple([splat(o, lanes) for o in operands])
    result = dtype or result_dtype(primitive, tuple([o.dtype for o in operands]))
    return Apply(primitive, wide, result, lanes)


def cast(value: Expr, dtype: DType) -> Expr:
    """A value converted to a type; the same object if it has that type."""
    if value.dtype is dtype:
        return value
    if isinstance(value, Splat):
        return Splat(cast(value.value, dtype), value.lanes)
    return Apply(P.CAST, (value,), dtype, value.lanes)


def select(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    """`then` where the condition holds, else `otherwise`, for each lane."""
    return apply(P.SELECT, condition, then, otherwise)


# ---- index arithmetic ------------------------------------------------------------------------


def add(a: Number, b: Number) -> Expr:
    """Index addition."""
    a, b = lift(a), lift(b)
    if a.lanes == b.lanes == 1:
        if isinstance(a, Const):
            a, b = b, a
        if isinstance(b, Const):
            return plus(a, int(b.value))
        sums = dict(terms(a))
        for term, factor in terms(b).items():
            sums[term] = sums.get(term, 0) + factor
        return total(rejoin(sums))
    lanes = max(a.lanes, b.lanes)
    base, stride, vectors = _vector_terms(a)
    base2, stride2, vectors2 = _vector_terms(b)
    for term, factor in vectors2.items():
        vectors[term] = vectors.get(term, 0) + factor
    return _vector_total(add(base, base2), stride + stride2, vectors, lanes)


def mul(a: Number, b: Number) -> Expr:
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
            return splat(index(0), lanes)
        if k == 1:
            return splat(a, lanes)
        if lanes == 1:
            return total({t: f * k for t, f in terms(a).items()})
        base, stride, vectors = _vector_terms(a)
        return _vector_total(
            mul(base, k), stride * k, {t: f * k for t, f in vectors.items()}, lanes
        )
    if a.lanes == b.lanes == 1:
        return total(rejoin(product(terms(a), terms(b))))
    if a.lanes < b.lanes:
        a, b = b, a
    if b.lanes > 1:
        return apply(P.MUL, a, b)
    base, stride, vectors = _vector_terms(a)
    wide = {apply(P.MUL, term, b): factor for term, factor in vectors.items()}
    if stride:
        wide[apply(P.MUL, Ramp(index(0), stride, a.lanes), b)] = 1
    return _vector_total(mul(base, b), 0, wide, a.lanes)


def _vector_terms(expr: Expr) -> tuple[Expr, int, Terms]:
    """An index as a scalar, a stride between lanes, and a sum of vectors of unknown form."""
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
    """The inverse of `_vector_terms`."""
    for term, factor in vectors.items():
        known = undivided(term)
        if known is not None and factor and vectors.get(known[0]) == factor * known[2]:
            quotient, e, _ = known
            rest = {t: f for t, f in vectors.items() if t != term and t != quotient}
            base2, stride2, vectors2 = _vector_terms(e)
            for t, f in vectors2.items():
                rest[t] = rest.get(t, 0) + f * factor
            return _vector_total(
                add(base, mul(base2, factor)), stride + stride2 * factor, rest, lanes
            )
    result: Expr | None = (
        ramp(base, stride, lanes)
        if stride or base != index(0) or not any(vectors.values())
        else None
    )
    for term, factor in vectors.items():
        if factor:
            one = term if factor == 1 else apply(P.MUL, term, index(factor))
            result = one if result is None else apply(P.ADD, result, one)
    assert result is not None
    return result


def sub(a: Number, b: Number) -> Expr:
    """Index subtraction."""
    a, b = lift(a), lift(b)
    if a.lanes == b.lanes == 1:
        if isinstance(b, Const):
            return plus(a, -int(b.value))
        gap = dict(terms(a))
        for term, factor in terms(b).items():
            gap[term] = gap.get(term, 0) - factor
        return total(rejoin(gap))
    return add(a, mul(b, -1))


def ramp(base: Number, stride: int, lanes: int) -> Expr:
    """A vector of indices; a stride of 0 gives a splat, one lane a scalar."""
    base = lift(base)
    if lanes == 1:
        return base
    return splat(base, lanes) if stride == 0 else Ramp(base, stride, lanes)


def _split(expr: Expr, k: int) -> tuple[Expr, Expr]:
    """A scalar index as `quotient * k + rest`, with every term that k divides in the quotient."""
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


def divmod_constant(a: Expr, k: int) -> tuple[Expr, Expr]:
    """Quotient and remainder of an index by a positive number; the index is not negative."""
    if k == 1:
        return a, splat(index(0), a.lanes)
    low, high = bounds(a)
    if low is not None and low >= 0 and high is not None and high < k:
        return splat(index(0), a.lanes), a
    if isinstance(a, Const):
        whole, left = divmod(int(a.value), k)
        return Const(whole, INDEX, a.lanes), Const(left, INDEX, a.lanes)
    if isinstance(a, Splat):
        q, r = divmod_constant(a.value, k)
        return splat(q, a.lanes), splat(r, a.lanes)
    if isinstance(a, Ramp):
        quotient, rest = _split(a.base, k)
        low, high = bounds(rest)
        positive = low is not None and low >= 0
        if a.stride % k == 0 and positive:
            q, r = divmod_constant(rest, k)
            return ramp(add(quotient, q), a.stride // k, a.lanes), splat(r, a.lanes)
        span = a.stride * (a.lanes - 1)
        inside = positive and high is not None and a.stride > 0 and high + span < k
        if (
            not inside
            and positive
            and a.stride > 0
            and k % (a.stride * a.lanes) == 0
            and multiple(rest) % (a.stride * a.lanes) == 0
        ):
            q, r = divmod_constant(rest, k)  # the lanes of the ramp do not cross a multiple of k
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
            return add(quotient, divided(rest, k)), Apply(P.REM, (rest, by), INDEX)
    by = Const(k, INDEX, a.lanes)
    return divided(a, k), Apply(P.REM, (a, by), INDEX, a.lanes)
