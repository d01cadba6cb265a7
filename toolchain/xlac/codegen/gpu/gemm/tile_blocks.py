"""The blocks of a matrix product by tiles in shared memory: one for each tile of each product in
the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from xlac.codegen.core.contraction.contraction import unravel
from xlac.codegen.core.contraction.matrix_operand import Counters
from xlac.codegen.gpu.core.grid import grid
from xlac.codegen.gpu.gemm.matrix_product import MatrixProduct
from xlac.ir.dims import ceil_div, volume
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Buffer, Expr
from xlac_sdk.target import Target


class TileThread(NamedTuple):
    """A thread of a block: its number, the place in the batch, the tile's first row and column, and
    the memory of the left and the right operand.
    """

    thread: Expr
    batch: Counters
    first: tuple[Expr, Expr]
    memory: list[Buffer]


@contextmanager
def tile_blocks(
    builder: Builder,
    target: Target,
    p: MatrixProduct,
    tile: tuple[int, int],
    threads: int,
    memory: list[tuple[DType, int]],
    align: int = 64,
) -> Iterator[TileThread]:
    """Blocks of `threads` threads, for tiles of so many rows and columns; `memory` are the types
    and elements of the operands in shared memory.
    """
    counts = ceil_div(p.rows.size, tile[0]), ceil_div(p.columns.size, tile[1])
    extents = [*p.batch, counts[1], counts[0]]
    with grid(builder, target, volume(tuple(extents)), threads) as g:
        buffers = [
            g.shared(hint, dtype, elements, align)
            for hint, (dtype, elements) in zip(("left", "right"), memory, strict=True)
        ]
        *batch, across, down = unravel(builder, g.block, extents)
        first = (
            builder.let("row", build.mul(down, tile[0])),
            builder.let("column", build.mul(across, tile[1])),
        )
        yield TileThread(g.thread, batch, first, buffers)
