"""Integer vectors as a scalar base plus a constant offset per lane, and inequalities between
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import add, sub

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Apply, Const, Expr, Ramp, Splat, Var
from xlac_sdk.kernel_ir.polynomial import greatest
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.ranges import fits

P = Primitive


@dataclass(frozen=True, slots=True)
class LaneForm:
    """The integers `base + offsets[lane]`, where the base is affine in variables with known
    bounds.
    """

    base: Expr
    offsets: tuple[int, ...]

    def minus(self, other: LaneForm) -> LaneForm:
        """The difference, lane by lane."""
        a, b = self.base, other.base
        base = build.index(0) if a is b else build.sub(a, b)
        return LaneForm(base, _each(sub, self.offsets, other.offsets))

    @property
    def range(self) -> tuple[int | None, int | None]:
        """The least and the greatest value over all lanes, if known."""
        low, high = build.bounds(self.base)
        return (
            None if low is None else low + min(self.offsets),
            None if high is None else high + max(self.offsets),
        )


def _each(of: Callable[[int, int], int], a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """A function of two numbers, lane by lane."""
    assert len(a) == len(b)
    return tuple(map(of, a, b))


Forms = Mapping[str, LaneForm]
"""The forms of names of index expressions."""
FormsOf = dict[int, tuple[Expr, LaneForm | None]]
"""The forms of expressions by identity, with the expression, so that its id is not reused."""


def lane_form(expr: Expr, forms: Forms, met: FormsOf) -> LaneForm | None:
    """The form of an integer expression; None if it is not affine in variables with known bounds,
    or may overflow. `met` remembers those of applications.
    """
    match expr:
        case Const(value=value, dtype=dtype, lanes=lanes) if dtype.is_integer:
            return LaneForm(build.index(0), (int(value),) * lanes)
        case Var(name=name, dtype=dtype, lanes=lanes, low=low):
            known = forms.get(name)
            if known is None and dtype is DType.I64 and lanes == 1 and low is not None:
                return LaneForm(expr, (0,))
            return known
        case Splat(value=value, lanes=lanes):
            one = lane_form(value, forms, met)
            return None if one is None else LaneForm(one.base, one.offsets * lanes)
        case Ramp(base=value, stride=stride, lanes=lanes):
            one = lane_form(value, forms, met)
            if one is None:
                return None
            first = one.offsets[0]
            return LaneForm(one.base, tuple([first + stride * lane for lane in range(lanes)]))
        case Apply(primitive=primitive, operands=operands, dtype=dtype) if (
            dtype.is_integer and primitive in _AFFINE
        ):
            if id(expr) in met:
                return met[id(expr)][1]
            parts = list[LaneForm]()
            met[id(expr)] = expr, None
            for operand in operands:
                one = lane_form(operand, forms, met)
                if one is None:
                    return None
                parts.append(one)
            form = _applied(primitive, parts)
            met[id(expr)] = expr, form if _holds(form, dtype) else None
            return met[id(expr)][1]
    return None


_AFFINE = frozenset({P.CAST, P.ADD, P.SUB, P.MUL, P.DIV, P.REM, P.MIN, P.MAX})


def _holds(form: LaneForm | None, dtype: DType) -> bool:
    """Whether every value of a form fits a type. Indices over sizes without a bound are assumed
    to.
    """
    if form is None:
        return False
    low, high = form.range
    if low is None or high is None:
        return dtype is DType.I64 and low is not None
    return fits((low, high), dtype)


def _applied(primitive: Primitive, parts: list[LaneForm]) -> LaneForm | None:
    match primitive, parts:
        case Primitive.CAST, [one]:
            return one
        case Primitive.ADD, [a, b]:
            return LaneForm(build.add(a.base, b.base), _each(add, a.offsets, b.offsets))
        case Primitive.SUB, [a, b]:
            return a.minus(b)
        case Primitive.MUL, [a, b]:
            return _product(a, b)
        case ((Primitive.MIN | Primitive.MAX), [a, b]):
            gap = a.minus(b)
            if not isinstance(gap.base, Const):
                return None
            # whether a - b is less than zero, per lane
            more = (int(gap.base.value) + offset for offset in gap.offsets)
            taken = min if primitive is P.MIN else max
            pairs = zip(b.offsets, more, strict=True)
            return LaneForm(b.base, tuple(offset + taken(0, n) for offset, n in pairs))
        case ((Primitive.DIV | Primitive.REM), [a, b]):
            k = _number(b)
            return _quotient(primitive, a, k) if k is not None and k > 0 else None
    return None


def _number(form: LaneForm) -> int | None:
    """The value of a form that is one constant in every lane."""
    if isinstance(form.base, Const) and len(set(form.offsets)) == 1:
        return int(form.base.value) + form.offsets[0]
    return None


def _product(a: LaneForm, b: LaneForm) -> LaneForm | None:
    if _number(a) is not None:
        a, b = b, a
    k = _number(b)
    if k is not None:
        return LaneForm(build.mul(a.base, k), tuple(offset * k for offset in a.offsets))
    uniform = len(set(a.offsets)) == len(set(b.offsets)) == 1
    if uniform:
        whole = [build.add(form.base, form.offsets[0]) for form in (a, b)]
        return LaneForm(build.mul(*whole), (0,) * len(a.offsets))
    return None


def _quotient(primitive: Primitive, a: LaneForm, k: int) -> LaneForm | None:
    """A quotient or remainder by a number that divides all of the base but a constant."""
    low = a.range[0]
    if low is None or low < 0:
        return None
    whole, rest = build.Terms(), 0
    for term, factor in build.terms(a.base).items():
        if term == build.ONE:
            rest = factor
        elif factor * build.multiple(term) % k:
            return None
        else:
            whole[term] = factor
    if primitive is P.REM:
        return LaneForm(build.index(0), tuple((rest + offset) % k for offset in a.offsets))
    base = build.div(build.total(whole), k)
    return LaneForm(base, tuple((rest + offset) // k for offset in a.offsets))


class Facts:
    """Scalar indices that are known to be nonnegative, and inference from them."""

    def __init__(self, known: tuple[Expr, ...] = ()) -> None:
        self.known = known

    def with_(self, *more: Expr) -> Facts:
        """These facts and further ones; facts implied by bounds of variables are omitted."""
        return Facts((*self.known, *(one for one in more if not _bounded(one))))

    def at_least_zero(self, expr: Expr) -> bool:
        """Whether a scalar index is known to be nonnegative."""
        return _bounded(expr) or any(_bounded(build.sub(expr, fact)) for fact in self.known)

    def below(self, a: LaneForm, b: LaneForm) -> tuple[bool, ...] | None:
        """Whether `a < b`, for each lane, if that is known of all."""
        gap = b.minus(a)
        if isinstance(gap.base, Const):
            return tuple(int(gap.base.value) + offset > 0 for offset in gap.offsets)
        if self.at_least_zero(build.add(gap.base, min(gap.offsets) - 1)):
            return (True,) * len(gap.offsets)
        if self.at_least_zero(build.mul(build.add(gap.base, max(gap.offsets)), -1)):
            return (False,) * len(gap.offsets)
        return None


def _bounded(expr: Expr) -> bool:
    low = build.bounds(expr)[0]
    if low is not None:
        return low >= 0
    high = build.bounds(greatest(build.mul(expr, -1)))[1]
    return high is not None and high <= 0
