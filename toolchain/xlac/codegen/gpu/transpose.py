"""Transpositions on a GPU: square tiles that are read along one axis, transposed in SHARED memory
and written along the other.

Reads and writes then cover whole cache lines. Rows of the tile are padded by one element, so that
neither the threads that write along a row nor those that read along a column have bank conflicts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xlac.codegen.core.access_analysis import Run, expand, merged
from xlac.codegen.core.addressing import alignment
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.kinds.elementwise import store
from xlac.codegen.gpu.core.grid import GridThread, grid
from xlac.codegen.gpu.elementwise_choice import SurveyedJob, Turned, turned_operands
from xlac.codegen.schedules.gpu.elementwise import GpuNest, TransposedTile
from xlac.ir.dims import ceil_div, divisor, volume
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Buffer, Expr
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive


class Tiles:
    """Writes the kernel: a block for each tile, whose warps take rows in turn."""

    def __init__(
        self, elements: Elements, one: SurveyedJob, how: GpuNest, tile: TransposedTile
    ) -> None:
        self.elements, self.builder, self.job = elements, elements.builder, one.job
        loops = merged(one.job.shape, one.survey, how.loops)
        self.inner, self.crossed = loops[-1], loops[tile.across]
        self.around = [run for run in loops[:-1] if run is not self.crossed]
        self.turned = turned_operands(one, self.inner, self.crossed)
        self.lanes, self.warp, self.threads = how.lanes, elements.target.warp, how.threads
        self.side, self.pitch = self.warp * self.lanes, tile.pitch

    def write(self) -> None:
        """A block for every tile of every position of the other loops."""
        down, across = (
            ceil_div(self.crossed.extent, self.side),
            ceil_div(self.inner.extent, self.side),
        )
        blocks = volume(tuple(run.extent for run in self.around)) * down * across
        with grid(self.builder, self.elements.target, blocks, self.threads) as here:
            builder, rest = self.builder, here.block
            left = builder.let("left", build.mul(build.mod(rest, across), self.side))
            rest = builder.let("rest", build.div(rest, across))
            top = builder.let("top", build.mul(build.mod(rest, down), self.side))
            rest = build.div(rest, down)
            counters: dict[Run, Expr] = {}
            for run in reversed(self.around):
                rest = builder.let("rest", rest)
                counters[run] = (
                    builder.let("o", build.mod(rest, run.extent))
                    if run is not self.around[0]
                    else rest
                )
                rest = build.div(rest, run.extent)
            self._tile(here, counters, top, left)

    def _tile(self, here: GridThread, counters: Mapping[Run, Expr], top: Expr, left: Expr) -> None:
        """Reads with the threads of a warp along `crossed`, and writes with them along `inner`."""
        builder, side = self.builder, self.side
        beside = builder.let("beside", build.mul(build.mod(here.thread, self.warp), self.lanes))
        row = builder.let("row", build.div(here.thread, self.warp))
        rows = [
            builder.let("row", build.add(row, k)) for k in range(0, side, self.threads // self.warp)
        ]
        tiles: dict[Node, Buffer] = {}
        loaded: list[tuple[Buffer, Expr, Expr]] = []
        for turned in self.turned:
            tile = tiles[turned.node] = here.shared(
                "tile", turned.node.type.dtype, side * self.pitch
            )
            for r in rows:
                at = {
                    **counters,
                    self.crossed: build.ramp(build.add(top, beside), 1, self.lanes),
                    self.inner: build.add(left, r),
                }
                inside = self._inside(build.add(top, beside), build.add(left, r))
                value = builder.let("x", self._load(turned, expand(at, self.job.shape), inside))
                place = build.ramp(
                    build.add(build.mul(beside, self.pitch), r), self.pitch, self.lanes
                )
                loaded.append((tile, place, value))
        for tile, place, value in loaded:
            builder.store(tile, place, value)
        builder.barrier()
        for r in rows:
            for node, tile in tiles.items():
                self.elements.bind_value(
                    node, self._read(tile, build.add(build.mul(r, self.pitch), beside))
                )
            at = {
                **counters,
                self.crossed: build.add(top, r),
                self.inner: build.ramp(build.add(left, beside), 1, self.lanes),
            }
            here_inside = self._inside(build.add(top, r), build.add(left, beside))
            if here_inside is None:
                store(self.elements, expand(at, self.job.shape), self.job.stores, streaming=False)
                continue
            with builder.when(here_inside):
                store(self.elements, expand(at, self.job.shape), self.job.stores, streaming=False)

    def _load(self, turned: Turned, index: Index, inside: Expr | None) -> Expr:
        """Elements in the order of memory; 0 outside."""
        buffer = self.elements.parameter(turned.node)
        where: Expr = build.lift(turned.access.offset)
        for entry, stride in zip(index, turned.access.strides, strict=True):
            where = build.add(where, build.mul(entry, stride)) if stride != 0 else where
        mask = None if inside is None else build.splat(inside, self.lanes)
        return build.load(buffer, where, mask=mask, align=alignment(buffer, where))

    def _read(self, tile: Buffer, place: Expr) -> Callable[[Index], Expr]:
        lanes = self.lanes
        return lambda _: build.cast(
            build.load(tile, build.ramp(place, 1, lanes)), tile.dtype.compute
        )

    def _inside(self, crossed: Expr, inner: Expr) -> Expr | None:
        """Whether a position of a tile is inside the tensor; None if all are."""
        inside: Expr | None = None
        for run, counter in ((self.crossed, crossed), (self.inner, inner)):
            if divisor(run.extent) % self.side:
                test = build.apply(P.LT, counter, build.lift(run.extent))
                inside = test if inside is None else build.apply(P.AND, inside, test)
        return inside
