"""Rewrite rules as data: equations `before >> after` over patterns of expressions.

A rule is one line that is its documentation, its code and its test: `tests/passes` checks every
rule of every table against the interpreter, on random and special values of every dtype it applies
to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.op import Array, Op
from xlac.ops.checks import names
from xlac.ops.scalar.arithmetic import (
    Add,
    And,
    Div,
    Floor,
    Max,
    Min,
    Mul,
    Or,
    Pow,
    Rem,
    Round,
    Shl,
    Shr,
    Sqrt,
    Sub,
    Xor,
)
from xlac.ops.scalar.comparison import Compare, Select
from xlac.ops.scalar.exponential import Exp, Log
from xlac.ops.scalar.native import Abs, Ceil, Neg, Not, Rsqrt, Sigmoid
from xlac.passes.rewrite.rule import Site, constant, fill
from xlac_sdk.dtypes import DType

CONSTANTS = ("c", "d")  # wildcards that stand for uniform constants
Number = int | float | bool | Callable[[DType], int | float | bool]


@dataclass(frozen=True, eq=False, slots=True)
class Pattern:
    """A pattern of expressions: a wildcard, a uniform constant, a number, or an operation on
    patterns.
    """

    name: str = ""
    number: Number | None = None
    op: type[Op] | None = None
    inputs: tuple[Pattern, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    compute: Callable[[Array], int | float | bool] | None = None

    def __add__(self, other: Pattern | Number) -> Pattern:
        return apply(Add, self, other)

    def __radd__(self, other: Number) -> Pattern:
        return apply(Add, other, self)

    def __sub__(self, other: Pattern | Number) -> Pattern:
        return apply(Sub, self, other)

    def __rsub__(self, other: Number) -> Pattern:
        return apply(Sub, other, self)

    def __mul__(self, other: Pattern | Number) -> Pattern:
        return apply(Mul, self, other)

    def __truediv__(self, other: Pattern | Number) -> Pattern:
        return apply(Div, self, other)

    def __rtruediv__(self, other: Number) -> Pattern:
        return apply(Div, other, self)

    def __mod__(self, other: Pattern | Number) -> Pattern:
        return apply(Rem, self, other)

    def __pow__(self, other: Pattern | Number) -> Pattern:
        return apply(Pow, self, other)

    def __neg__(self) -> Pattern:
        return apply(Neg, self)

    def __rshift__(self, after: Pattern | Number) -> Equation:
        return Equation(self, lift(after))

    def __str__(self) -> str:
        if self.compute is not None:
            return f"{self.compute.__name__}({self.inputs[0]})"
        if self.op is None:
            return self.name or (
                self.number.__name__ if callable(self.number) else str(self.number)
            )
        if (sign := _SIGNS.get(self.op)) is not None:
            return f"({self.inputs[0]} {sign} {self.inputs[1]})"
        given = [*map(str, self.attributes.values()), *map(str, self.inputs)]
        return f"{self.op.mnemonic}({', '.join(given)})"

    def match(self, node: Node, matches: dict[str, Node]) -> bool:
        """Whether a node matches; wildcards are entered in `matches`."""
        if self.op is not None:
            if type(node.op) is not self.op:
                return False
            for name, value in self.attributes.items():
                if getattr(node.op, name) != value:
                    return False
            for p, i in zip(self.inputs, node.inputs, strict=True):  # noqa: SIM110 -- called most of all in a compile
                if not p.match(i, matches):
                    return False
            return True
        if not self.name:
            value = constant(node)
            return value is not None and _equals(value, self.number)
        if self.name in CONSTANTS and constant(node) is None:
            return False
        return matches.setdefault(self.name, node) is node

    def build(self, matches: Mapping[str, Node], like: Node, site: Site) -> Node:
        """The expression with wildcards substituted; numbers get the dtype and shape of `like`."""
        if self.name:
            return matches[self.name]
        if self.compute is not None:
            value = constant(matches[self.inputs[0].name])
            assert value is not None
            return fill(_number(self.compute(value), like.type.dtype), like, site)
        if self.op is None:
            return fill(_number(self.number, like.type.dtype), like, site)
        inputs: list[Node | None] = [
            None if p.op is None and not p.name else p.build(matches, like, site)
            for p in self.inputs
        ]
        beside = next((i for i in reversed(inputs) if i is not None), like)
        full = [
            i if i is not None else p.build(matches, beside, site)
            for i, p in zip(inputs, self.inputs, strict=True)
        ]
        return site.make(self.op(**self.attributes), *full)

    def wildcards(self) -> set[str]:
        """The names of the wildcards."""
        return ({self.name} if self.name else set()).union(*(p.wildcards() for p in self.inputs))


@dataclass(frozen=True, eq=False, slots=True)
class Equation:
    """A rule `before >> after`, for tensors `x` (or `c`) of the given dtypes.

    `rounding` rules need precision "fast". `ulps` bounds how far a rule that is always permitted
    may change the result of a function that is not correctly rounded anyway; with 0 all bits stay
    the same.
    """

    before: Pattern
    after: Pattern
    dtypes: frozenset[DType] = frozenset(DType)
    guard: Callable[[Mapping[str, Node]], bool] | None = None
    once: tuple[str, ...] = ()
    rounding: bool = False
    ulps: int = 0

    def on(self, dtypes: Collection[DType]) -> Equation:
        """The rule, restricted to some element types."""
        return replace(self, dtypes=frozenset(dtypes))

    def when(self, guard: Callable[[Mapping[str, Node]], bool]) -> Equation:
        """The rule, restricted by a condition on the wildcards' matches."""
        return replace(self, guard=guard)

    def fast(self) -> Equation:
        """The rule, only for models with precision "fast"."""
        return replace(self, rounding=True)

    def within(self, ulps: int) -> Equation:
        """The rule, whose sides may differ by some units in the last place."""
        return replace(self, ulps=ulps)

    def if_single(self) -> Equation:
        """The rule, only where the inner operations have no other reader, so that it never adds
        work.
        """
        return replace(self, once=("inner",))

    @property
    def name(self) -> str:
        """The rule as text, with its restrictions."""
        limits = [] if len(self.dtypes) == len(DType) else [names(self.dtypes)]
        limits += ["fast"] if self.rounding else []
        return f"{self.before} >> {self.after}" + (f" [{', '.join(limits)}]" if limits else "")

    def __str__(self) -> str:
        return self.name

    @property
    def heads(self) -> tuple[type[Op], ...]:
        """The outermost operation of the left side."""
        assert self.before.op is not None, "a rule begins with an operation"
        return (self.before.op,)

    @property
    def subject(self) -> str:
        """The wildcard whose element type `dtypes` restricts."""
        known = self.before.wildcards()
        return next(name for name in ("x", "y", "c", "p") if name in known)

    def rewrite(self, node: Node, site: Site) -> Node | None:
        """The right side for a node that matches; None for any other."""
        matches: dict[str, Node] = {}
        if (
            not self.before.match(node, matches)
            or matches[self.subject].type.dtype not in self.dtypes
        ):
            return None
        if self.guard is not None and not self.guard(matches):
            return None
        if self.once and not all(
            site.single(i) for i, p in zip(node.inputs, self.before.inputs, strict=True) if p.op
        ):
            return None
        return self.after.build(matches, node, site)


