"""Scalar indices as sums of products in a canonical form.

`indexing.py`, with which schedules build indices, keeps them in this form.
"""

from __future__ import annotations

from functools import lru_cache

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.bounds import bounds
from xlac_sdk.kernel_ir.kernel import Apply, Const, Expr, Var
from xlac_sdk.kernel_ir.primitives import Primitive

INDEX = DType.I64  # the type of every index expression; a backend may narrow it if that is safe

P = Primitive
# scalar index expressions and their factors; Const(1) has the constant term
Terms = dict[Expr, int]
ONE = Const(1, INDEX)


@lru_cache(maxsize=4096)
def constant(value: int) -> Const:
    """A constant index."""
    return Const(value, INDEX)


def terms(expr: Expr) -> Terms:
    """A scalar index expression as a sum; any other form is a single opaque term."""
    found: Terms = {}
    _gather(expr, 1, found)
    return found if all(found.values()) else {t: f for t, f in found.items() if f}


def _gather(expr: Expr, factor: int, found: Terms) -> None:
    """Adds the terms of `expr` times a factor."""
    term: Expr = expr
    match expr:
        case Apply(Primitive.ADD, (a, b)):
            _gather(a, factor, found)
            _gather(b, factor, found)
            return
        case Apply(Primitive.MUL, (a, Const(value=k))):
            _gather(a, factor * int(k), found)
            return
        case Const(value=value):
            term, factor = ONE, factor * int(value)
    found[term] = found.get(term, 0) + factor


def factors(term: Expr) -> list[Expr]:
    """The factors of a term."""
    match term:
        case Apply(Primitive.MUL, (a, b)):
            return [*factors(a), b]
    return [] if term == ONE else [term]


def product(a: Terms, b: Terms) -> Terms:
    """The product of two sums."""
    summed: Terms = {}
    for left, k in a.items():
        for right, j in b.items():
            term = joined([*factors(left), *factors(right)])
            summed[term] = summed.get(term, 0) + k * j
    return {t: f for t, f in summed.items() if f}


def joined(parts: list[Expr]) -> Expr:
    """The canonical form of a product."""
    if not parts:
        return ONE
    first, *rest = sorted(
        parts, key=lambda part: part.name if isinstance(part, Var) else f"~{part}"
    )
    for part in rest:
        first = Apply(P.MUL, (first, part), INDEX)
    return first


def total(parts: Terms) -> Expr:
    """The inverse of `terms`."""
    result: Expr | None = None
    for term, factor in parts.items():
        if term == ONE or not factor:
            continue
        one = term if factor == 1 else Apply(P.MUL, (term, constant(factor)), INDEX)
        result = one if result is None else Apply(P.ADD, (result, one), INDEX)
    rest = parts.get(ONE, 0)
    if result is None:
        return constant(rest)
    return Apply(P.ADD, (result, constant(rest)), INDEX) if rest else result


def plus(a: Expr, k: int) -> Expr:
    """A scalar plus a number: the constant is the last term of a sum."""
    rest: Expr | None = a
    match a:
        case Const(value=value):
            rest, k = None, k + int(value)
        case Apply(Primitive.ADD, (inner, Const(value=value))):
            rest, k = inner, k + int(value)
    if rest is None:
        return constant(k)
    return Apply(P.ADD, (rest, constant(k)), INDEX) if k else rest


def undivided(term: Expr) -> tuple[Expr, Expr, int] | None:
    """For `e rem k`: the expression of `e div k`, e, and k."""
    match term:
        case Apply(Primitive.REM, (e, Const(value=k))) if int(k) > 0:
            return divided(e, int(k)), e, int(k)
    return None


def divided(e: Expr, k: int) -> Expr:
    """The opaque quotient of an index by a constant; nested quotients become one division."""
    match e:
        case Apply(Primitive.DIV, (inner, Const(value=j))) if int(j) > 0 and _positive(inner):
            return Apply(P.DIV, (inner, Const(int(j) * k, INDEX, e.lanes)), INDEX, e.lanes)
    return Apply(P.DIV, (e, Const(k, INDEX, e.lanes)), INDEX, e.lanes)


def _positive(expr: Expr) -> bool:
    low = bounds(expr)[0]
    return low is not None and low >= 0


def rejoin(factors: Terms) -> Terms:
    """Simplifies `(e div k) * k + e rem k` to e, which arises from a reshape of a reshape."""
    for term in factors:
        known = undivided(term)
        if known is None:
            if isinstance(term, Apply):
                again = _rejoin_open(factors, term)
                if again is not None:
                    return again
            continue
        quotient, e, k = known
        factor = factors[term]
        if factor and factors.get(quotient) == factor * k:
            rest = {t: f for t, f in factors.items() if t != term and t != quotient}
            for t, f in terms(e).items():
                rest[t] = rest.get(t, 0) + f * factor
            return rejoin(rest)
    return factors


def _rejoin_open(summed: Terms, term: Apply) -> Terms | None:
    """The same if k, or the factor of the remainder, is a symbolic size."""
    parts = factors(term)
    for part in parts:
        match part:
            case Apply(Primitive.REM, (e, k)):
                around = {joined([p for p in parts if p is not part]): summed[term]}
                quotient = (
                    divided(e, int(k.value))
                    if isinstance(k, Const)
                    else Apply(P.DIV, (e, k), INDEX)
                )
                whole = product(product({quotient: 1}, terms(k)), around)
                if all(summed.get(t) == f for t, f in whole.items()):
                    rest = {t: f for t, f in summed.items() if t != term and t not in whole}
                    for t, f in product(terms(e), around).items():
                        rest[t] = rest.get(t, 0) + f
                    return rejoin({t: f for t, f in rest.items() if f})
    return None
