"""A contraction as a GPU computes it: a batch of matrix products of two flattened operands.

result[batch, m, n] = sum over k of rows[batch, m, k] * columns[batch, k, n]

m, n and k may each stand for several axes, so a convolution is a product too: its pixels are m, its
window and channels k. Columns are contiguous in the result, so that adjacent threads store them
together; which operand has them depends on the result's layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlac.codegen.core.addressing import linear, row_major
from xlac.codegen.core.contraction.contraction import Axis, Contraction, OperandSource
from xlac.codegen.core.contraction.matrix_operand import Counters, MatrixOperand, Padding, apart
from xlac.codegen.core.epilogue import Epilogue
from xlac.ir.dims import Dim, Shape, size_hint, volume
from xlac.ir.op import Index
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Expr, Var

Place = Callable[[Counters, Counters, Counters], Index]
"""The index of a result element from the counters of batch, rows and columns."""


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """See the module's docstring."""

    batch: Shape
    depths: Shape  # sizes of the summed axes, outermost first
    rows: MatrixOperand
    columns: MatrixOperand
    accumulate: DType
    place: Place

    @property
    def depth(self) -> Dim:
        """The number of products in each sum."""
        return volume(self.depths)

    def computing(self, rows: int, columns: int) -> int:
        """Operations to compute the elements of a tile's operands for each step of the sum, if they
        are not in memory.
        """
        return rows * self.rows.source.computed + columns * self.columns.source.computed

    @property
    def count(self) -> Dim:
        """The number of matrix products in the batch."""
        return volume(self.batch)

    @property
    def usual(self) -> tuple[int, int, int, int]:
        """Batch, rows, columns and depth at the sizes to optimise for."""
        return (
            size_hint(self.count),
            size_hint(self.rows.size),
            size_hint(self.columns.size),
            size_hint(self.depth),
        )

    def turned(self) -> MatrixProduct:
        """The product with rows and columns exchanged."""

        def place(batch: Counters, rows: Counters, columns: Counters) -> Index:
            return self.place(batch, columns, rows)

        return MatrixProduct(
            self.batch, self.depths, self.columns, self.rows, self.accumulate, place
        )

    def index(self, builder: Builder, batch: Counters, row: Expr, column: Expr) -> Index:
        """The result's index for a row and a column (or vectors of them)."""
        return self.place(
            batch,
            apart(builder, row, self.rows.extents),
            apart(builder, column, self.columns.extents),
        )


def matrix_product(c: Contraction, after: Epilogue) -> MatrixProduct:
    """The product of a contraction, with columns along the axis in which results are contiguous."""
    summed = tuple(a for a in c.inner if a.extent != 1) or c.inner[-1:]
    down = [k for k, a in enumerate(c.outer) if a.right == 0]
    across = [k for k, a in enumerate(c.outer) if a.left == 0 and a.right != 0]
    batch = [k for k in range(len(c.outer)) if k not in down and k not in across]
    rows = [
        (k, a)
        for k, a in enumerate((*c.outer, *c.rows))
        if (k in down or k >= len(c.outer)) and a.extent != 1
    ]
    columns = [(k, c.outer[k]) for k in across] + (
        [(-1, c.columns)] if c.columns.extent != 1 else []
    )
    rows.sort(key=lambda pair: -abs(size_hint(pair[1].left)))

    def place(batches: Counters, downs: Counters, acrosses: Counters) -> Index:
        zero: Expr = build.index(0)
        counters = dict(zip(batch, batches, strict=True))
        counters |= {k: at for (k, _), at in zip(rows, downs, strict=True)}
        counters |= {k: at for (k, _), at in zip(columns, acrosses, strict=True)}
        outer = [counters.get(k, zero) for k in range(len(c.outer))]
        both = [counters.get(len(c.outer) + k, zero) for k in range(2)]
        return c.place(outer, both, counters.get(-1, zero))

    def side(source: OperandSource, axes: Sequence[Axis], name: str) -> MatrixOperand:
        def steps(of: Sequence[Axis]) -> Shape:
            return tuple(getattr(a, name) for a in of)

        others = [c.outer[k] for k in batch]
        borders = [
            Padding(e.low, e.extent, *(_along(of, n) for of in (axes, others, summed)))
            for n, e in enumerate(c.borders)
        ]
        has = tuple(borders) if name == "left" else ()
        return MatrixOperand(
            source, tuple(a.extent for a in axes), steps(axes), steps(others), steps(summed), has
        )

    as_given = MatrixProduct(
        tuple(c.outer[k].extent for k in batch),
        tuple(a.extent for a in summed),
        side(c.left, [a for _, a in rows], "left"),
        side(c.right, [a for _, a in columns], "right"),
        c.accumulate,
        place,
    )
    return (
        as_given
        if _side_by_side(as_given, after) or not _side_by_side(as_given.turned(), after)
        else as_given.turned()
    )


def _along(axes: Sequence[Axis], border: int) -> tuple[int, ...]:
    """The steps of each axis along the left operand's axis that has a border."""
    return tuple(a.along[border] if a.along else 0 for a in axes)


def _side_by_side(p: MatrixProduct, after: Epilogue) -> bool:
    """Whether adjacent columns are adjacent in the first output."""
    if not p.columns.extents:
        return False
    (output, *_) = after.group.outputs
    last = Var("column", build.INDEX, low=0, high=1)
    zero = build.index(0)
    columns = [zero] * (len(p.columns.extents) - 1) + [last]
    at = p.place([zero] * len(p.batch), [zero] * len(p.rows.extents), columns)
    where = linear(after.forward(output, at), row_major(output.shape), output.shape)
    return build.terms(where).get(last) == 1
