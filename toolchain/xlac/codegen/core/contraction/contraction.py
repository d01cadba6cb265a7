"""The canonical form of a contraction, to which dot products and convolutions are converted before
tiling.

result[outer…, row0, row1, column] = sum over inner of left[outer, rows, inner] * right[outer,
inner, column]

Every axis has an element stride in each operand, so transposed operands, broadcast batches, sliced
inputs and the sliding window of a convolution differ only in their strides.
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

PAIRED = 256  # elements; the reach of a load-pair instruction from the first row, approximately
SPARE = 3  # registers that a register tile leaves free on such a machine

Place = Callable[[Sequence[Expr], Sequence[Expr], Expr], Index]
"""The index of a result element, from the counters of the outer axes, of the two row axes, and of
the column.
"""


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop: its extent, its stride in each operand in elements, and its step along each axis of
    the left operand that has a border.
    """

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
    """The border of an axis of x: windows start at `low` before its first element, and it has
    `extent` elements.
    """

    low: int
    extent: Dim


@dataclass(frozen=True, slots=True)
class OperandSource:
    """Where an operand is stored: a buffer and the offset of its first element.

    A `computed` operand is not stored: its elements, in row-major order, are those of a node of the
    group, and each takes `computed` operations.
    """

    value: Value
    dtype: DType
    offset: Dim = 0
    computed: int = 0

    @property
    def constant(self) -> bool:
        """Whether the elements are known at compile time."""
        return isinstance(self.value, Node) and not self.computed and is_constant(self.value)


@dataclass(frozen=True, slots=True)
class Contraction:
    """The canonical form. `inner` lists summed axes from the outermost. Outside its `borders` the
    left operand is zero. With a `word`, a step of the innermost takes a word of each operand, four
    bytes or two i16 (`words` times), which are `word` elements apart in the right one.
    """

    outer: tuple[Axis, ...]
    rows: tuple[Axis, Axis]
    columns: Axis
    inner: tuple[Axis, ...]
    left: OperandSource
    right: OperandSource
    accumulate: DType
    place: Place
    borders: tuple[Edge, ...] = ()
    word: Dim = 0
    words: int = 1

    @property
    def depth(self) -> Dim:
        """The number of steps in each sum."""
        return volume(tuple(a.extent for a in self.inner))

    @property
    def row_count(self) -> Dim:
        """The number of rows over both row axes."""
        return self.rows[0].extent * self.rows[1].extent

    @property
    def products(self) -> int:
        """The products of a step of each sum."""
        return self.words * DType.I32.nbytes // self.left.dtype.nbytes if self.word else 1

    @property
    def flops(self) -> int:
        """Operations at the sizes to optimise for."""
        return (2 * self.products) * size_hint(
            self.depth
            * self.row_count
            * self.columns.extent
            * volume(tuple(a.extent for a in self.outer))
        )

    def swapped(self) -> Contraction:
        """With the operands exchanged: the last row axis becomes the columns. Requires
        one column.
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
    """Whether a node is a weight or a literal, so that its elements are known at compile time."""
    return node.op.mnemonic == "const" or (node.op.mnemonic == "param" and node.op.kind == "weight")  # type: ignore[attr-defined]


def merge(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """Merges adjacent axes that both operands traverse contiguously, and drops axes of
    one element.
    """
    merged: list[Axis] = []
    for axis in axes:
        if axis.extent == 1:
            continue
        # axes with different borders are not merged
        apart = any(axis.along) or (bool(merged) and any(merged[-1].along))
        if (
            merged
            and not apart
            and merged[-1].left == axis.left * axis.extent
            and merged[-1].right == axis.right * axis.extent
        ):
            merged[-1] = Axis(merged[-1].extent * axis.extent, axis.left, axis.right, axis.along)
        else:
            merged.append(axis)
    return tuple(merged)


def accumulator(operand: DType, result: DType) -> DType:
    """The type in which products are summed: f32 for 16-bit floats; at least 32 bits for integers,
    whose low bits are the same.
    """
    wide = result.compute
    if wide.is_integer and wide.bits < 32:
        return DType.I32
    return wide if wide.nbytes >= operand.compute.nbytes else operand.compute


def multiply_add(target: Target, a: Expr, b: Expr, total: Expr) -> Expr:
    """total + a * b, as a fused multiply-add if the target has it."""
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
    """Adds the products of `left(step, row)`, a scalar, and `right(step, vector)` to the sums, for
    every step of an unrolled depth.
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
    """The offset of counters along axes in the "left" or "right" operand."""
    where: Expr = build.lift(start)
    for axis, counter in zip(axes, counters, strict=True):
        where = build.add(where, build.mul(counter, getattr(axis, side)))
    return where


def crowds(axis: Axis, rows: Sequence[Dim], steps: int, target: Target) -> bool:
    """Whether unrolling `steps` steps would keep elements of the left operand in registers that the
    sums need.

    Elements that neighbouring rows read at other steps would be loaded once and kept. And on a
    machine with load-pair instructions (AArch64: 32 registers of 16 bytes) the compiler would load
    two steps at once if all rows are in reach of one base address.
    """
    places = set(rows)
    if any(row + axis.left * step in places for row in rows for step in range(1, steps)):
        return True
    near = len(rows) > SPARE and all(
        -PAIRED < size_hint(row) - size_hint(rows[0]) < PAIRED for row in rows
    )
    return target.vector_bytes == 16 and target.vector_registers == 32 and axis.left == 1 and near


def unravel(builder: Builder, counter: Expr, extents: Sequence[Dim]) -> list[Expr]:
    """The counters of nested loops that were fused into one loop."""
    counters: list[Expr] = []
    for extent in reversed(extents[1:]):
        counters.append(builder.let("p", build.mod(counter, extent)))
        counter = builder.let("p", build.div(counter, extent))
    return [*([counter] if extents else []), *reversed(counters)]
