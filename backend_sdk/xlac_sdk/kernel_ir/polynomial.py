"""Division of indices by symbolic extents.

An index is a sum of products with constant factors (`sums.terms`), so it is a polynomial over the
kernel's variables, and is divided by an extent as a polynomial: `row * n + column` by `n` is `row`,
with the remainder `column` if `column` is known to be below `n`. Divisions that do not simplify
stay run-time divisions.
"""

from __future__ import annotations

from xlac_sdk.kernel_ir.bounds import bounds
from xlac_sdk.kernel_ir.indexing import add, index, mul, ramp, splat, sub
from xlac_sdk.kernel_ir.kernel import Apply, Const, Expr, Ramp, Splat, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.sums import INDEX, ONE, P, Terms, factors, joined, product, terms, total


def divmod_by(a: Expr, k: Expr) -> tuple[Expr, Expr]:
    """Quotient and remainder of an index by a size that is positive whenever this is evaluated; `a`
    is not negative.
    """
    if isinstance(a, Splat):
        quotient, rest = divmod_by(a.value, k)
        return splat(quotient, a.lanes), splat(rest, a.lanes)
    if isinstance(a, Ramp):
        quotient, rest = divide(a.base, k)
        if a.stride > 0 and _positive(rest) and is_below(add(rest, a.stride * (a.lanes - 1)), k):
            return splat(quotient, a.lanes), ramp(rest, a.stride, a.lanes)
    elif a.lanes == 1:
        quotient, rest = divide(a, k)
        if _positive(rest):
            if is_below(rest, k):
                return quotient, rest
            return add(quotient, Apply(P.DIV, (rest, k), INDEX)), Apply(P.REM, (rest, k), INDEX)
    by = splat(k, a.lanes)
    return Apply(P.DIV, (a, by), INDEX, a.lanes), Apply(P.REM, (a, by), INDEX, a.lanes)


def divide(a: Expr, k: Expr) -> tuple[Expr, Expr]:
    """`a` as `quotient * k + rest`, by dividing whole terms: the rest may be negative, or at least
    k.
    """
    lead, by = _leading(terms(k))
    rest, quotient = dict(terms(a)), dict[Expr, int]()
    for _ in range(len(rest) + 8):  # a step removes a leading term and may add smaller ones
        divisible = next(
            (t for t, f in rest.items() if f % by == 0 and _without(t, lead) is not None), None
        )
        if divisible is None:
            break
        left = _without(divisible, lead)
        assert left is not None
        step = {left: rest[divisible] // by}
        for term, factor in product(step, terms(k)).items():
            rest[term] = rest.get(term, 0) - factor
        rest = {t: f for t, f in rest.items() if f}
        quotient[left] = quotient.get(left, 0) + step[left]
    return total(quotient), total(rest)


def _leading(parts: Terms) -> tuple[Expr, int]:
    """The term with the most variables, and its factor."""
    lead = max((t for t in parts if t != ONE), key=lambda t: (len(factors(t)), str(t)))
    return lead, parts[lead]


def _without(term: Expr, lead: Expr) -> Expr | None:
    """A product divided by another, if exact."""
    left = factors(term)
    for part in factors(lead):
        if part not in left:
            return None
        left.remove(part)
    return joined(left)


def _positive(expr: Expr) -> bool:
    low = bounds(expr)[0]
    return low is not None and low >= 0


def is_below(a: Expr, k: Expr) -> bool:
    """Whether an index is known to be less than a size."""
    return _positive(sub(sub(k, 1), greatest(a)))


def greatest(expr: Expr) -> Expr:
    """An upper bound of an index, over the kernel's sizes and unbounded variables."""
    result: Expr = index(0)
    for term, factor in terms(expr).items():
        parts = factors(term)
        if factor > 0 and all(map(_positive, parts)):
            most: Expr = index(factor)
            for part in parts:
                most = mul(most, _most(part))
            result = add(result, most)
        else:
            result = add(result, mul(term, factor))
    return result


def _most(part: Expr) -> Expr:
    match part:
        case Var(below=below) if below is not None:
            return sub(below, 1)
        case Apply(Primitive.REM, (_, k)):
            return sub(k, 1)
        case Apply(Primitive.DIV, (a, k)):
            quotient, rest = (
                divide(greatest(a), k)
                if not isinstance(k, Const)
                else _by_constant(greatest(a), int(k.value))
            )
            low, high = bounds(rest)
            if high is not None and high < 0 and low is not None:
                return sub(quotient, 1)  # the rest is at least -k: round to the multiple of k below
            if _positive(rest) and is_below(rest, k):
                return quotient
    return part


def _by_constant(a: Expr, k: int) -> tuple[Expr, Expr]:
    quotient = {t: f // k for t, f in terms(a).items() if f // k}
    rest = {t: f % k for t, f in terms(a).items() if f % k}
    return total(quotient), total(rest)
