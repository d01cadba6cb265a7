"""Evaluates conditions on integers, lane by lane, where the values of their operands are known well
enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from xlac.codegen.core.seams.lane_forms import Facts, Forms, FormsOf, LaneForm, lane_form
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Apply, Const, Expr, Splat, Var
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive
Truths = tuple[bool, ...]
"""The truth of a condition in each lane."""

_COMPARISONS = (P.LT, P.LE, P.EQ, P.NE)


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What is known at a point of a kernel: affine forms of names, conditions that names stand for,
    and inequalities.
    """

    forms: Forms
    conditions: Mapping[str, Expr]
    facts: Facts
    # forms of expressions; names get theirs before an expression uses them
    met: FormsOf = field(default_factory=dict)

    def form(self, expr: Expr) -> LaneForm | None:
        """The affine form of an integer expression, if it has one."""
        return lane_form(expr, self.forms, self.met)

    def truths(self, condition: Expr) -> Truths | None:
        """The truth of a condition in each lane, if it is known for all lanes."""
        return self._truths(condition, {})

    def _truths(self, condition: Expr, named: dict[str, Truths | None]) -> Truths | None:
        """`truths`, with the results of names looked up in `named`: each name is followed once, as
        nested conditions have exponentially many paths.
        """
        match condition:
            case Const(value=value, lanes=lanes):
                return (bool(value),) * lanes
            case Var(name=name) if name in self.conditions:
                if name not in named:
                    named[name] = self._truths(self.conditions[name], named)
                return named[name]
            case Splat(value=value, lanes=lanes):
                one = self._truths(value, named)
                return one and one * lanes
            case Apply(Primitive.NOT, (a,), dtype=DType.BOOL):
                one = self._truths(a, named)
                return one and tuple(not truth for truth in one)
            case Apply(Primitive.AND | Primitive.OR as both, (a, b), dtype=DType.BOOL):
                return _joined(both, self._truths(a, named), self._truths(b, named))
            case Apply(primitive=primitive, operands=(a, b)) if primitive in _COMPARISONS:
                return self._compared(primitive, a, b)
        return None

    def _compared(self, primitive: Primitive, a: Expr, b: Expr) -> Truths | None:
        x, y = self.form(a), self.form(b)
        if x is None or y is None:
            return None
        if primitive is P.LT:
            return self.facts.below(x, y)
        after = self.facts.below(y, x)
        if primitive is P.LE:
            return after and tuple(not truth for truth in after)
        before = self.facts.below(x, y)
        if before is not None and after is not None:
            unequal = tuple(p or q for p, q in zip(before, after, strict=True))
        elif all(before or (False,)) or all(after or (False,)):
            unequal = (True,) * len(x.offsets)
        else:
            return None
        return unequal if primitive is P.NE else tuple(not truth for truth in unequal)

    def comparisons(self, condition: Expr) -> Iterator[tuple[LaneForm, LaneForm]]:
        """The pairs of integers whose comparison decides a condition, with their locations."""
        return self._comparisons(condition, set())

    def _comparisons(
        self, condition: Expr, followed: set[str]
    ) -> Iterator[tuple[LaneForm, LaneForm]]:
        """`comparisons`, visiting each name once."""
        match condition:
            case Var(name=name) if name in self.conditions:
                if name not in followed:
                    followed.add(name)
                    yield from self._comparisons(self.conditions[name], followed)
            case Splat(value=value) | Apply(Primitive.NOT, (value,)):
                yield from self._comparisons(value, followed)
            case Apply(Primitive.AND | Primitive.OR, (a, b), dtype=DType.BOOL):
                yield from self._comparisons(a, followed)
                yield from self._comparisons(b, followed)
            case Apply(primitive=primitive, operands=(a, b)) if primitive in _COMPARISONS:
                x, y = self.form(a), self.form(b)
                if x is not None and y is not None:
                    if primitive is not P.LE:
                        yield x, y
                    if primitive is not P.LT:
                        yield y, x


def _joined(both: Primitive, a: Truths | None, b: Truths | None) -> Truths | None:
    decisive = both is P.OR  # the truth of one operand that decides the result alone
    for one in (a, b):
        if one is not None and all(truth is decisive for truth in one):
            return one
    if a is None or b is None:
        return None
    return tuple((p or q) if decisive else (p and q) for p, q in zip(a, b, strict=True))
