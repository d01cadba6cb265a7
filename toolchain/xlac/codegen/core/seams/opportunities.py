"""A fast test whether code has seams at all; most has none."""

from __future__ import annotations

from collections.abc import Sequence

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import (
    Apply,
    Expr,
    Let,
    Load,
    Ramp,
    Splat,
    Stmt,
    Store,
    Var,
    statements,
)
from xlac_sdk.kernel_ir.primitives import TRANSCENDENTAL, Primitive
from xlac_sdk.kernel_ir.sharing import distinct, roots, walk

P = Primitive
_CONDITIONS = frozenset({P.LT, P.LE, P.EQ, P.NE, P.AND, P.OR, P.NOT})
CLAMPS = frozenset({P.MIN, P.MAX})
HEAVY = 16  # expressions that a transcendental function counts as


def has_seams(body: Sequence[Stmt], exprs: Sequence[Expr] | None = None) -> bool:
    """Whether a comparison of indices decides which elements a block reads: in a select, or as a
    clamp of an address. `exprs`: what `distinct` tells of the block, if that is known.
    """
    exprs = distinct(body) if exprs is None else exprs
    applied = [one for one in exprs if type(one) is Apply]
    if not CLAMPS.isdisjoint(one.primitive for one in applied) and any(
        type(one) is Load and is_clamped(one.index) for one in exprs
    ):
        return True
    selects = [one for one in applied if one.primitive is P.SELECT]
    if not selects:
        return False
    conditions = set[str]()  # names of integer comparisons
    for stmt in statements(body):
        match stmt:
            case Let(var=Var(name=name, dtype=DType.BOOL), value=value) if _compares(
                value, conditions
            ):
                conditions.add(name)
    return any(_compares(one.operands[0], conditions) for one in selects)


def has_gathers(body: Sequence[Stmt], exprs: Sequence[Expr] | None = None) -> bool:
    """Whether a block has gathers or scatters; `exprs` as for `has_seams`."""
    exprs = distinct(body) if exprs is None else exprs
    if any(type(one) is Load and _strided(one.index) for one in exprs):
        return True
    return any(type(stmt) is Store and _strided(stmt.index) for stmt in statements(body))


def is_clamped(index: Expr) -> bool:
    """Whether an index has a minimum or a maximum inside."""
    return any(type(one) is Apply and one.primitive in CLAMPS for one in walk([index]))


def weight(body: Sequence[Stmt]) -> int:
    """The number of expressions of a block that become code."""
    return sum(
        HEAVY if isinstance(one, Apply) and one.primitive in TRANSCENDENTAL else 1
        for stmt in statements(body)
        for one in walk(roots(stmt))
    )


def _compares(condition: Expr, known: set[str]) -> bool:
    """Whether a condition is an integer comparison."""
    match condition:
        case Var(name=name):
            return name in known
        case Splat(value=value):
            return _compares(value, known)
        case Apply(primitive=primitive, operands=operands) if primitive in _CONDITIONS:
            if operands[0].dtype is DType.BOOL:
                return any(_compares(operand, known) for operand in operands)
            return operands[0].dtype.is_integer
    return False


def _strided(index: Expr) -> bool:
    return index.lanes > 1 and not (isinstance(index, Ramp) and abs(index.stride) == 1)
