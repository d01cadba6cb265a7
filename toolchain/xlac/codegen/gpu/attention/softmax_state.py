"""Softmax states of blocks and threads that share the keys of a row, and their combination to the
row's result.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlac.codegen.core.attention_problem import AttentionProblem, exponential
from xlac.codegen.core.contraction.contraction import unravel
from xlac.codegen.core.contraction.matrix_operand import Counters
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.lowered_group import Scratch
from xlac.codegen.gpu.core.grid import grid
from xlac.ir.dims import ceil_div, volume
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Expr
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive


@dataclass(frozen=True, slots=True)
class SoftmaxState:
    """The state of a row's online softmax: the maximum score, the sum of the weights, and parts of
    the weighted values.
    """

    greatest: Expr
    weight: Expr
    values: tuple[Expr, ...]


def merge_states(builder: Builder, one: SoftmaxState, other: SoftmaxState) -> SoftmaxState:
    """The combined state of two disjoint sets of keys."""
    top = builder.let("top", build.apply(P.MAX, one.greatest, other.greatest))
    less, more = (
        builder.let("less", exponential(build.apply(P.SUB, s.greatest, top))) for s in (one, other)
    )

    def both(x: Expr, y: Expr) -> Expr:
        left, right = (build.splat(f, x.lanes) for f in (less, more))
        return builder.let(
            "both", build.apply(P.ADD, build.apply(P.MUL, x, left), build.apply(P.MUL, y, right))
        )

    pairs = zip(one.values, other.values, strict=True)
    return SoftmaxState(top, both(one.weight, other.weight), tuple(both(x, y) for x, y in pairs))


def store(
    elements: Elements,
    after: Epilogue,
    h: AttentionProblem,
    batch: Counters,
    row: Expr,
    column: Expr,
    state: SoftmaxState,
) -> None:
    """Stores weighted values divided by the sum of weights."""
    (value,) = state.values
    result = build.apply(P.DIV, value, build.splat(state.weight, value.lanes))
    after.store(elements, h.place(batch, row, build.ramp(column, 1, value.lanes)), result)


@dataclass(frozen=True, slots=True)
class SplitResults:
    """The states of the blocks that share the keys of a head: weighted values, and (maximum score,
    sum of weights), for every (batch, key head, row, block); `part` elements of a row's values are
    combined at once.
    """

    values: Scratch
    weights: Scratch
    splits: int
    part: int
    by_last_block: bool  # the last block to finish combines them, instead of a separate kernel

    @staticmethod
    def of(h: AttentionProblem, splits: int, part: int, *, by_last_block: bool) -> SplitResults:
        """Scratch memory for the states of `splits` blocks for every row."""
        dtype, parts = h.dtype.compute, volume(h.batch) * h.rows * splits
        return SplitResults(
            Scratch(dtype, parts * h.widths[1], "values"),
            Scratch(dtype, parts * 2, "weights"),
            splits,
            part,
            by_last_block,
        )

    def place(self, h: AttentionProblem, batch: Counters, row: Expr, split: build.Number) -> Expr:
        """The index of one block's state for a row."""
        at = build.add(build.mul(batch[0], h.batch[1]), batch[1])
        return build.add(build.mul(build.add(build.mul(at, h.rows), row), self.splits), split)

    def result(
        self,
        elements: Elements,
        after: Epilogue,
        h: AttentionProblem,
        batch: Counters,
        row: Expr,
        column: Expr,
    ) -> None:
        """Combines the states of all blocks for some adjacent elements of a row, and
        stores them.
        """
        builder = elements.builder
        values, weights = (
            elements.parameter(one, Access.READ) for one in (self.values, self.weights)
        )
        state: SoftmaxState | None = None
        for split in range(self.splits):
            at = builder.let("at", self.place(h, batch, row, split))
            top, weight = (
                builder.let("sum", build.load(weights, build.add(build.mul(at, 2), e)))
                for e in range(2)
            )
            value = builder.let(
                "value",
                build.load(values, build.add(build.mul(at, h.widths[1]), column), self.part),
            )
            more = SoftmaxState(top, weight, (value,))
            state = more if state is None else merge_states(builder, state, more)
        assert state is not None
        store(elements, after, h, batch, row, column, state)


def combine(
    elements: Elements, after: Epilogue, h: AttentionProblem, splits: SplitResults, threads: int
) -> None:
    """The kernel that combines the states of blocks for the same rows: a thread for every few
    elements of the result.
    """
    builder = elements.builder
    extents = [*h.batch, h.rows, h.widths[1] // splits.part]
    count = volume(tuple(extents))
    with grid(builder, elements.target, ceil_div(count, threads), threads) as g:
        number = builder.let("number", build.add(build.mul(g.block, threads), g.thread))
        with builder.when(build.apply(P.LT, number, build.lift(count))):
            *batch, row, column = unravel(builder, number, extents)
            splits.result(
                elements,
                after,
                h,
                batch,
                row,
                builder.let("column", build.mul(column, splits.part)),
            )
