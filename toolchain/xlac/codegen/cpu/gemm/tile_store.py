"""Stores of a register tile: the epilogue runs on registers, or in a loop over rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac.codegen.core.contraction.contraction import Contraction
from xlac.codegen.core.contraction.packing import Panels
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.cpu.gemm import register_transpose
from xlac.codegen.cpu.gemm.cache_blocking import cut
from xlac.codegen.cpu.gemm.rank1_update import Rank1Update
from xlac.codegen.schedules.gemm import GemmSchedule
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Buffer, Expr, Shuffle, Space


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of columns of the result, at a position of the `outer` axes: `vectors` of them from
    `column` on, the last with `partial` valid columns (0 if all are). `left` and `right` are where
    its operands begin.
    """

    outer: list[Expr]
    column: Expr
    vectors: int
    partial: build.Number
    left: Expr
    right: Expr


class TileStore:
    """Stores a tile's sums: unrolled, transposed in registers, or from a local array."""

    def __init__(
        self,
        elements: Elements,
        epilogue: Epilogue,
        c: Contraction,
        right: Panels,
        schedule: GemmSchedule,
        backward: bool = False,
    ) -> None:
        self.elements, self.builder, self.epilogue = elements, elements.builder, epilogue
        self.c, self.right, self.target, self.backward = c, right, elements.target, backward
        self.schedule, self.tile = schedule, schedule.tile
        self.cut = cut(c, schedule.tile, schedule.blocking)
        self.step = Rank1Update(elements, c, right, self.tile.lanes, schedule.hold)
        self.mask: Expr | None = None

    def _finish(
        self,
        panel: Panel,
        sums: Sequence[Sequence[Expr]],
        rows: list[tuple[int, int]],
        start: tuple[Expr, Expr],
        size: tuple[int, int],
    ) -> None:
        """The epilogue: unrolled, or a loop over rows (over columns, if squares are transposed) if
        it is long or the last vector is partial.
        """
        outer, column, vectors = panel.outer, panel.column, panel.vectors
        lanes, scalars = self.tile.lanes, self._scalars(panel)
        long = self.schedule.epilogue_loop and len(rows) * vectors > 2
        if scalars == 0 and self.schedule.transposed_store and size[1] > 1:
            given = (self.elements, self.epilogue, self.c, outer, start, size, column, sums)
            if long:
                register_transpose.store_in_loop(*given, panel.partial)
            else:
                register_transpose.store(*given, panel.partial, self.mask)
            return
        if not long and scalars == 0:
            for (i, j), totals in zip(rows, sums, strict=True):
                at_rows = (build.add(start[0], i), build.add(start[1], j))
                for v, count, masked in self._spans(vectors, panel.partial != 0):
                    total = joined(totals[v : v + count])
                    self._store(outer, at_rows, build.add(column, v * lanes), total, masked)
            return
        width = vectors * lanes
        kept = self.builder.local("s", self.c.accumulate, len(rows) * width)
        for row, totals in enumerate(sums):
            for v, total in enumerate(totals):
                self.builder.store(
                    kept,
                    build.ramp(row * width + v * lanes, 1, lanes),
                    total,
                    align=min(64, lanes * kept.dtype.nbytes),
                )
        self._finish_rows(panel, kept, start, size)

    def _scalars(self, panel: Panel) -> build.Number:
        """The columns of a panel's last vector that are stored one by one: those of a partial one,
        where the target has no masks.
        """
        return panel.partial if self.mask is None else 0

    def _finish_rows(
        self,
        panel: Panel,
        kept: Buffer,
        start: tuple[Expr, Expr],
        size: tuple[int, Expr | int],
        last_of: tuple[int, int] | None = None,
    ) -> None:
        """The epilogue of rows whose sums are in memory: of all there, or of the last ones along
        each axis of `last_of` rows.
        """
        builder, lanes, scalars = self.builder, self.tile.lanes, self._scalars(panel)
        outer, column, vectors = panel.outer, panel.column, panel.vectors
        assert kept.space is Space.LOCAL
        there = size if last_of is None else last_of
        before = [build.sub(build.lift(n), of) for n, of in zip(there, size, strict=True)]
        with builder.loop("i", 0, size[0]) as i, builder.loop("j", 0, size[1]) as j:
            at_rows = (build.add(start[0], i), build.add(start[1], j))
            row, across = build.add(i, before[0]), build.add(j, before[1])
            base = build.mul(build.add(build.mul(row, there[1]), across), vectors * lanes)
            whole = vectors - (scalars != 0)
            for v, count, masked in self._spans(whole, whole == vectors and panel.partial != 0):
                value = build.load(kept, build.ramp(build.add(base, v * lanes), 1, count * lanes))
                self._store(outer, at_rows, build.add(column, v * lanes), value, masked)
            if scalars != 0:
                first = (vectors - 1) * lanes
                with builder.loop("n", 0, scalars) as n:
                    value = build.load(kept, build.add(build.add(base, first), n))
                    at = self.c.place(outer, at_rows, build.add(build.add(column, first), n))
                    self.epilogue.store(self.elements, at, value)

    def _store(
        self, outer: list[Expr], rows: tuple[Expr, Expr], column: Expr, value: Expr, partial: bool
    ) -> None:
        at = self.c.place(outer, rows, build.ramp(column, 1, value.lanes))
        with self.elements.masked(self.mask if partial else None):
            self.epilogue.store(self.elements, at, value)

    def _spans(self, vectors: int, partial: bool) -> list[tuple[int, int, bool]]:
        """The vectors of a row as (first, count, whether it is masked): as many at once as results
        of one byte fill a register.
        """
        whole, most = vectors - partial, 1
        if all(node.type.dtype.nbytes == 1 for node in self.epilogue.group.outputs):
            most = max(1, self.target.vector_bytes // self.tile.lanes)
        spans = []
        first = 0
        while first < whole:
            count = min(most, 1 << ((whole - first).bit_length() - 1))
            spans.append((first, count, False))
            first += count
        return [*spans, *[(whole, 1, True)] * partial]


def joined(vectors: Sequence[Expr]) -> Expr:
    """Vectors as one of all their lanes; their number is a power of two."""
    if len(vectors) == 1:
        return vectors[0]
    half = len(vectors) // 2
    pair = joined(vectors[:half]), joined(vectors[half:])
    return Shuffle(pair, tuple(range(2 * pair[0].lanes)))
