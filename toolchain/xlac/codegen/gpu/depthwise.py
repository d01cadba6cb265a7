"""Depthwise convolutions on a GPU: a thread for every few adjacent channels of every pixel.

Adjacent threads have adjacent channels, so all loads are wide; pixels shared by windows are read
from caches.
"""

from __future__ import annotations

from itertools import product

from xlac.codegen.core.contraction.contraction import (
    OperandSource,
    multiply_add,
    read,
    unravel,
    zero,
)
from xlac.codegen.core.contraction.window_sums import WindowSums
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.lowered_group import KernelLaunch
from xlac.codegen.gpu.core.access_width import check_lanes
from xlac.codegen.gpu.core.grid import check_threads, grid
from xlac.codegen.gpu.core.shared_staging import all_of
from xlac.codegen.gpu.gemm.block_tiling import vector_of
from xlac.codegen.schedules.gpu.threads import GpuDepthwiseSchedule
from xlac.fusion import cost
from xlac.ir.dims import Dim, ceil_div, divisor, static, volume
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive

THREADS = 256


def launches(sums: WindowSums) -> list[KernelLaunch]:
    """The kernel, after the one that lays out the weights by tap and channel if they are not
    constant.
    """
    writer = _DepthwiseThreads(sums)
    writer.follow(sums.decisions.settle(sums.name, writer.choose(), writer.check))
    before, panels = sums.weight_panel(writer.lanes, sums.accumulate)
    writer.write(panels.source)
    return [*before, writer.elements.launch(sums.name, cost.work(sums.group))]


class _DepthwiseThreads:
    def __init__(self, sums: WindowSums) -> None:
        g = sums.geometry
        self.elements = Elements(Builder(), sums.group, sums.target)
        self.builder, self.target = self.elements.builder, sums.target
        self.after, self.g, self.left = sums.after, g, sums.left
        self.accumulate, self.taps = sums.accumulate, sums.taps
        (self.channels,) = static((g.result["C"],))

    def choose(self) -> GpuDepthwiseSchedule:
        """As many channels as a thread stores at once."""
        lanes = vector_of(self.target, self.accumulate)
        while self.channels % lanes:
            lanes //= 2
        return GpuDepthwiseSchedule(lanes, min(THREADS, self.target.block_threads))

    def check(self, schedule: GpuDepthwiseSchedule) -> None:
        """Raises Misfit unless the channels consist of whole vectors."""
        check_lanes(schedule.lanes, self.channels, self.target, alone=False)
        check_threads(schedule.threads, self.target)

    def follow(self, schedule: GpuDepthwiseSchedule) -> None:
        """Sets vectors and blocks from a schedule."""
        self.lanes, self.threads = schedule.lanes, schedule.threads

    def write(self, weights: OperandSource) -> None:
        """One thread for each of the result's vectors."""
        g, builder = self.g, self.builder
        letters = g.op.layout[2]  # channels are the last axis
        extents: list[Dim] = [
            *(g.result[letter] for letter in letters[:-1]),
            self.channels // self.lanes,
        ]
        count, threads = volume(tuple(extents)), self.threads
        with grid(builder, self.target, ceil_div(count, threads), threads) as at:
            number = builder.let("number", build.add(build.mul(at.block, threads), at.thread))
            with builder.when(build.apply(Primitive.LT, number, build.lift(count))):
                counters = dict(zip(letters, unravel(builder, number, extents), strict=True))
                channel = builder.let("channel", build.mul(counters["C"], self.lanes))
                self._pixel(counters, channel, weights)

    def _pixel(self, counters: dict[str, Expr], channel: Expr, weights: OperandSource) -> None:
        g, builder = self.g, self.builder
        base = build.add(build.add(build.mul(counters["N"], g.x["N"]), self.left.offset), channel)
        for letter in g.op.spatial:
            base = build.add(base, build.mul(counters[letter], g.moves(letter)))
        base = builder.let("base", base)
        steps = [*(step for letter, step in g.x.items() if letter != "C"), self.left.offset]
        align = (
            self.lanes * self.left.dtype.nbytes
            if all(divisor(step) % self.lanes == 0 for step in steps)
            else 0
        )
        total: Expr = zero(self.accumulate, self.lanes)
        for tap, taps in enumerate(product(*(range(self.taps[letter]) for letter in g.op.spatial))):
            where, inside = base, []
            for letter, step in zip(g.op.spatial, taps, strict=True):
                where = build.add(where, g.reaches(letter) * step)
                inside += self._inside(letter, counters[letter], step)
            mask = build.splat(all_of(inside), self.lanes) if inside else None
            value = read(self.elements, self.left, where, self.lanes, self.accumulate, mask, align)
            weight = read(
                self.elements,
                weights,
                build.add(channel, tap * self.channels),
                self.lanes,
                self.accumulate,
                None,
                self.lanes * weights.dtype.nbytes,
            )
            total = builder.let("total", multiply_add(self.target, value, weight, total))
        index = tuple(
            build.ramp(channel, 1, self.lanes) if letter == "C" else counters[letter]
            for letter in g.op.layout[2]
        )
        self.after.store(self.elements, index, total)

    def _inside(self, letter: str, counter: Expr, tap: int) -> list[Expr]:
        """The conditions for a tap to be inside x along an axis."""
        edge = self.g.edges.get(letter)
        if edge is None:
            return []
        axis = self.g.op.spatial.index(letter)
        place = build.add(
            build.mul(counter, self.g.op.strides[axis]),
            tap * self.g.op.rhs_dilation[axis] - edge.low,
        )
        place = self.builder.let("place", place)
        return [
            build.apply(Primitive.LE, Const(0, build.INDEX), place),
            build.apply(Primitive.LT, place, build.lift(edge.extent)),
        ]
