"""Accumulators of a reduction inside a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from xlac.codegen.core.elements import Elements
from xlac.codegen.core.summation import Pair, compensated
from xlac.ir.graph import Node
from xlac.ops import numeric
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.tensor.leaf import convert_element
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Const, Expr, Let, Shuffle, Var


class Accumulator:
    """Partial results of one reduction: `copies` independent sets of variables of `lanes` lanes,
    and scalars for a tail.

    Named combinations start from the identity and are combined in any order. A reducer with a body
    starts from its initial values, so it has one set, and each lane must be a separate result (or
    there is one lane). With `long`, elements are added in blocks and sums of floats are
    compensated.
    """

    def __init__(
        self,
        elements: Elements,
        node: Node,
        lanes: int,
        copies: int,
        *,
        tail: bool = False,
        long: bool = False,
    ) -> None:
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
        self.starts, self.pairs, self.tail_pair = starts, list[Pair](), None
        if long and sums(node):
            self.pairs = [Pair.of(self.builder, var) for (var,) in self.sets]
            self.tail_pair = Pair.of(self.builder, self.tail[0]) if self.tail else None

    @contextmanager
    def block(self) -> Iterator[None]:
        """A block: elements added inside are summed separately, and the block's sum is then added
        to the compensated total.
        """
        if not self.pairs:
            yield
            return
        sets, tail = self.sets, self.tail
        self.sets = [[self._variable(self.identity, var.lanes)] for (var,) in sets]
        self.tail = None if tail is None else [self._variable(self.identity, 1)]
        yield
        for pair, (var,) in zip(self.pairs, self.sets, strict=True):
            pair.add(fixed(self.elements, var))
        if self.tail_pair is not None and self.tail is not None:
            self.tail_pair.add(fixed(self.elements, self.tail[0]))
        self.sets, self.tail = sets, tail

    def _variable(self, start: Expr, lanes: int) -> Var:
        return self.builder.variable("acc", build.splat(start, lanes))

    def add(self, copy: int, values: Sequence[Expr], lanes: int, mask: Expr | None = None) -> None:
        """Combines one vector (or scalar, for the tail) of each operand; masked lanes are ignored.

        Vectors longer than a set are split among the sets from `copy` on; shorter ones are combined
        with the tail.
        """
        into = self.sets[copy]
        width = into[0].lanes
        if lanes > width:
            for part in range(lanes // width):
                picks = tuple(range(part * width, (part + 1) * width))
                some = None if mask is None else Shuffle((mask,), picks)
                split = [v if v.lanes == 1 else Shuffle((v,), picks) for v in values]
                self.add(copy + part, split, width, some)
            return
        if self.tail is not None and lanes < width:
            values = [build.splat(v, lanes) if v.lanes == 1 else v for v in values]
            into, lanes = self.tail, 1
            if self.op.body is None:
                values = [build.fold(numeric.COMBINE[self.op.combine], v) for v in values]
        assert lanes == into[0].lanes, "an element in every lane would be counted more than once"
        if self.op.body is None:
            (value,), (var,) = values, into
            if mask is not None:
                value = build.select(mask, value, self.identity)
            self.builder.assign(var, build.apply(numeric.COMBINE[self.op.combine], var, value))
            return
        before = [fixed(self.elements, var) for var in into]
        for var, value in zip(
            into, self.elements.inline(self.op.body, [*before, *values]), strict=True
        ):
            self.builder.assign(var, value)

    def result(self, copy: int | None) -> list[Expr]:
        """The values of one set, or of all sets and lanes combined, rounded to the node's types."""
        return rounded(self.elements, self.node, self.exact(copy))

    def exact(self, copy: int | None) -> list[Expr]:
        """As `result`, in the types of the accumulators."""
        if copy is not None:
            return (
                [fixed(self.elements, self.pairs[copy].total())]
                if self.pairs
                else [fixed(self.elements, v) for v in self.sets[copy]]
            )
        if self.op.body is not None:
            return [fixed(self.elements, var) for var in self.sets[0]]
        primitive = numeric.COMBINE[self.op.combine]
        totals: list[Expr] = (
            [p.total() for p in self.pairs] if self.pairs else [var for (var,) in self.sets]
        )
        while len(totals) > 1:
            halves = zip(totals[::2], totals[1::2], strict=False)
            totals = [build.apply(primitive, a, b) for a, b in halves] + (
                totals[-1:] if len(totals) % 2 else []
            )
        total = build.fold(primitive, totals[0])
        if self.tail is not None:
            total = build.apply(
                primitive, total, self.tail_pair.total() if self.tail_pair else self.tail[0]
            )
        return [fixed(self.elements, total)]


def sums(node: Node) -> bool:
    """Whether a reduction is a sum of floats, which rounds."""
    op = node.op
    return isinstance(op, Reduce) and op.body is None and compensated(op.combine, node.type.dtype)


def rounded(elements: Elements, node: Node, values: Sequence[Expr]) -> list[Expr]:
    """Accumulated values as the results of a reduction: 16-bit floats are rounded once."""
    return [
        elements.builder.let("r", convert_element(v, t.dtype)) if t.dtype.is_half else v
        for v, t in zip(values, node.results, strict=True)
    ]


def fixed(elements: Elements, value: Expr) -> Expr:
    """The current value of an expression, named so that later assignments to mutable variables do
    not affect it.
    """
    var = Var(elements.builder.fresh("r"), value.dtype, value.lanes)
    elements.builder.emit(Let(var, value))
    return var
