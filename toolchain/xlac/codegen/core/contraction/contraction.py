"""A contraction in one canonical form: what dot products and convolutions both become before they
are tiled.

    result[outer…, row0, row1, column] = sum over inner of left[outer, rows, inner] * right[outer,
    inner, column]

Every axis carries its element stride in each operand, so transposed operands, broadcast batches,
sliced inputs and the sliding window of a convolution are all the same thing here: axes with other
strides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xlac.codegen.core.contraction.tiling import FEW_PRODUCTS, unroll
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.lowered_group import Value
from xlac.ir.dims import Dim, size_hint, volume
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Const, Expr, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

PAIRED = 256  # elements from the first row that a load of a pair reaches, about
SPARE = 3  # registers that a tile leaves free there

Place = Callable[[Sequence[Expr], Sequence[Expr], Expr], Index]
"""The index of a result element: from the counters of the outer axes, of the two row axes, and of
the column.
"""


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop: its extent, and how far one step moves in each operand, in elements; and along each
    axis of the left operand that has a border."""

    extent: Dim
    left: Dim = 0
    right: Dim = 0
    along: tuple[int, ...] = ()

    @property
    def usual(self) -> int:
        """The extent to optimise for."""
        return size_hint(self.extent)


@dataclass(frozen=True, slots=True)
class Edge:
    """Where windows leave x along an axis: the first begins `low` before it, and it has `extent`
    places.
    """

    low: int
    extent: Dim


@dataclass(frozen=True, slots=True)
class OperandSource:
    """Where an operand lies: a buffer's worth of elements and the place of its first one.

    Where it is `computed`, nowhere: its elements, in row-major order, are those of a node of the
    group, and take so many operations each.
    """

    value: Value
    dtype: DType
    offset: Dim = 0
    computed: int = 0

    @property
    def constant(self) -> bool:
        """True when the elements are known while compiling."""
        return isinstance(self.value, Node) and not self.computed and is_constant(self.value)


@dataclass(frozen=True, slots=True)
class Contraction:
    """The canonical form. `inner` goes from the outermost summed axis to the innermost. Beyond its
    `borders` the left operand is zero."""

    outer: tuple[Axis, ...]
    rows: tuple[Axis, Axis]
    columns: Axis
    inner: tuple[Axis, ...]
    left: OperandSource
    right: OperandSource
    accumulate: DType
    place: Place
    borders: tuple[Edge, ...] = ()

    @property
    def depth(self) -> Dim:
        """Products in each sum."""
        return volume(tuple(a.extent for a in self.inner))

    @property
    def row_count(self) -> Dim:
        """Rows of both axes."""
        return self.rows[0].extent * self.rows[1].extent

    @property
    def flops(self) -> int:
        """Operations, at the sizes to optimise for."""
        return 2 * size_hint(
            self.depth
            * self.row_count
            * self.columns.extent
            * volume(tuple(a.extent for a in self.outer))
        )

    def swapped(self) -> Contraction:
        """With the operands' roles exchanged: the last row axis becomes the columns. Needs one
        column.
        """
        assert self.columns.extent == 1
        place, row = self.place, self.rows[1]

        def moved(outer: Sequence[Expr], rows: Sequence[Expr], column: Expr) -> Index:
            return place(outer, (rows[0], column), build.index(0))

        def flip(axis: Axis) -> Axis:
            return Axis(axis.extent, axis.right, axis.left)

        rows = (flip(self.rows[0]), Axis(1))
        return replace(
            self,
            outer=tuple(map(flip, self.outer)),
            rows=rows,
            columns=flip(row),
            inner=tuple(map(flip, self.inner)),
            left=self.right,
            right=self.left,
            place=moved,
        )


def is_constant(node: Node) -> bool:
    """A weight or a literal: its elements are known while compiling."""
    return node.op.mnemonic == "const" or (node.op.mnemonic == "param" and node.op.kind == "weight")  # type: ignore[attr-defined]


