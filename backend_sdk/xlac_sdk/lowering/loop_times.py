"""Rough estimates of the run time of a kernel's loops, which distinguish microseconds
from seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from xlac_sdk.kernel_ir.bounds import bounds
from xlac_sdk.kernel_ir.kernel import (
    Apply,
    Const,
    Expr,
    For,
    If,
    Instruction,
    Kernel,
    Load,
    Splat,
    Stmt,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.sharing import roots, walk

P = Primitive


NODE = 0.3  # nanoseconds of an operation on as many bytes as a vector has


VECTOR = 32  # bytes


CALLED = 30  # operations of a function of the C library


_FUNCTIONS = frozenset(
    (
        P.EXP,
        P.LOG,
        P.SIN,
        P.COS,
        P.POW,
        P.TANH,
        P.ERF,
        P.ATAN2,
        P.EXPM1,
        P.LOG1P,
        P.EXP2,
        P.LOG2,
        P.SIGMOID,
        P.GELU,
        P.REM,
    )
)


FLOPS, BYTES = 7.0, 10.0  # operations and bytes per nanosecond, of a slow core


Sizes = Mapping[str, float]


class Turns:
    """The run time of a kernel, and of each of its loops, for given sizes."""

    def __init__(self, kernel: Kernel, sizes: Sizes, costs: dict[int, float]) -> None:
        """`costs` caches the costs of single statements, by identity, which are the same for all
        sizes.

        If the kernel's work is known, all statements have the same cost, which is much faster; then
        only their number matters.
        """
        self.values: dict[str, float] = dict(sizes)
        self.costs = costs
        self.alike = known_time(kernel) > 0
        # nanoseconds of one iteration of a loop, by the loop's identity
        self.turn: dict[int, float] = {}
        self.total = self.block(kernel.body)

    def block(self, body: tuple[Stmt, ...]) -> float:
        """Nanoseconds of a block of statements."""
        return sum(map(self.statement, body))

    def statement(self, stmt: Stmt) -> float:
        """Nanoseconds of a statement, including all iterations of loops."""
        match stmt:
            case For(counter=counter, start=start, stop=stop, step=step):
                first, end = self.value(start, 0.0), self.value(stop, 64.0)
                trips = max(0.0, ceil((end - first) / step))
                self.values[counter.name] = first + max(0.0, end - first) / 2
                turn = self.turn[id(stmt)] = self.block(stmt.body) + NODE
                return trips * turn
            case If(then=then, otherwise=otherwise):
                return self.cost(stmt) + max(self.block(then), self.block(otherwise))
            case Instruction(code=None, meaning=meaning):
                return self.block(meaning)
        return self.cost(stmt)

    def cost(self, stmt: Stmt) -> float:
        """Nanoseconds of a statement that is no loop; 1 if all have the same cost."""
        if self.alike:
            return 1.0
        known = self.costs.get(id(stmt))
        if known is None:
            known = self.costs[id(stmt)] = NODE * (1 + sum(map(operations, walk(roots(stmt)))))
        return known

    def value(self, expr: Expr, unknown: float) -> float:
        """An expression's value for these sizes, or its bound, or `unknown`."""
        value = self._value(expr)
        if value is None:
            value = bounds(expr)[1]
        return unknown if value is None else float(value)

    def _value(self, expr: Expr) -> float | None:
        match expr:
            case Const(value=value):
                return float(value)
            case Var(name=name):
                return self.values.get(name)
            case Splat(value=value):
                return self._value(value)
            case Apply(primitive=primitive, operands=(a, b)):
                x, y = self._value(a), self._value(b)
                if x is None or y is None:
                    return None
                match primitive:
                    case P.ADD:
                        return x + y
                    case P.SUB:
                        return x - y
                    case P.MUL:
                        return x * y
                    case P.DIV:
                        return x // y if y else None
                    case P.MIN:
                        return min(x, y)
                    case P.MAX:
                        return max(x, y)
        return None


def operations(expr: Expr) -> float:
    """Operations of an expression, multiplied by its lanes."""
    if isinstance(expr, Const | Var):
        return 0.0
    vectors = max(1.0, expr.lanes * expr.dtype.nbytes / VECTOR)
    if isinstance(expr, Load):
        return expr.lanes if expr.index.lanes > 1 else vectors
    return vectors * (CALLED if isinstance(expr, Apply) and expr.primitive in _FUNCTIONS else 1)


def known_time(kernel: Kernel) -> float:
    """Nanoseconds of a launch by the kernel's stated work; 0 if it states none."""
    return max(kernel.work.flops / FLOPS, kernel.work.bytes / BYTES)
