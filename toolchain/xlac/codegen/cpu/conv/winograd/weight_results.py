"""The last kernel of a gradient for weights by Winograd's algorithm: the output transform, and the
direct sum of results that are not finite. See `weight_gradient.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product

import numpy as np

from xlac.codegen.core import loop_nest
from xlac.codegen.core.addressing import linear
from xlac.codegen.core.contraction.contraction import multiply_add, zero
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.lowered_group import KernelLaunch, Scratch
from xlac.codegen.core.operands import OperandView
from xlac.codegen.core.summation import Pair
from xlac.codegen.cpu.conv.winograd import toom_cook
from xlac.codegen.cpu.conv.winograd.accuracy_guard import noted
from xlac.codegen.cpu.conv.winograd.tiling import SIDE, WeightTiling
from xlac.codegen.cpu.conv.winograd.weight_gradient_choice import result_loops
from xlac.codegen.schedules.conv import WinogradWeightsSchedule
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

TAPS = toom_cook.TAPS
INFINITY = int(np.float32(np.inf).view(np.int32))
"""The bits of infinity, which those of the magnitude of every finite number are below."""


def launch(
    group: Group,
    target: Target,
    name: str,
    after: Epilogue,
    t: WeightTiling,
    operands: Sequence[OperandView],
    products: Scratch,
    schedule: WinogradWeightsSchedule,
) -> KernelLaunch:
    """The kernel, from the products at all points; input and cotangents are for direct sums."""
    elements = Elements(Builder(), group, target)
    _Results(elements, after, t, operands, products, schedule).write()
    return elements.launch(name, cost.work(group))


class _Results:
    """Writes the nine results of each pair of channels, one vector of output channels at a time."""

    def __init__(
        self,
        elements: Elements,
        after: Epilogue,
        t: WeightTiling,
        operands: Sequence[OperandView],
        products: Scratch,
        schedule: WinogradWeightsSchedule,
    ) -> None:
        self.elements, self.builder, self.target = elements, elements.builder, elements.target
        self.after, self.t, (self.x, self.cotangents) = after, t, operands
        self.schedule, self.lanes = schedule, schedule.lanes
        self.products = elements.parameter(products, Access.READ)

    def write(self) -> None:
        """Loops over input channels, in parallel, and vectors of output channels."""
        t, builder = self.t, self.builder
        loops = result_loops(t)
        with (
            loop_nest.nest(builder, loops, self.schedule.threads) as counters,
            builder.loop("o", 0, t.columns, self.lanes) as column,
        ):
            channel = counters[loops[0]]
            results = self._of_products(channel, column)
            if not t.guarded:
                self._store(channel, column, results)
                return
            finite = self._finite(results)
            with builder.when(finite):
                self._store(channel, column, results)
            with builder.when(build.apply(Primitive.EQ, finite, Const(False, DType.BOOL))):
                self._store_each(channel, column, None)

    def _of_products(self, channel: Expr, column: Expr) -> list[Expr]:
        """The output transform of a vector of pairs of channels, by rows."""
        t, builder, lanes, n = self.t, self.builder, self.lanes, SIDE + TAPS - 1
        first = builder.let("v", build.add(build.mul(channel, t.columns), column))
        transform = partial(toom_cook.of_gradients, builder, self.target, SIDE)
        columns = []
        for j in range(n):
            places = [build.add(first, (i * n + j) * t.channels * t.columns) for i in range(n)]
            columns.append(
                transform([builder.let("x", build.load(self.products, p, lanes)) for p in places])
            )
        rows = [transform([column[i] for column in columns]) for i in range(TAPS)]
        return [value for row in rows for value in row]

    def _finite(self, results: Sequence[Expr]) -> Expr:
        """Whether all results of a vector are finite."""
        builder = self.builder
        largest = builder.variable("largest", Const(0, DType.I32, self.lanes))
        for value in results:
            noted(builder, largest, value, self.lanes)
        most = build.fold(Primitive.MAX, largest)
        return builder.let("finite", build.apply(Primitive.LT, most, Const(INFINITY, DType.I32)))

    def _store(self, channel: Expr, column: Expr, results: Sequence[Expr]) -> None:
        """What follows, on all results of a vector: unrolled, or a loop if it is long."""
        if self.schedule.epilogue_loop:
            self._store_each(channel, column, results)
            return
        for (i, j), value in zip(product(range(TAPS), repeat=2), results, strict=True):
            at = self._at(channel, column, build.index(i), build.index(j))
            self.after.store(self.elements, at, value)

    def _at(self, channel: Expr, column: Expr, i: Expr, j: Expr) -> tuple[Expr, ...]:
        """The place of a vector of results, of channels of the part, among all."""
        inputs, outputs = self.t.first
        columns = build.ramp(build.add(column, outputs), 1, self.lanes)
        return build.add(channel, inputs), i, j, columns

    def _store_each(self, channel: Expr, column: Expr, results: Sequence[Expr] | None) -> None:
        """The same in a loop; results that are None are summed directly."""
        builder, lanes = self.builder, self.lanes
        kept = builder.local("y", DType.F32, TAPS**2 * lanes)
        for number, value in enumerate(results or ()):
            builder.store(kept, build.ramp(number * lanes, 1, lanes), value)
        with builder.loop("i", 0, TAPS) as i, builder.loop("j", 0, TAPS) as j:
            if results is None:
                value = self._direct(channel, column, i, j)
            else:
                place = build.mul(linear((i, j), (TAPS, 1)), lanes)
                value = build.load(kept, place, lanes)
            self.after.store(self.elements, self._at(channel, column, i, j), value)

    def _direct(self, channel: Expr, column: Expr, i: Expr, j: Expr) -> Expr:
        """The direct sum of one result for a vector of output channels; pixels outside of the input
        are left out. The sums of lines are added with their rounding errors.
        """
        t, builder, lanes = self.t, self.builder, self.lanes
        seen = self.elements.parameter(self.x.value, Access.READ)
        given = self.elements.parameter(self.cotangents.value, Access.READ)
        total = Pair.of(builder, builder.variable("c", zero(DType.F32, lanes)))
        (top, bottom), (left, right) = (self._inside(axis, tap) for axis, tap in enumerate((i, j)))
        with builder.loop("n", 0, t.batch) as number, builder.loop("y", top, bottom) as down:
            line = builder.variable("s", zero(DType.F32, lanes))
            with builder.loop("x", left, right) as across:
                here = (number, down, across)
                z = self._place(self.cotangents, here, column)
                moved = [
                    build.sub(build.add(at, tap), low)
                    for at, tap, low in zip(here[1:], (i, j), t.low, strict=True)
                ]
                pixel = build.load(seen, self._place(self.x, (number, *moved), channel))
                value = build.load(given, z, lanes)
                added = multiply_add(self.target, build.splat(pixel, lanes), value, line)
                builder.assign(line, added)
            total.add(line)
        return builder.let("c", total.total())

    def _inside(self, axis: int, tap: Expr) -> tuple[Expr, Expr]:
        """The cotangents along an axis whose pixel, for a tap, is inside of the input."""
        t, builder = self.t, self.builder
        pixels, low, size = t.pixels[axis], t.low[axis], t.x[axis]
        first = build.apply(Primitive.MAX, build.index(0), build.sub(low, tap))
        stop = build.apply(Primitive.MIN, build.index(pixels), build.sub(size + low, tap))
        start = loop_nest.bounded(builder, first, pixels)
        return start, loop_nest.bounded(builder, stop, pixels)

    def _place(self, view: OperandView, at: Sequence[Expr], channel: Expr) -> Expr:
        """The offset of a channel of a pixel."""
        return build.add(linear((*at, channel), view.strides), build.lift(view.offset))
