"""Comparisons, tests and logic on elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.graph import Node
from xlac.ir.op import Array, Sample, declare
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import ANY, NUMBERS, check_dtype, check_one_dtype
from xlac.ops.scalar import arithmetic, native
from xlac.ops.scalar.elementary import absolute
from xlac.ops.scalar.formula import Direct
from xlac_sdk.dtypes import DType


@declare
class IsNan(Direct):
    """Whether x is not a number."""

    mnemonic, result, draws = "isnan", DType.BOOL, ("special",)

    def formula(self, *xs: Node) -> Node:
        return build.compare(xs[0], "ne", xs[0])

    def meaning(self, *arrays: Array) -> Array:
        return np.isnan(arrays[0])


@declare
class IsInf(Direct):
    """Whether x is infinite, of either sign."""

    mnemonic, result, draws = "isinf", DType.BOOL, ("special",)

    def formula(self, *xs: Node) -> Node:
        return build.compare(absolute(xs[0]), "eq", math.inf)

    def meaning(self, *arrays: Array) -> Array:
        return np.isinf(arrays[0])


@declare
class IsFinite(Direct):
    """Whether x is neither infinite nor NaN."""

    mnemonic, result, draws = "isfinite", DType.BOOL, ("special",)

    def formula(self, *xs: Node) -> Node:
        return build.compare(absolute(xs[0]), "lt", math.inf)

    def meaning(self, *arrays: Array) -> Array:
        return np.isfinite(arrays[0])


class Logical(Direct):
    """Works on truth: a number is true where it is not 0."""

    accepts, result = ANY, DType.BOOL
    function: ClassVar[np.ufunc]

    @classmethod
    def prepare(cls, inputs: Sequence[build.Value]) -> tuple[Node, ...]:
        return tuple(build.cast(build.as_node(i), DType.BOOL) for i in inputs)

    def formula(self, *xs: Node) -> Node:
        truths = [build.cast(x, DType.BOOL) for x in xs]
        if len(truths) == 1:
            return Node.of(native.Not(), truths[0])
        op = {
            "logical_and": arithmetic.And,
            "logical_or": arithmetic.Or,
            "logical_xor": arithmetic.Xor,
        }[self.mnemonic]
        return Node.of(op(), *truths)

    def meaning(self, *arrays: Array) -> Array:
        return np.asarray(self.function(*arrays))


@declare
class LogicalNot(Logical):
    """True where x is false or 0."""

    mnemonic, function = "logical_not", np.logical_not


@declare
class LogicalAnd(Logical):
    """True where both are true, or not 0."""

    mnemonic, operands, function = "logical_and", ("x", "y"), np.logical_and


@declare
class LogicalOr(Logical):
    """True where either is true, or not 0."""

    mnemonic, operands, function = "logical_or", ("x", "y"), np.logical_or


@declare
class LogicalXor(Logical):
    """True where just one is true, or not 0."""

    mnemonic, operands, function = "logical_xor", ("x", "y"), np.logical_xor


class Comparison(Direct):
    """A comparison under its own name."""

    accepts, result = NUMBERS, DType.BOOL
    operands = ("x", "y")
    direction: ClassVar[str]
    function: ClassVar[np.ufunc]

    def formula(self, *xs: Node) -> Node:
        return build.compare(xs[0], self.direction, xs[1])

    def meaning(self, *arrays: Array) -> Array:
        return np.asarray(self.function(*arrays))


@declare
class Less(Comparison):
    """x < y."""

    mnemonic, direction, function = "less", "lt", np.less


@declare
class LessEqual(Comparison):
    """x <= y."""

    mnemonic, direction, function = "less_equal", "le", np.less_equal


@declare
class Greater(Comparison):
    """x > y."""

    mnemonic, direction, function = "greater", "gt", np.greater


@declare
class GreaterEqual(Comparison):
    """x >= y."""

    mnemonic, direction, function = "greater_equal", "ge", np.greater_equal


@declare
class Equal(Comparison):
    """x == y."""

    mnemonic, direction, function, accepts = "equal", "eq", np.equal, ANY


@declare
class NotEqual(Comparison):
    """x != y."""

    mnemonic, direction, function, accepts = "not_equal", "ne", np.not_equal, ANY


@declare
class Where(Composite):
    """x where the condition is true, y where it is false; the three broadcast."""

    mnemonic = "where"
    creates = frozenset()
    operands = ("condition", "x", "y")

    @classmethod
    def prepare(cls, inputs: Sequence[build.Value]) -> tuple[Node, ...]:
        """Operands as nodes, both choices of one dtype."""
        condition, *choices = inputs
        dtype = build.promoted(choices)
        return build.as_node(condition), *(build.as_node(c, dtype) for c in choices)

    def infer(self, *types: Type) -> Type:
        condition, x, y = types
        check_dtype(self.mnemonic, condition, frozenset({DType.BOOL}))
        check_one_dtype(self.mnemonic, (x, y), 1)
        return Type(x.dtype, build.broadcast_shapes([t.shape for t in types]))

    def expand(self, *inputs: Node) -> Node:
        return build.select(*inputs)

    def evaluate(self, *arrays: Array) -> Array:
        return np.asarray(np.where(*arrays))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        shapes: list[tuple[tuple[int, ...], ...]] = [
            ((), (), ()),
            ((3, 5), (5,), ()),
            ((3, 1), (1, 5), (3, 5)),
            ((0,), (0,), (1,)),
            ((1001,), (1001,), ()),
        ]
        samples = [
            Sample(
                tuple(
                    Type(d, s)
                    for d, s in zip((DType.BOOL, DType.F32, DType.F32), shape, strict=True)
                ),
                {},
            )
            for shape in shapes
        ]
        return samples + [
            Sample((Type(DType.BOOL, (7,)), Type(d, (7,)), Type(d, ())), {}) for d in DType
        ]
