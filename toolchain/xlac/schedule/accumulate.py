"""Accumulators: how one reduction gathers its elements inside a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.graph import Node
from xlac.ops import numeric
from xlac.ops.leaf import convert_element
from xlac.ops.reduction import Reduce
from xlac.schedule.elements import Elements
from xlac_sdk import build
from xlac_sdk.kernel import Const, Expr, Let, Shuffle, Var


class Accumulator:
    """Partial results of one reduction: `copies` sets of variables of `lanes` lanes, and scalars for a tail.

    Named combinations start from the identity and may meet in any order. A body starts from its initial values, so
    it has one set, and each lane must be a result of its own (or there is one lane).
    """

    def __init__(self, elements: Elements, node: Node, lanes: int, copies: int, *, tail: bool = False) -> None:
        assert isinstance(node.op, Reduce)
        self.elements, self.builder, self.node, self.op = elements, elements.builder, node, node.op
        if self.op.body is None:
            dtype = node.type.dtype
            self.identity = Const(numeric.identity(self.op.combine, dtype), dtype.compute)
            starts: list[Expr] = [self.identity]
        else:
            starts = [elements.at(i, ()) for i in node.inputs[len(node.inputs) // 2 :]]
        self.sets = [[self._variable(s, lanes) for s in starts] for _ in range(copies)]
        self.tail = [self._variable(s, 1) for s in starts] if tail else None

    def _variable(self, start: Expr, lanes: int) -> Var:
        return self.builder.variable("acc", build.splat(start, lanes))

    def add(self, copy: int, values: Sequence[Expr], lanes: int, mask: Expr | None = None) -> None:
        """Takes in one vector (or scalar, for the tail) of each operand; masked lanes leave no trace.

        Vectors longer than those of a set are shared out among the sets from `copy` on.
        """
        into = self.sets[copy]
        width = into[0].lanes
        if lanes > width:
            for part in range(lanes // width):
                picks = tuple(range(part * width, (part + 1) * width))
                some = None if mask is None else Shuffle((mask,), picks)
                self.add(copy + part, [Shuffle((value,), picks) for value in values], width, some)
            return
        if self.tail is not None and lanes == 1:
            into = self.tail
        if self.op.body is None:
            (value,), (var,) = values, into
            if mask is not None:
                value = build.select(mask, value, self.identity)
            self.builder.assign(var, build.apply(numeric.COMBINE[self.op.combine], var, value))
            return
        before = [fixed(self.elements, var) for var in into]
        for var, value in zip(into, self.elements.inline(self.op.body, [*before, *values]), strict=True):
            self.builder.assign(var, value)

    def result(self, copy: int | None) -> list[Expr]:
        """The values of one set, or of all of them with their lanes folded together; rounded to the node's types."""
        return rounded(self.elements, self.node, self.exact(copy))

    def exact(self, copy: int | None) -> list[Expr]:
        """The same in the types of the accumulators."""
        if copy is not None:
            values: list[Expr] = [fixed(self.elements, var) for var in self.sets[copy]]
        elif self.op.body is not None:
            values = [fixed(self.elements, var) for var in self.sets[0]]
        else:
            primitive = numeric.COMBINE[self.op.combine]
            total: Expr = self.sets[0][0]
            for (var,) in self.sets[1:]:
                total = build.apply(primitive, total, var)
            total = build.fold(primitive, total)
            if self.tail is not None:
                total = build.apply(primitive, total, self.tail[0])
            values = [fixed(self.elements, total)]
        return values


def rounded(elements: Elements, node: Node, values: Sequence[Expr]) -> list[Expr]:
    """Accumulated values as the results of a reduction: halves are rounded, once."""
    return [
        elements.builder.let("r", convert_element(v, t.dtype)) if t.dtype.is_half else v
        for v, t in zip(values, node.results, strict=True)
    ]


def fixed(elements: Elements, value: Expr) -> Expr:
    """A name for what a value is now: a mutable name may change later."""
    var = Var(elements.builder.fresh("r"), value.dtype, value.lanes)
    elements.builder.emit(Let(var, value))
    return var