def merge(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """Neighbouring axes that both operands cross as one become one; axes of one element
    disappear.
    """
    found: list[Axis] = []
    for axis in axes:
        if axis.extent == 1:
            continue
        apart = any(axis.along) or (bool(found) and any(found[-1].along))  # each has its own border
        if (
            found
            and not apart
            and found[-1].left == axis.left * axis.extent
            and found[-1].right == axis.right * axis.extent
        ):
            found[-1] = Axis(found[-1].extent * axis.extent, axis.left, axis.right, axis.along)
        else:
            found.append(axis)
    return tuple(found)


def accumulator(operand: DType, result: DType) -> DType:
    """The type that products are summed in: f32 for halves; at least 32 bits for integers, which
    wrap alike.
    """
    wide = result.compute
    if wide.is_integer and wide.bits < 32:
        return DType.I32
    return wide if wide.nbytes >= operand.compute.nbytes else operand.compute


def multiply_add(target: Target, a: Expr, b: Expr, total: Expr) -> Expr:
    """total + a * b, fused where the machine does that."""
    if total.dtype.is_float and target.fma:
        return build.apply(Primitive.FMA, a, b, total)
    return build.apply(Primitive.ADD, total, build.apply(Primitive.MUL, a, b))


def multiply(
    builder: Builder,
    target: Target,
    sums: Sequence[Sequence[Var]],
    depth: Expr,
    left: Callable[[Expr, int], Expr],
    right: Callable[[Expr, int], Expr],
) -> None:
    """Adds the products of `left(step, row)`, a scalar, and `right(step, vector)` to sums, for
    every step of a depth.
    """
    lanes = sums[0][0].lanes

    def step(k: Expr) -> None:
        vectors = [builder.let("w", right(k, v)) for v in range(len(sums[0]))]
        for row, totals in enumerate(sums):
            value = builder.let("x", build.splat(left(k, row), lanes))
            for vector, total in zip(vectors, totals, strict=True):
                builder.assign(total, multiply_add(target, value, vector, total))

    copies = (
        unroll(int(depth.value), 4 if len(sums) * len(sums[0]) <= FEW_PRODUCTS else 2)
        if isinstance(depth, Const)
        else 2
    )
    main = build.mul(build.div(depth, copies), copies)
    with builder.loop("k", 0, main, copies) as k:
        for u in range(copies):
            step(build.add(k, u))
    with builder.loop("k", main, depth) as k:
        step(k)


def read(
    elements: Elements,
    source: OperandSource,
    where: Expr,
    lanes: int,
    dtype: DType,
    mask: Expr | None = None,
    align: int = 0,
) -> Expr:
    """One element, or `lanes` consecutive ones, in the accumulator's type."""
    buffer = elements.parameter(source.value, Access.READ)
    return build.cast(build.load(buffer, where, lanes, mask, align), dtype)


def zero(dtype: DType, lanes: int) -> Const:
    """A scalar or vector of zeros."""
    return Const(0.0 if dtype.is_float else 0, dtype, lanes)


def offset(axes: Sequence[Axis], counters: Sequence[Expr], side: str, start: Dim = 0) -> Expr:
    """Where counters along axes lead in the "left" or "right" operand."""
    where: Expr = build.lift(start)
    for axis, counter in zip(axes, counters, strict=True):
        where = build.add(where, build.mul(counter, getattr(axis, side)))
    return where


def crowds(axis: Axis, rows: Sequence[Dim], steps: int, target: Target) -> bool:
    """Whether elements of the left operand would wait in registers that the sums need, were `steps`
    written out together.

    What neighbouring rows read at other steps would be loaded once. And a machine that loads pairs
    of scalars (AArch64: 32 registers of 16 bytes) would load two steps at once where its addresses
    reach all rows from one.
    """
    places = set(rows)
    if any(row + axis.left * step in places for row in rows for step in range(1, steps)):
        return True
    near = len(rows) > SPARE and all(
        -PAIRED < size_hint(row) - size_hint(rows[0]) < PAIRED for row in rows
    )
    return target.vector_bytes == 16 and target.vector_registers == 32 and axis.left == 1 and near


def unravel(builder: Builder, counter: Expr, extents: Sequence[Dim]) -> list[Expr]:
    """The counters of nested loops that were fused into one."""
    found: list[Expr] = []
    for extent in reversed(extents[1:]):
        found.append(builder.let("p", build.mod(counter, extent)))
        counter = builder.let("p", build.div(counter, extent))
    return [*([counter] if extents else []), *reversed(found)]
