"""Functions that pass, bound or stop elements: gated linear units, dropout, clips."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.op import Array, Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import ANY, NUMBERS, check_one_dtype
from xlac.ops.scalar.activation import sigmoid
from xlac.ops.scalar.formula import Direct, Formula, cases
from xlac_sdk.dtypes import DType


@declare
class Glu(Formula):
    """x * sigmoid(gate), the gated linear unit; split a tensor in two for the usual form."""

    mnemonic = "glu"
    operands = ("x", "gate")
    derivatives = ("t * sigmoid(gate)", "t * (result * (1 - sigmoid(gate)))")

    def formula(self, *xs: Node) -> Node:
        return build.mul(xs[0], sigmoid(xs[1]))


@declare
class Identity(Direct):
    """x itself."""

    mnemonic, accepts = "identity", ANY
    creates = frozenset()
    derivatives = ("t",)

    def expand(self, *inputs: Node) -> Node:
        return inputs[0]

    def formula(self, *xs: Node) -> Node:
        return xs[0]

    def meaning(self, *arrays: Array) -> Array:
        return arrays[0]


@declare
class StopGradient(Identity):
    """x itself, which counts as a constant where something is differentiated."""

    mnemonic = "stop_gradient"
    derivatives = ("0",)


@declare
class Dropout(Direct):
    """x itself. While a model learns, each element is 0 by chance, `p` of them, and the others are
    larger by 1 / (1 - p).
    """

    mnemonic, accepts = "dropout", NUMBERS
    derivatives = ("t",)
    p: float = 0.5

    def in_training(
        self, node: Node, uniform: Callable[[Type], Node]
    ) -> tuple[Node, Mapping[Node, Node]]:
        (x,) = node.inputs
        kept = build.compare(uniform(x.type.with_dtype(DType.F32)), "ge", self.p)
        larger = build.mul(build.compute(x), 1 / (1 - self.p) if self.p < 1 else 0.0)
        return build.select(kept, build.cast(larger, x.type.dtype), build.like(0, x)), {}

    def expand(self, *inputs: Node) -> Node:
        return inputs[0]

    def formula(self, *xs: Node) -> Node:
        return xs[0]

    def meaning(self, *arrays: Array) -> Array:
        return arrays[0]


@declare
class Clip(Formula):
    """x moved into a range, whose ends are numbers (`min`, `max`) or operands; an absent end is
    open.

    Where the ends cross, the result is the upper one. NaN stays.
    """

    mnemonic, accepts = "clip", NUMBERS
    creates = frozenset()
    operands = ("x", "low?", "high?")
    min: float | int | None = None
    max: float | int | None = None

    @classmethod
    def prepare(cls, inputs: Sequence[build.Value]) -> tuple[Node, ...]:
        return tuple(build.as_node(i, build.promoted(inputs)) for i in inputs)

    def infer(self, *types: Type) -> Type:
        check_one_dtype(self.mnemonic, types)
        for name in ("min", "max"):
            end = getattr(self, name)
            if isinstance(end, float) and not types[0].dtype.is_float:
                raise ShapeError(
                    f"{name} of clip is {end}, but x is {types[0]}",
                    attribute=name,
                    hint="write a whole number",
                )
        return super().infer(*types)

    def formula(self, *xs: Node) -> Node:
        x, *ends = xs
        low, high = self._ends(ends)
        x = x if low is None else build.maximum(x, low)
        return x if high is None else build.minimum(x, high)

    def _ends(self, given: Sequence[Node]) -> tuple[build.Value | None, build.Value | None]:
        """The lower and the upper end, of which operands are given; None: open."""
        low = self.min if self.min is not None else given[0] if given else None
        return low, self.max if self.max is not None else given[1] if len(given) > 1 else None

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None] | None:
        """x changes the result within the range and at its ends, as PyTorch has it; NaN does not.
        An end does where x is beyond it, and the lower one nowhere if they cross.
        """
        shape = node.shape
        x, *given = (build.broadcast_to(i, shape) for i in node.inputs)
        low, high = self._ends(given)
        above = None if low is None else build.compare(x, "ge", low)
        below = None if high is None else build.compare(x, "le", high)
        inside = _both(above, below)
        if inside is None:
            return [tangents[0]]
        total: Node | None = None
        for t, passes in zip(tangents, (inside, *self._beyond(x, given)), strict=True):
            if t is not None and passes is not None:
                wide = build.broadcast_to(t, shape)
                part = build.select(passes, wide, build.like(0, wide))
                total = part if total is None else build.add(total, part)
        return [total]

    def _beyond(self, x: Node, given: Sequence[Node]) -> Iterator[Node | None]:
        """Where the result is that of each end that is an operand; None: a number stands for it."""
        low, high = self._ends(given)
        if given:
            ordered = None if high is None else build.compare(given[0], "le", high)
            yield None if self.min is not None else _both(build.compare(x, "lt", given[0]), ordered)
        if len(given) > 1:
            assert low is not None
            crossed = build.compare(given[1], "lt", low)
            beyond = build.apply1("or", build.compare(x, "gt", given[1]), crossed)
            yield None if self.max is not None else beyond

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        given = [{"min": -1.0, "max": 1.5}, {"min": 0.0}, {"max": 0.25}, {}]
        one = [Sample((Type(DType.F32, (3, 17)),), g, ("special",)) for g in given]
        three = [Sample((Type(d, (3, 5)), Type(d), Type(d)), {}) for d in DType if d in NUMBERS]
        return [*one, *three, Sample((Type(DType.I32, (0, 3)),), {"min": -1})]


def _both(one: Node | None, other: Node | None) -> Node | None:
    """Where both hold, of which None holds everywhere."""
    if one is None or other is None:
        return one or other
    return build.apply1("and", one, other)


@declare
class Threshold(Direct):
    """x where it exceeds `threshold`, `value` elsewhere."""

    mnemonic = "threshold"
    derivatives = ("where(x > threshold, t, 0)",)
    threshold: float = 0.0
    value: float = 0.0

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        return build.select(build.compare(x, "gt", self.threshold), x, self.value)

    def meaning(self, *arrays: Array) -> Array:
        return np.where(
            arrays[0] > self.threshold, arrays[0], np.asarray(self.value, arrays[0].dtype)
        )

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [*super().samples(), *cases(cls, {"threshold": 0.5, "value": -2.0})]
