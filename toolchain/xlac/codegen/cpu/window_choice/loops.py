"""The loops over windows of a max-pooling gradient, in order, and the initialization
of the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product

from xlac.codegen.core.addressing import linear, row_major
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.cpu.window_choice.axes import MovingAxis
from xlac.codegen.schedules.decisions import Decisions
from xlac.ops.reduction.window_choice import SelectAndScatter
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive


class ChoosingWindows:
    """Shared by both layouts: the loops over windows, and the zeros before them."""

    def __init__(self, elements: Elements, axes: Sequence[MovingAxis]) -> None:
        self.elements, self.builder, self.axes = elements, elements.builder, axes
        self.node = elements.group.anchor
        self.x, self.ct = self.node.inputs
        op = self.node.op
        assert isinstance(op, SelectAndScatter)
        self.op = op
        self.result = elements.parameter(self.node, Access.REREAD)
        moved = {axis.axis for axis in axes}
        self.others = [a for a in range(self.node.type.rank) if a not in moved]

    def write(self, name: str, decisions: Decisions) -> None:
        """The kernel, by the schedule of the kernel of this name."""
        raise NotImplementedError

    def place(self, index: Sequence[Expr]) -> Expr:
        """The offset of an element of the result."""
        return linear(tuple(index), row_major(self.node.shape), self.node.shape)

    def zero(self, lanes: Expr) -> Expr:
        """Zeros with as many lanes as an index."""
        return build.splat(Const(0.0, self.node.type.dtype), lanes.lanes)

    def store(self, index: Sequence[Expr], value: Expr) -> None:
        """Stores elements of the result."""
        self.elements.store_to(self.result, self.place(index), value)

    def better(self, value: Expr, best: Expr) -> Expr:
        """Whether a value is selected over the best so far: a NaN is, except over another NaN."""
        order = (best, value) if self.op.combine == "min" else (value, best)
        beaten = build.apply(P.NOT, build.apply(P.LE, *order))
        return build.apply(P.AND, beaten, build.apply(P.EQ, best, best))

    @contextmanager
    def windows(
        self, axes: Sequence[MovingAxis], zero: Callable[[Expr], None]
    ) -> Iterator[dict[int, Expr]]:
        """Loops over the windows along some axes; `zero` clears a row of the first axis, and is
        called for each row before the first window reaches it. Yields the number of the window
        along each axis.
        """
        first, builder = axes[0], self.builder
        after = first.reach + 1 - first.low  # the end of the rows that the first window covers
        self._clear(build.index(0), self._row(first, after - first.stride), zero)
        with builder.loop("w", 0, first.count) as window:
            start = build.mul(window, first.stride)
            before = self._row(first, build.add(start, after - first.stride))
            self._clear(before, self._row(first, build.add(start, after)), zero)
            with self._inner(axes[1:], {first.axis: window}) as counters:
                yield counters
        end = self._row(first, (first.count - 1) * first.stride + after)
        self._clear(end, build.index(first.size), zero)

    @contextmanager
    def _inner(
        self, axes: Sequence[MovingAxis], counters: dict[int, Expr]
    ) -> Iterator[dict[int, Expr]]:
        if not axes:
            yield counters
            return
        with (
            self.builder.loop("w", 0, axes[0].count) as window,
            self._inner(axes[1:], {**counters, axes[0].axis: window}) as whole,
        ):
            yield whole

    def _row(self, axis: MovingAxis, row: Expr | int) -> Expr:
        """A row's number, clamped to 0 and the number of rows."""
        if isinstance(row, int):
            return build.index(min(max(row, 0), axis.size))
        inside = build.apply(P.MIN, build.apply(P.MAX, row, build.index(0)), build.index(axis.size))
        return bounded(self.builder, inside, axis.size)

    def _clear(self, start: Expr, stop: Expr, zero: Callable[[Expr], None]) -> None:
        if isinstance(start, Const) and isinstance(stop, Const) and start.value >= stop.value:
            return
        with self.builder.loop("z", start, stop) as row:
            zero(row)

    @contextmanager
    def rows(self, axes: Sequence[MovingAxis], index: list[Expr]) -> Iterator[None]:
        """Loops over all elements along some axes, whose counters are put into an index."""
        if not axes:
            yield
            return
        with self.builder.loop("z", 0, axes[0].size) as row:
            index[axes[0].axis] = row
            with self.rows(axes[1:], index):
                yield

    def named(self, axes: Sequence[MovingAxis], windows: dict[int, Expr]) -> list[tuple[Expr, ...]]:
        """The elements at the positions of a window along some axes, in row-major order."""
        seen = [
            [self.builder.let("at", axis.at(windows[axis.axis], k)) for k in range(axis.extent)]
            for axis in axes
        ]
        return list(product(*seen))
