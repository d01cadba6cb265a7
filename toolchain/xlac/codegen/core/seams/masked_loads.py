"""Replaces gathers at clamped indices by masked loads of consecutive elements.

`select(i < n, x[min(i, n - 1)], y)` for a vector i needs the clamp only in lanes that the select
does not take; a masked load does not read lanes whose mask is false.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import TypeVar

from xlac.codegen.core.addressing import alignment
from xlac.codegen.core.seams.conditions import Knowledge
from xlac.codegen.core.seams.lane_forms import Facts, LaneForm
from xlac.codegen.core.seams.opportunities import is_clamped
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import (
    Apply,
    Const,
    Expr,
    Let,
    Load,
    Ramp,
    Splat,
    Stmt,
    Var,
    children,
    statements,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.rewrite import KernelRewriter
from xlac_sdk.kernel_ir.sharing import operands, roots, walk

P = Primitive
Demand = tuple[tuple[Expr, bool], ...]
"""The conditions, with their truths, under which lanes of a value are used."""
K = TypeVar("K")


def knowledge_of(body: Sequence[Stmt]) -> Knowledge:
    """The definitions of a kernel's names, each of which must be defined once."""
    known = Knowledge(forms := {}, conditions := {}, Facts())
    for stmt in statements(body):
        if isinstance(stmt, Let) and not stmt.mutable:
            if stmt.var.dtype is DType.BOOL:
                conditions[stmt.var.name] = stmt.value
            elif stmt.var.dtype.is_integer and (form := known.form(stmt.value)) is not None:
                forms[stmt.var.name] = form
    return known


def masked(body: tuple[Stmt, ...], known: Knowledge) -> tuple[Stmt, ...]:
    """The block with masked loads; the same statements where there are none."""
    replacements: dict[int, tuple[Load, Expr]] = {}
    literals = _Literals(known)
    for block in _blocks(body):
        if not any(map(_has_candidates, block)):
            continue
        for load, demand in _demands(block):
            new = _masked(load, demand, known, literals)
            if new is not None:
                replacements[id(load)] = load, new
    if not replacements:
        return body
    return KernelRewriter(lambda one: replacements.get(id(one), (one, one))[1]).block(body)


