"""Attention in the form that CPU and GPU lowerings use: for every batch and key head, rows of
queries, each with weights over the keys.

Query heads that share a key head are rows of one product, so that keys and values are read once for
all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from xlac.codegen.core.contraction.contraction import OperandSource
from xlac.codegen.core.contraction.matrix_operand import Counters, MatrixOperand
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.operands import OperandView
from xlac.ir.dims import Dim, Shape, size_hint
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac.ir.types import Type
from xlac.ops.nn.attention import MaskedHeads
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive
LOG2E = math.log2(math.e)
LOWEST = {DType.F32: float(np.finfo(np.float32).min), DType.F64: float(np.finfo(np.float64).min)}
"""The maximum of no scores, and the score of masked keys unless the operation states one."""


@dataclass(frozen=True, slots=True)
class AttentionProblem:
    """One attention. `queries` has its rows as axes (heads that share keys, time); `keys` and
    `values` are summed over time, and their own axis is the width. All are batched over (batch, key
    heads).
    """

    node: Node
    queries: MatrixOperand
    keys: MatrixOperand
    values: MatrixOperand
    batch: Shape
    time: Dim
    length: Dim  # number of keys
    shared: int  # query heads of each key head
    widths: tuple[int, int]  # of queries and keys, and of values

    @property
    def op(self) -> MaskedHeads:
        """The operation."""
        assert isinstance(self.node.op, MaskedHeads)
        return self.node.op

    @property
    def dtype(self) -> DType:
        """Of queries, keys and values."""
        return self.node.inputs[0].type.dtype

    @property
    def rows(self) -> Dim:
        """Rows of queries per key head."""
        return self.queries.size

    @property
    def scale(self) -> float:
        """The factor of scores."""
        return 1 / math.sqrt(self.widths[0]) if self.op.scale is None else self.op.scale

    @property
    def mask(self) -> Node | None:
        """The mask that is added to scores, or None."""
        place = self.op.operands.index("mask?")
        return self.node.inputs[place] if len(self.node.inputs) > place else None

    @property
    def gap(self) -> int | None:
        """The number of keys minus the number of queries, for causal attention: query i sees keys
        up to i + gap. None if it is not causal.
        """
        if not self.op.causal:
            return None
        gap = self.length - self.time
        assert isinstance(gap, int), (
            "causal attention knows how many more keys than queries there are"
        )
        return gap

    @property
    def sees_start(self) -> bool:
        """Whether causal masking gives later keys no weight, and every query sees at least one key;
        then blocks of masked keys need not be read.
        """
        return (
            self.gap is not None
            and self.gap >= 0
            and self.mask is None
            and self.op.hidden in (None, -math.inf)
        )

    def place(self, batch: Counters, row: Expr, column: Expr) -> Index:
        """The index in the result of one row's element, or as many as the column has lanes."""
        head, time = self.head_and_time(batch, row)
        if self.node.inputs[0].type.rank == 4:
            return batch[0], head, time, column
        return batch[0], time, build.add(build.mul(head, self.widths[1]), column)

    def head_and_time(self, batch: Counters, row: Expr) -> tuple[Expr, Expr]:
        """The query head and the time of a row."""
        shared, time = (
            (build.div(row, self.time), build.mod(row, self.time))
            if self.shared > 1
            else (build.index(0), row)
        )
        return build.add(build.mul(batch[1], self.shared), shared), time

    def scored(
        self,
        elements: Elements,
        batch: Counters,
        row: Expr,
        key: Expr,
        product: Expr,
        end: Expr | None,
    ) -> Expr:
        """The scaled and masked score of a row and the key (or vector of keys) `key`; minus
        infinity from `end` on, if given.
        """
        dtype = product.dtype
        score = build.apply(P.MUL, product, Const(self.scale, dtype))
        lowest = Const(LOWEST[dtype] if self.op.hidden is None else self.op.hidden, dtype)
        if self.mask is not None and self.mask.type.dtype is not DType.BOOL:
            given = self._masked(elements, batch, row, key, end)
            score = build.apply(P.ADD, score, build.cast(given, dtype))
        for seen in self.seen(elements, batch, row, key, end):
            score = build.select(seen, score, lowest)
        if end is not None:
            score = build.select(build.apply(P.LT, key, end), score, Const(-math.inf, dtype))
        return score

    def seen(
        self, elements: Elements, batch: Counters, row: Expr, key: Expr, end: Expr | None
    ) -> list[Expr]:
        """Whether a row may attend to keys (as many as `key` has lanes): the conjunction of a bool
        mask and of causal order; None where all are allowed.
        """
        conditions = []
        if self.mask is not None and self.mask.type.dtype is DType.BOOL:
            conditions.append(self._masked(elements, batch, row, key, end))
        if self.gap is not None and self.time != 1:
            _, time = self.head_and_time(batch, row)
            conditions.append(build.apply(P.LE, key, build.add(time, self.gap)))
        return conditions

    def _masked(
        self, elements: Elements, batch: Counters, row: Expr, key: Expr, end: Expr | None
    ) -> Expr:
        """The mask of a row for keys; it is not read past its end."""
        assert self.mask is not None
        head, time = self.head_and_time(batch, row)
        at = (batch[0], head, time, key)[4 - self.mask.type.rank :]
        index = tuple(
            build.index(0) if n == 1 else i for i, n in zip(at, self.mask.shape, strict=True)
        )
        if end is not None and self.mask.shape[-1:] != (1,) and index:
            index = (*index[:-1], build.apply(P.MIN, index[-1], build.lift(self.length - 1)))
        return elements.at(self.mask, index)


def exponential(value: Expr) -> Expr:
    """e to the power x."""
    return build.apply(P.EXP2, build.apply(P.MUL, value, Const(LOG2E, value.dtype)))


def attention_problem(
    node: Node, views: tuple[OperandView, OperandView, OperandView]
) -> AttentionProblem:
    """The attention problem of a node, with its operands in the given views."""
    op = node.op
    assert isinstance(op, MaskedHeads)
    shapes = op.shapes(*(i.type for i in node.inputs[:3]))
    (batch, many, time, width), (_, few, length, _), (_, _, _, wide) = shapes
    assert isinstance(width, int) and isinstance(wide, int)
    shared = size_hint(many) // max(1, size_hint(few))
    q, k, v = (i.type for i in node.inputs[:3])
    return AttentionProblem(
        node,
        of_queries(views[0], q, width, shared, time),
        of_keys(views[1], k, width),
        of_keys(views[2], v, wide),
        (batch, few),
        time,
        length,
        shared,
        (width, wide),
    )


def of_queries(view: OperandView, given: Type, width: int, shared: int, time: Dim) -> MatrixOperand:
    """An operand with the layout of queries (of `width`) at a view: its rows are its own axes."""
    b, h, t, w = _steps(view, given, width)
    own, steps = ((shared, time), (h, t)) if shared > 1 else ((time,), (t,))
    source = OperandSource(view.value, given.dtype, view.offset)
    return MatrixOperand(source, own, steps, (b, h * shared), (w,))


def of_keys(view: OperandView, given: Type, width: int) -> MatrixOperand:
    """An operand with the layout of keys (of `width`) at a view: it is summed over time."""
    b, h, t, w = _steps(view, given, width)
    source = OperandSource(view.value, given.dtype, view.offset)
    return MatrixOperand(source, (width,), (w,), (b, h), (t,))


def _steps(view: OperandView, given: Type, width: int) -> Shape:
    """Strides of a view with heads split into key heads and shared queries."""
    if given.rank == 4:
        return view.strides
    b, t, w = view.strides
    return b, w * width, t, w
