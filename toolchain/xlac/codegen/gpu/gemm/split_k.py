"""Split-K: for products with too few tiles for the machine, blocks share each sum, and a second
kernel adds the partial sums.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xlac.codegen.core.addressing import linear, row_major
from xlac.codegen.core.contraction.contraction import unravel
from xlac.codegen.core.contraction.matrix_operand import Counters, MatrixOperand
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.lowered_group import Scratch
from xlac.codegen.core.summation import Pair
from xlac.codegen.gpu.core.grid import check_threads, grid
from xlac.codegen.gpu.gemm import block_tiling
from xlac.codegen.gpu.gemm.epilogue_store import EpilogueStore
from xlac.codegen.gpu.gemm.matrix_product import MatrixProduct
from xlac.codegen.schedules.gpu.gemm import AddPartsKernel, TiledSchedule
from xlac.codegen.schedules.schedule import Misfit
from xlac.ir.dims import Shape, ceil_div, divisor, size_hint, volume
from xlac.ir.op import Index
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

MOST = 16  # the most parts of a sum
# the most products of a part, as tensor cores add eight and more products at once without
# compensation
LONGEST = 1 << 16
STEPS = 8  # the fewest tiles of a part
THREADS = 128


def parts(p: MatrixProduct, count: int, step: int, processors: int) -> int:
    """The number of parts of the sum for a product with `count` blocks without a split: 1 if these
    are enough, and the sum is not so long that it would lose accuracy.

    Parts have equal lengths, in whole tiles of `step`.
    """
    outermost = p.depths[0]
    if not isinstance(outermost, int) or (len(p.depths) == 1 and outermost % step):
        return 1
    unit = step if len(p.depths) == 1 else 1
    least = -(-size_hint(p.depth) // LONGEST)
    if least > 1:
        dividing = next((n for n in range(least, 4 * least) if outermost % (n * unit) == 0), None)
        if dividing:
            return dividing
    if 2 * count > processors:
        return 1
    wanted = min(MOST, processors // max(1, count), size_hint(p.depth) // (step * STEPS))
    return next((n for n in range(wanted, 1, -1) if outermost % (n * unit) == 0), 1)


def divides(p: MatrixProduct, count: int, step: int) -> bool:
    """Whether a sum can be divided into `count` parts of equal lengths, in whole tiles."""
    outermost, one = p.depths[0], len(p.depths) == 1
    if count == 1:
        return True
    known = isinstance(outermost, int) and not outermost % (count * (step if one else 1))
    return known and count <= MOST * 4


def split(p: MatrixProduct, count: int) -> MatrixProduct:
    """The product with the part of the sum as another batch axis in front. Its results are indexed
    (part, batch…, row, column).
    """
    first = p.depths[0]
    assert isinstance(first, int)
    length = first // count

    def side(of: MatrixOperand) -> MatrixOperand:
        borders = tuple(replace(b, batch=(b.depth[0] * length, *b.batch)) for b in of.borders)
        return replace(of, batch=(of.depth[0] * length, *of.batch), borders=borders)

    def place(batch: Counters, rows: Counters, columns: Counters) -> Index:
        return *batch, _joined(rows, p.rows.extents), _joined(columns, p.columns.extents)

    return MatrixProduct(
        (count, *p.batch),
        (length, *p.depths[1:]),
        side(p.rows),
        side(p.columns),
        p.accumulate,
        place,
    )


def _joined(counters: Counters, extents: Shape) -> Expr:
    """One counter for several axes."""
    joined: Expr = build.index(0)
    for counter, extent in zip(counters, extents, strict=True):
        joined = build.add(build.mul(joined, extent), counter)
    return joined


@dataclass(frozen=True, slots=True)
class Partial:
    """Replaces the epilogue: partial sums are stored to scratch memory."""

    scratch: Scratch
    shape: Shape  # sizes of parts, batch…, rows, columns

    weight = 0

    def store(self, elements: Elements, at: Index, value: Expr) -> None:
        """Stores a vector of sums, at the index from `split`."""
        where = linear(at, row_major(self.shape))
        elements.store_to(elements.parameter(self.scratch, Access.WRITE), where, value)


def partial(p: MatrixProduct) -> Partial:
    """Scratch memory for the partial sums of a split product."""
    shape = (*p.batch, p.rows.size, p.columns.size)
    return Partial(Scratch(p.accumulate, volume(shape), "sums"), shape)


def combine(p: MatrixProduct, count: int, target: Target) -> AddPartsKernel | None:
    """How the kernel that adds so many parts is shared; none where there is one."""
    if count == 1:
        return None
    lanes = block_tiling.vector_of(target, p.accumulate)
    while _beside(p) % lanes:
        lanes //= 2
    return AddPartsKernel(lanes, min(THREADS, target.block_threads))


def check(schedule: TiledSchedule, p: MatrixProduct, step: int, target: Target) -> None:
    """Raises Misfit for parts that the sum of a product in tiles of `step` cannot have, and for a
    kernel that cannot add them.
    """
    kernel = schedule.combine
    if not divides(p, schedule.split_k, step):
        raise Misfit(("split_k",), "parts of the sum must have equal lengths, in whole tiles")
    if (kernel is None) is not (schedule.split_k == 1):
        raise Misfit(("combine",), "must be null if the sum has one part, and only then")
    if kernel is None:
        return
    most = max(1, target.access_bytes // p.accumulate.nbytes)
    if kernel.lanes & (kernel.lanes - 1) or kernel.lanes > most:
        raise Misfit(("combine", "lanes"), f"must be a power of two, at most {most}")
    if _beside(p) % kernel.lanes:
        raise Misfit(("combine", "lanes"), f"must divide the {_beside(p)} columns")
    check_threads(kernel.threads, target, path=("combine", "threads"))


def _beside(p: MatrixProduct) -> int:
    """What divides the number of results that lie side by side."""
    return divisor(p.columns.extents[-1] if p.columns.extents else 1)


def finish(
    elements: Elements,
    after: Epilogue,
    p: MatrixProduct,
    partial_sums: Partial,
    kernel: AddPartsKernel,
    target: Target,
) -> None:
    """The kernel that adds the parts and runs the epilogue, a few adjacent columns in
    each thread.
    """
    builder, lanes, threads = elements.builder, kernel.lanes, kernel.threads
    extents = [*p.batch, p.rows.size, p.columns.size // lanes]
    count = volume(tuple(extents))
    steps = row_major(partial_sums.shape)
    with grid(builder, target, ceil_div(count, threads), threads) as g:
        number = builder.let("number", build.add(build.mul(g.block, threads), g.thread))
        with builder.when(build.apply(Primitive.LT, number, build.lift(count))):
            *batch, row, column = unravel(builder, number, extents)
            column = builder.let("column", build.mul(column, lanes))
            first = builder.let("first", linear((*batch, row, column), steps[1:]))
            sums = elements.parameter(partial_sums.scratch, Access.READ)

            def part(number: build.Number) -> Expr:
                return build.load(
                    sums,
                    build.add(first, build.mul(number, steps[0])),
                    lanes,
                    align=lanes * p.accumulate.nbytes,
                )

            total: Expr = builder.let("total", part(0))
            if size_hint(partial_sums.shape[0]) > MOST and p.accumulate.is_float:
                pair = Pair.of(builder, builder.variable("sum", total))
                with builder.loop("part", 1, partial_sums.shape[0]) as number:
                    pair.add(part(number))
                total = builder.let("total", pair.total())
            else:
                for k in range(1, size_hint(partial_sums.shape[0])):
                    total = builder.let("total", build.apply(Primitive.ADD, total, part(k)))
            EpilogueStore(elements, after, p, batch, False, False).store(
                lambda _: row, lambda _: column, [[total]]
            )
