"""Depthwise convolutions of NCHW tensors: the pixels of a row are the lanes of vectors.

A tile is some rows of a channel's result by one vector of pixels. A row of x that several result
rows read is loaded once for each tap along it; a tap's weight is a broadcast scalar.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xlac.codegen.core import strip_mining
from xlac.codegen.core.contraction.contraction import multiply_add, read, unravel, zero
from xlac.codegen.core.contraction.window_sums import WindowSums
from xlac.codegen.core.lowered_group import KernelLaunch
from xlac.codegen.cpu.conv import nchw_choice
from xlac.codegen.cpu.conv.nchw_taps import PlaneTaps
from xlac.fusion import cost
from xlac.ir.dims import Dim, size_hint, static, volume
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr, LoopKind, Var
from xlac_sdk.kernel_ir.primitives import Primitive


def launches(sums: WindowSums) -> list[KernelLaunch]:
    """The kernel, over an x whose windows stay inside it unless the template `masks`."""
    writer = _DepthwiseNchw(sums)
    fits = partial(nchw_choice.check, taps=writer)
    writer.follow(sums.decisions.settle(sums.name, nchw_choice.choose(writer), fits))
    writer.write()
    return [writer.elements.launch(sums.name, cost.work(sums.group))]


class _DepthwiseNchw(PlaneTaps):
    def write(self) -> None:
        """Loops over batches, channels and bands of rows, fused into one that may be parallel."""
        builder, threads = self.builder, self.schedule.threads
        rows, extents = self.bands(self.schedule.rows)
        kind = LoopKind.PARALLEL if threads.loops else LoopKind.SERIAL
        turns = volume(tuple(extents))
        with builder.loop("t", 0, turns, kind=kind, grain=threads.grain) as t:
            *around, band = unravel(builder, t, extents)
            at = dict(zip(self.letters, around, strict=True))
            if not rows.rest:
                self._band(at, build.mul(band, rows.step), rows.step)
                return
            with builder.when(build.apply(Primitive.LT, band, build.index(rows.full))):
                self._band(at, build.mul(band, rows.step), rows.step)
            with builder.when(build.apply(Primitive.EQ, band, build.index(rows.full))):
                self._band(at, build.index(rows.full * rows.step), rows.rest)

    def _band(self, at: dict[str, Expr], first: Expr, rows: int) -> None:
        """A band of rows of a channel's result, over its whole width."""
        g, builder = self.g, self.builder
        start = build.add(build.mul(at["C"], g.x["C"]), self.left.offset)
        for letter in ("N", *self.outer):
            start = build.add(
                start, build.mul(at[letter], g.x["N"] if letter == "N" else g.moves(letter))
            )
        if self.down:
            start = build.add(start, build.mul(first, g.moves(self.down)))
        base = builder.let("a", start)
        weights = builder.let("b", self.weights.base([at["C"]], build.index(0), self.depth))
        if self.schedule.hold_weights:
            self.held = {
                n: builder.let("w", self._weight(build.add(weights, n), self.lanes))
                for n in range(size_hint(self.depth))
            }
        edge = g.edges.get(self.down)
        if edge is None:
            self._row(at, first, rows, base, weights, inside=True)
            return
        top, (height,) = (
            build.sub(build.mul(first, self._step(self.down)), edge.low),
            static((edge.extent,)),
        )
        bottom = build.add(
            top,
            (rows - 1) * self._step(self.down)
            + (self.taps[self.down] - 1) * self._apart(self.down),
        )
        zeroth, last, both, less = (
            build.index(0),
            build.index(height - 1),
            Primitive.AND,
            Primitive.LE,
        )
        with builder.when(
            build.apply(both, build.apply(less, zeroth, top), build.apply(less, bottom, last))
        ):
            self._row(at, first, rows, base, weights, inside=True)
        either, less = Primitive.OR, Primitive.LT
        with builder.when(
            build.apply(either, build.apply(less, top, zeroth), build.apply(less, last, bottom))
        ):
            self._row(at, first, rows, base, weights, inside=False)

    def _row(
        self, at: dict[str, Expr], first: Expr, rows: int, base: Expr, weights: Expr, inside: bool
    ) -> None:
        """A band over its whole width, vector by vector; `inside` if all its windows are inside x
        vertically.
        """
        g = self.g
        (width,) = static((g.result[self.across],))
        lanes = self.lanes
        edge = g.edges.get(self.across)

        def strip(bases: Sequence[Expr], wide: int, mask: Expr | None) -> None:
            for pixel in bases:
                self._tile(
                    at, first, rows, pixel, wide, mask, build.add(base, pixel), weights, inside
                )

        if edge is None:
            strip_mining.strip_mine(self.builder, self.target, 0, width, lanes, 1, strip)
            return
        (size,) = static((edge.extent,))
        reach = (self.taps[self.across] - 1) * self._apart(self.across) + lanes
        starts = range(0, width, lanes)
        # adjacent vectors, all inside x
        whole = [n for n in starts if edge.low <= n <= min(size + edge.low - reach, width - lanes)]
        for pixel in starts:
            if pixel not in whole:
                self._end(strip, pixel, width, lanes)
            elif pixel == whole[0]:
                with self.builder.loop("i", pixel, whole[-1] + lanes, lanes) as i:
                    strip([i], lanes, None)

    def _end(self, strip: strip_mining.Strip, pixel: int, width: int, lanes: int) -> None:
        """A vector of pixels at an end of the row."""
        full = pixel + lanes <= width
        below = build.apply(
            Primitive.LT,
            build.ramp(build.index(pixel), 1, lanes),
            build.splat(build.index(width), lanes),
        )
        strip([build.index(pixel)], lanes, None if full else below)

    def _tile(
        self,
        at: dict[str, Expr],
        first: Expr,
        rows: int,
        pixel: Expr,
        lanes: int,
        mask: Expr | None,
        where: Expr,
        weights: Expr,
        inside: bool,
    ) -> None:
        """`rows` rows by one vector of pixels."""
        g, builder = self.g, self.builder
        sums = [builder.variable("c", zero(self.accumulate, lanes)) for _ in range(rows)]
        strides = dict(zip(g.op.spatial, self.weights.strides(1), strict=True))

        def level(number: int, a: Expr, b: Expr) -> None:
            if number == len(self.outer):
                self._taps(sums, a, b, strides, lanes, mask, first, pixel, inside)
                return
            letter = self.outer[number]
            with builder.loop("k", 0, self.taps[letter]) as k:
                further = builder.let("a", build.add(a, build.mul(k, g.reaches(letter))))
                level(
                    number + 1,
                    further,
                    builder.let("b", build.add(b, build.mul(k, strides[letter]))),
                )

        level(0, builder.let("a", where), weights)
        for row, total in enumerate(sums):
            known = {**at, self.across: build.ramp(pixel, 1, lanes)}
            if self.down:
                known[self.down] = build.add(first, row)
            with self.elements.masked(mask):
                self.after.store(self.elements, tuple(known[s] for s in g.op.layout[2]), total)

    def _taps(
        self,
        sums: list[Var],
        where: Expr,
        weights: Expr,
        strides: dict[str, Dim],
        lanes: int,
        mask: Expr | None,
        first: Expr,
        pixel: Expr,
        inside: bool,
    ) -> None:
        """Adds the products of every row of x that the tile reads, for each tap along the row."""
        g, builder = self.g, self.builder
        step, apart = (self._step(self.down), self._apart(self.down)) if self.down else (0, 0)
        # row of x -> the (result row, tap) pairs that use it
        seen: dict[int, list[tuple[int, int]]] = {}
        for row in range(len(sums)):
            for tap in range(self.taps[self.down] if self.down else 1):
                seen.setdefault(row * step + tap * apart, []).append((row, tap))
        for line, users in sorted(seen.items()):
            at_line = build.add(where, g.x[self.down] * line) if self.down else where
            valid = (
                None
                if inside
                else self._valid(self.down, build.add(build.mul(first, step), line), 1)
            )
            for across in range(self.taps[self.across]):
                place = build.add(at_line, g.reaches(self.across) * across)
                loaded = self._mask(pixel, across, lanes, mask, valid)
                value = builder.let(
                    "x", read(self.elements, self.left, place, lanes, self.accumulate, loaded)
                )
                for row, tap in users:
                    number = strides.get(self.down, 0) * tap + strides[self.across] * across
                    weight = self.held.get(number) if lanes == self.lanes else None
                    weight = weight or self._weight(build.add(weights, number), lanes)
                    builder.assign(sums[row], multiply_add(self.target, value, weight, sums[row]))