def _blocks(body: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    yield body
    for stmt in body:
        for block in children(stmt):
            yield from _blocks(block)


def _has_candidates(stmt: Stmt) -> bool:
    """Whether a statement itself has loads that `_masked` may replace, which few have."""
    exprs = walk(roots(stmt))
    loads = [one for one in exprs if type(one) is Load and one.index.lanes > 1]
    return any(
        one.mask is not None if type(one.index) is Splat else is_clamped(one.index) for one in loads
    )


def _demands(block: Sequence[Stmt]) -> Iterator[tuple[Load, Demand]]:
    """The gathers among the statements of a block, each with the lanes in which it is used."""
    named: dict[str, Demand] = {}
    for stmt in reversed(block):
        for inner in children(stmt):  # values used in nested blocks count as used in every lane
            for one in walk([root for each in statements(inner) for root in roots(each)]):
                if isinstance(one, Var):
                    named[one.name] = ()
        demand = named.get(stmt.var.name, ()) if isinstance(stmt, Let) else ()
        exprs = roots(stmt)
        needed = {id(expr): demand for expr in exprs}
        for one in reversed(walk(exprs)):
            if isinstance(one, Var):
                _meet(named, one.name, needed[id(one)])
            elif isinstance(one, Load) and one.index.lanes > 1:
                yield one, needed[id(one)]
            for part, where in zip(operands(one), _of_operands(one, needed[id(one)]), strict=True):
                _meet(needed, id(part), where)


def _meet(known: dict[K, Demand], key: K, demand: Demand) -> None:
    """Records that a value is used in further lanes: only conditions common to all uses remain."""
    if key in known:
        pairs = zip(known[key], demand, strict=False)
        demand = tuple(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    known[key] = demand


def _of_operands(one: Expr, demand: Demand) -> Iterator[Demand]:
    """The lanes in which the operands of an expression are used, given those in which it is."""
    match one:
        case Apply(Primitive.SELECT, (condition, _, _)):
            yield from (demand, (*demand, (condition, True)), (*demand, (condition, False)))
        case Apply(operands=parts):
            yield from (demand for _ in parts)
        case _:
            yield from (() for _ in operands(one))


def _masked(load: Load, demand: Demand, known: Knowledge, literals: _Literals) -> Expr | None:
    """A masked load of consecutive elements in place of a gather; None where the index is not known
    well enough.
    """
    if load.mask is not None and isinstance(load.index, Splat):
        truths = known.truths(load.mask)
        if truths is None or True not in truths:
            return None
        one = build.splat(build.load(load.buffer, load.index.value), load.lanes)
        return build.select(load.mask, one, Const(0, load.dtype, load.lanes))
    clamps = list[LaneForm]()
    index = _unclamped(load.index, known, clamps)
    if index is None or not clamps or not isinstance(index, Ramp) or abs(index.stride) != 1:
        return None
    parts = list[Expr]()
    own = () if load.mask is None else ((load.mask, True),)
    for clamp in clamps:
        if _implying(clamp, own, known, literals) is not None:
            continue
        part = _implying(clamp, demand, known, literals)
        if part is None:
            return None
        if part not in parts:
            parts.append(part)
    mask = load.mask
    for part in parts:
        mask = part if mask is None else build.apply(P.AND, mask, part)
    return build.load(load.buffer, index, mask=mask, align=alignment(load.buffer, index))


def _unclamped(index: Expr, known: Knowledge, clamps: list[LaneForm]) -> Expr | None:
    """An index without its clamps; the conditions for removing these are added to `clamps`."""
    match index:
        case Apply(Primitive.MIN | Primitive.MAX as primitive, (a, b)):
            if isinstance(a, Const | Splat):  # the other operand is the index
                a, b = b, a
            inner = _unclamped(a, known, clamps)
            x, y = None if inner is None else known.form(inner), known.form(b)
            if x is None or y is None:
                return None
            clamps.append(y.minus(x) if primitive is P.MIN else x.minus(y))
            return inner
        case Apply(Primitive.ADD | Primitive.MUL as primitive, (a, b)):
            parts = [_unclamped(part, known, clamps) for part in (a, b)]
            if parts[0] is None or parts[1] is None:
                return None
            return (build.add if primitive is P.ADD else build.mul)(parts[0], parts[1])
    return index


class _Literals:
    """What follows from conditions; computed once for each, as many loads are under the same."""

    def __init__(self, known: Knowledge) -> None:
        self.known = known
        # the condition is kept alive, so that its id is not reused
        self._of: dict[tuple[int, bool], tuple[Expr, list[tuple[Expr, LaneForm]]]] = {}

    def __call__(self, condition: Expr, holds: bool) -> list[tuple[Expr, LaneForm]]:
        key = id(condition), holds
        if key not in self._of:
            self._of[key] = condition, [*_literals(condition, holds, self.known)]
        return self._of[key][1]


def _implying(
    clamp: LaneForm, demand: Demand, known: Knowledge, literals: _Literals
) -> Expr | None:
    """A condition of a demand that implies that no lane of a form is negative."""
    for condition, holds in demand:
        for part, form in literals(condition, holds):
            if len(form.offsets) != len(clamp.offsets):
                continue
            rest = clamp.minus(form)
            if known.facts.at_least_zero(build.add(rest.base, min(rest.offsets))):
                return part
    return None


def _literals(condition: Expr, holds: bool, known: Knowledge) -> Iterator[tuple[Expr, LaneForm]]:
    """The comparisons that follow from a condition, each with an index that is nonnegative then."""
    match condition:
        case Var(name=name) if name in known.conditions:
            yield from _literals(known.conditions[name], holds, known)
        case Apply(Primitive.NOT, (a,)):
            yield from _literals(a, not holds, known)
        case Apply(Primitive.AND | Primitive.OR as both, (a, b)) if (both is P.AND) == holds:
            yield from _literals(a, holds, known)
            yield from _literals(b, holds, known)
        case Apply(Primitive.LT | Primitive.LE as primitive, (a, b)):
            if not holds:
                a, b = b, a
                primitive = P.LE if primitive is P.LT else P.LT
            x, y = known.form(a), known.form(b)
            if x is not None and y is not None:
                gap = y.minus(x)
                less = 1 if primitive is P.LT else 0
                yield (
                    build.apply(primitive, a, b),
                    LaneForm(gap.base, tuple(offset - less for offset in gap.offsets)),
                )