def lift(value: Pattern | Number) -> Pattern:
    """A number as a constant pattern; a pattern unchanged."""
    return value if isinstance(value, Pattern) else Pattern(number=value)


def apply(op: type[Op], *inputs: Pattern | Number, **attributes: Any) -> Pattern:
    """A pattern of an operation with the attributes given."""
    return Pattern(op=op, inputs=tuple(map(lift, inputs)), attributes=attributes)


def operation(op: type[Op]) -> Callable[..., Pattern]:
    """A function that makes patterns of an operation without attributes."""
    return lambda *inputs: apply(op, *inputs)


def computed(function: Callable[[Array], int | float | bool], of: Pattern) -> Pattern:
    """A constant computed from another one."""
    return Pattern(inputs=(of,), compute=function)


def compare(direction: str, x: Pattern | Number, y: Pattern | Number) -> Pattern:
    """A pattern of a comparison in one direction."""
    return apply(Compare, x, y, direction=direction)


x, y, z, p = (Pattern(name) for name in ("x", "y", "z", "p"))
c, d = Pattern("c"), Pattern("d")
exp, log = operation(Exp), operation(Log)
sqrt, floor, round_ = map(operation, (Sqrt, Floor, Round))
max_, min_, select, shl, shr = map(operation, (Max, Min, Select, Shl, Shr))
abs_, ceil, neg, not_, rsqrt, sigmoid = map(operation, (Abs, Ceil, Neg, Not, Rsqrt, Sigmoid))
and_, or_, xor = map(operation, (And, Or, Xor))  # functions: & | ^ bind less than >>

_SIGNS: dict[type[Op], str] = {Add: "+", Sub: "-", Mul: "*", Div: "/", Rem: "%", Pow: "**"}


def _number(number: Number | None, dtype: DType) -> Array:
    """A number as a scalar of an element type; integers wrap, so that -1 has all bits set."""
    assert number is not None
    value = number(dtype) if callable(number) else number
    if isinstance(value, bool):
        return np.array(value)
    if dtype.is_integer:
        return np.array(int(value) % 2**dtype.bits, f"u{dtype.nbytes}").view(dtype.numpy)
    return np.array(value).astype(dtype.numpy)


def _equals(value: Array, number: Number | None) -> bool:
    """Whether two numbers are equal in type and bits: 0.0 is not -0.0, and a float is not an
    integer.
    """
    dtype = DType.of(value.dtype)
    wanted = number(dtype) if callable(number) else number
    if isinstance(wanted, bool) != (dtype is DType.BOOL):
        return False
    if (
        not dtype.is_float
        and isinstance(wanted, float)
        and (not wanted.is_integer() or np.signbit(wanted))
    ):
        return False
    return _number(wanted, dtype).tobytes() == value.tobytes()
