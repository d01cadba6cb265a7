"""The template of contractions of bytes that a matrix unit computes: one instruction is the sum of
a tile, which is then in memory for the epilogue.
"""

from __future__ import annotations

from xlac.codegen.core.contraction.byte_words import SIGNS
from xlac.codegen.core.contraction.contraction import offset
from xlac.codegen.cpu.gemm.gemm import Gemm
from xlac.codegen.cpu.gemm.matrix_unit import tile_choice
from xlac.codegen.cpu.gemm.tile_store import Panel
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Expr
from xlac_sdk.kernel_ir.matrix_tiles import TileProduct


class MatrixGemm(Gemm):
    """Writes the kernel's body; see `Gemm`."""

    def _tile(self, panel: Panel, start: tuple[Expr, Expr], size: tuple[int, int]) -> None:
        """One tile. A smaller one at the end of rows is computed as the whole tile that ends there,
        and only its own rows are stored.
        """
        c, builder, rows = self.c, self.builder, self.tile.rows
        first, second = (
            build.sub(at, whole - part) for at, whole, part in zip(start, rows, size, strict=True)
        )
        base = builder.let("a", build.add(panel.left, offset(c.rows, (first, second), "left")))
        width = panel.vectors * self.tile.lanes
        after = self._after(panel.right, start, width)
        share = 0 if after is None else after.share
        block = tile_choice.block(c, self.tile, panel.vectors, self.right.strides(width), share)
        kept = builder.local("s", c.accumulate, rows[0] * rows[1] * block.width)
        product = TileProduct(
            kept,
            self.elements.parameter(c.left.value, Access.READ),
            base,
            self.elements.parameter(self.right.source.value, Access.READ),
            panel.right,
            panel.right if after is None else after.start,
            block,
        )
        product.write(builder, SIGNS[c.left.dtype])
        self._finish_rows(panel, kept, start, size, last_of=rows)
