"""Chooses the subexpressions that a text emitter must name: those used more than once, and deep
ones.

Expressions are conceptually trees but graphs in memory (an expanded `tanh` uses its argument five
times). Emitters write one statement per name, so the text is linear in the size of the graph and
nesting stays shallow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from xlac_sdk.kernel_ir.kernel import (
    Allocate,
    Apply,
    Assign,
    Await,
    Barrier,
    Const,
    Exchange,
    Expr,
    Fold,
    For,
    If,
    Instruction,
    Let,
    Load,
    Prefetch,
    Ramp,
    Shuffle,
    Splat,
    Stmt,
    Store,
    Var,
    statements,
)

DEPTH = 16  # most nested operators in one text expression; C99 guarantees 63 parentheses


# by class, as it is looked up several times for every expression
_INSIDE: dict[type, Callable[[Any], tuple[Expr, ...]]] = {
    Const: lambda expr: (),
    Var: lambda expr: (),
    Ramp: lambda expr: (expr.base,),
    Splat: lambda expr: (expr.value,),
    Fold: lambda expr: (expr.value,),
    Exchange: lambda expr: (expr.value,),
    Load: lambda expr: (expr.index,) if expr.mask is None else (expr.index, expr.mask),
    Apply: attrgetter("operands"),
    Shuffle: attrgetter("values"),
}
_LEAVES = (Const, Var)


def operands(expr: Expr) -> tuple[Expr, ...]:
    """The direct operands of an expression."""
    return _INSIDE[type(expr)](expr)


# likewise, for every statement
_EVALUATED: dict[type, Callable[[Any], tuple[Expr, ...]]] = {
    For: lambda stmt: (stmt.start, stmt.stop),
    Let: lambda stmt: (stmt.value,),
    Assign: lambda stmt: (stmt.value,),
    Store: lambda stmt: (
        (stmt.index, stmt.value) if stmt.mask is None else (stmt.index, stmt.value, stmt.mask)
    ),
    If: lambda stmt: (stmt.condition,),
    Await: lambda stmt: (stmt.condition,),
    Prefetch: lambda stmt: (stmt.index,),
    Instruction: lambda stmt: tuple(one for one in stmt.operands if isinstance(one, Expr)),
    Allocate: lambda stmt: (),
    Barrier: lambda stmt: (),
}


def roots(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions that a statement evaluates, without those of its nested blocks."""
    return _EVALUATED[type(stmt)](stmt)


def distinct(body: Sequence[Stmt]) -> list[Expr]:
    """Every distinct expression of a block that has operands, in no particular order."""
    found: dict[int, Expr] = {}
    evaluated, inside, leaves = _EVALUATED, _INSIDE, _LEAVES
    for stmt in statements(body):
        stack = [*evaluated[type(stmt)](stmt)]
        while stack:
            one = stack.pop()
            if type(one) not in leaves and id(one) not in found:
                found[id(one)] = one
                stack += inside[type(one)](one)
    return [*found.values()]


def walk(exprs: Sequence[Expr]) -> list[Expr]:
    """Every distinct object in the expressions, operands before users."""
    found: dict[int, Expr] = {}
    inside, leaves = _INSIDE, _LEAVES
    stack = [*reversed(exprs)]
    while stack:
        expr = stack[-1]
        for one in inside[type(expr)](expr):
            key = id(one)
            if key not in found:
                if type(one) not in leaves:
                    stack.append(one)
                    break
                found[key] = one
        else:
            found.setdefault(id(expr), expr)
            stack.pop()
    return [*found.values()]


def named(exprs: Sequence[Expr], also: Callable[[Expr], bool] = lambda expr: False) -> list[Expr]:
    """The expressions to name before a statement that evaluates `exprs`, in dependency order;
    `also` requests more.
    """
    order = [(expr, _INSIDE[type(expr)](expr)) for expr in walk(exprs)]
    uses: dict[int, int] = {}
    for _, inner in order:
        for operand in inner:
            uses[id(operand)] = uses.get(id(operand), 0) + 1
    for expr in exprs:
        uses[id(expr)] = uses.get(id(expr), 0) + 1
    result: list[Expr] = []
    depth: dict[int, int] = {}
    for expr, inner in order:
        depth[id(expr)] = below = 1 + max((depth[id(o)] for o in inner), default=-1)
        heavy = bool(inner) and not (isinstance(expr, Splat | Ramp) and not operands(inner[0]))
        # all threads must execute an exchange, even if a select ignores its value
        met = isinstance(expr, Exchange)
        if heavy and (uses[id(expr)] > 1 or below >= DEPTH or met or also(expr)):
            result.append(expr)
            depth[id(expr)] = 0
    return result
