"""The sums of a register tile: loops over the summed axes, the innermost unrolled."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.codegen.core.contraction.byte_words import joined
from xlac.codegen.core.contraction.contraction import Axis, crowds, zero
from xlac.codegen.core.contraction.tiling import FEW_PRODUCTS, unroll
from xlac.codegen.cpu.gemm.prefetch import PanelPrefetch, panel_prefetch
from xlac.codegen.cpu.gemm.tile_store import Panel, TileStore
from xlac.ir.dims import Dim, Shape, size_hint
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr, Var


class TileSums(TileStore):
    """Adds the products of a tile to accumulators that stay in registers."""

    def _turned(self, counter: Expr, stop: Dim, step: int) -> Expr:
        """The counter of a loop that runs from 0 upwards, or from the last step down to 0 when
        reading backwards.
        """
        return (
            self.builder.let("back", build.sub(stop - step, counter)) if self.backward else counter
        )

    def _block(
        self,
        panel: Panel,
        inner: tuple[Axis, ...],
        left: Expr,
        rows: list[Dim],
        right: Expr,
        strides: Shape,
        after: PanelPrefetch | None,
    ) -> Sequence[Sequence[Expr]]:
        """The sums of the products along some summed axes, in registers."""
        start = zero(self.c.accumulate, self.tile.lanes * self.c.words)
        sums = [[self.builder.variable("c", start) for _ in range(panel.vectors)] for _ in rows]
        mask = self.mask if panel.partial != 0 else None
        self._sum(sums, inner, left, rows, right, strides, mask, after)
        if self.c.words == 1:
            return sums
        return [[self.builder.let("c", joined(total)) for total in row] for row in sums]

    def _ahead(
        self, right: Expr, depth: Dim, width: int, tile: Expr, tiles: Dim
    ) -> PanelPrefetch | None:
        """The prefetch of the panel data that follows `depth` steps from `right`, by one tile."""
        if not self.schedule.prefetch or not isinstance(depth, int):
            return None
        return panel_prefetch(self.elements, self.right, right, depth * width, tile, tiles)

    def _sum(
        self,
        sums: list[list[Var]],
        inner: tuple[Axis, ...],
        left: Expr,
        rows: list[Dim],
        right: Expr,
        strides: Shape,
        mask: Expr | None,
        after: PanelPrefetch | None,
    ) -> None:
        """Adds every product of the tile to its accumulators: loops over the summed axes, the
        innermost unrolled.

        Data `after` is prefetched meanwhile.
        """
        builder = self.builder

        def level(depth: int, a: Expr, b: Expr) -> None:
            if depth == len(inner):
                self.step.write(sums, a, rows, b, mask)
                return
            axis, stride = inner[depth], strides[depth]
            last = depth == len(inner) - 1
            few = len(rows) * len(sums[0]) <= FEW_PRODUCTS
            copies = unroll(axis.usual, self.schedule.unroll[0 if few else 1]) if last else 1
            if self.schedule.uncrowded and crowds(axis, rows, copies, self.target):
                copies = 1
            main = axis.extent // copies * copies
            rest = range(size_hint(main), axis.extent) if isinstance(axis.extent, int) else range(0)

            def single(k: int) -> None:
                level(depth + 1, build.add(a, axis.left * k), build.add(b, stride * k))

            for k_first in reversed(rest) if self.backward else ():
                single(k_first)
            with builder.loop("k", 0, main, copies) as k:
                k = self._turned(k, main, copies)
                a_here = build.add(a, build.mul(k, axis.left))
                b_here = build.add(b, build.mul(k, stride))
                if not last:
                    a_here, b_here = builder.let("a", a_here), builder.let("b", b_here)
                elif after is not None:
                    after.fetch(b_here, copies * size_hint(stride))
                for u in reversed(range(copies)) if self.backward else range(copies):
                    level(
                        depth + 1, build.add(a_here, axis.left * u), build.add(b_here, stride * u)
                    )
            for k_last in () if self.backward else rest:
                single(k_last)
            if not isinstance(axis.extent, int) and copies > 1:
                with builder.loop("k", main, axis.extent) as k:
                    level(
                        depth + 1,
                        build.add(a, build.mul(k, axis.left)),
                        build.add(b, build.mul(k, stride)),
                    )

        level(0, left, right)
