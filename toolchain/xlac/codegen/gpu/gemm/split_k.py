"""Products whose tiles would leave most of the machine idle: blocks share each sum, and a kernel
adds what they found.
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
from xlac.codegen.gpu.core.grid import grid
from xlac.codegen.gpu.gemm import block_tiling
from xlac.codegen.gpu.gemm.epilogue_store import EpilogueStore
from xlac.codegen.gpu.gemm.matrix_product import MatrixProduct
from xlac.ir.dims import Shape, ceil_div, divisor, size_hint, volume
from xlac.ir.op import Index
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

MOST = 16  # parts of a sum that is cut to have more blocks
LONGEST = 1 << 16  # products of a part: the instructions of tensor cores add eight and more at once
STEPS = 8  # tiles of a part, at least
THREADS = 128


def parts(p: MatrixProduct, count: int, step: int, processors: int) -> int:
    """In how many parts to cut the sum of a product that has so many blocks without: 1 where they
    are enough, and the sum is not so long that it would lose digits.

    Parts are whole tiles of `step`, and equally long.
    """
    outermost = p.depths[0]
    if not isinstance(outermost, int) or (len(p.depths) == 1 and outermost % step):
        return 1
    unit = step if len(p.depths) == 1 else 1
    least = -(-size_hint(p.depth) // LONGEST)
    if least > 1:
        found = next((n for n in range(least, 4 * least) if outermost % (n * unit) == 0), None)
        if found:
            return found
    if 2 * count > processors:
        return 1
    wanted = min(MOST, processors // max(1, count), size_hint(p.depth) // (step * STEPS))
    return next((n for n in range(wanted, 1, -1) if outermost % (n * unit) == 0), 1)


def divides(p: MatrixProduct, count: int, step: int) -> bool:
    """Whether a sum can be cut into so many parts of whole tiles, equally long."""
    outermost, one = p.depths[0], len(p.depths) == 1
    if count == 1:
        return True
    known = isinstance(outermost, int) and not outermost % (count * (step if one else 1))
    return known and count <= MOST * 4


def split(p: MatrixProduct, count: int) -> MatrixProduct:
    """The product with another axis in front of its batch: the part of the sum. Its results are
    numbered (part, batch…, row, column)."""
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
    """One counter for those of several axes."""
    found: Expr = build.index(0)
    for counter, extent in zip(counters, extents, strict=True):
        found = build.add(build.mul(found, extent), counter)
    return found


@dataclass(frozen=True, slots=True)
class Partial:
    """In place of an epilogue: sums go to scratch memory as they are."""

    scratch: Scratch
    shape: Shape  # parts, batch…, rows, columns

    weight = 0

    def store(self, elements: Elements, at: Index, value: Expr) -> None:
        """Stores a vector of sums, where `split` has placed it."""
        where = linear(at, row_major(self.shape))
        elements.store_to(elements.parameter(self.scratch, Access.WRITE), where, value)


def partial(p: MatrixProduct) -> Partial:
    """Where the sums of a product with parts go."""
    shape = (*p.batch, p.rows.size, p.columns.size)
    return Partial(Scratch(p.accumulate, volume(shape), "sums"), shape)


def finish(
    elements: Elements, after: Epilogue, p: MatrixProduct, found: Partial, target: Target
) -> None:
    """The kernel that adds the parts and does what follows, for a few neighbouring columns in each
    thread.
    """
    builder = elements.builder
    lanes = block_tiling.vector_of(target, p.accumulate)
    while divisor(p.columns.extents[-1] if p.columns.extents else 1) % lanes:
        lanes //= 2
    extents = [*p.batch, p.rows.size, p.columns.size // lanes]
    count, threads = volume(tuple(extents)), min(THREADS, target.block_threads)
    steps = row_major(found.shape)
    with grid(builder, target, ceil_div(count, threads), threads) as g:
        number = builder.let("number", build.add(build.mul(g.block, threads), g.thread))
        with builder.when(build.apply(Primitive.LT, number, build.lift(count))):
            *batch, row, column = unravel(builder, number, extents)
            column = builder.let("column", build.mul(column, lanes))
            first = builder.let("first", linear((*batch, row, column), steps[1:]))
            sums = elements.parameter(found.scratch, Access.READ)

            def part(number: build.Number) -> Expr:
                return build.load(
                    sums,
                    build.add(first, build.mul(number, steps[0])),
                    lanes,
                    align=lanes * p.accumulate.nbytes,
                )

            total: Expr = builder.let("total", part(0))
            if size_hint(found.shape[0]) > MOST and p.accumulate.is_float:
                pair = Pair.of(builder, builder.variable("sum", total))
                with builder.loop("part", 1, found.shape[0]) as number:
                    pair.add(part(number))
                total = builder.let("total", pair.total())
            else:
                for k in range(1, size_hint(found.shape[0])):
                    total = builder.let("total", build.apply(Primitive.ADD, total, part(k)))
            EpilogueStore(elements, after, p, batch, False, False).store(
                lambda _: row, lambda _: column, [[total]]
            )
