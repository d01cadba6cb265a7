"""The loops of a windowed reduction: over strips of results, and over the positions of
the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xlac.codegen.core.accumulators import fixed
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.core.summation import Pair, blocks, compensated
from xlac.codegen.schedules.decisions import Decisions
from xlac.ir.dims import Dim, Shape, upper_bound
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac.ops import numeric
from xlac.ops.control.control import Pick
from xlac.ops.reduction.window import Window
from xlac.ops.tensor.leaf import convert_element
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Const, Expr, Var
from xlac_sdk.kernel_ir.primitives import Primitive

UNROLLED = 16  # window positions up to which they are unrolled


@dataclass(frozen=True, slots=True)
class WindowAxis:
    """One axis of the window: its geometry, and whether windows may extend beyond x."""

    extent: int
    size: Dim  # of x
    stride: int
    low: int
    dilation: int
    hangs: bool


class WindowLoops:
    """Writes the kernel's loops."""

    @staticmethod
    def direct(op: Window, axis: int) -> bool:
        """Whether x need not be copied for this axis: it is not dilated, and there is padding only
        where loops can be clipped.
        """
        padded = op.low[axis] > 0 or op.high[axis] > 0
        if op.base_dilation[axis] > 1:
            return False
        return not padded or (axis != len(op.window) - 1 and op.window_dilation[axis] == 1)

    def __init__(
        self,
        elements: Elements,
        after: Epilogue | None,
        op: Window,
        xs: Sequence[Node],
        copied: bool,
    ) -> None:
        self.elements, self.builder, self.after, self.op, self.xs = (
            elements,
            elements.builder,
            after,
            op,
            xs,
        )
        self.group = elements.group
        self.anchor = self.group.anchor
        sizes = xs[0].shape
        self.taps = []
        for axis, extent in enumerate(op.window):
            low, high = (0, 0) if copied else (op.low[axis], op.high[axis])
            hangs = low > 0 or high > 0
            self.taps.append(
                WindowAxis(
                    extent, sizes[axis], op.strides[axis], low, op.window_dilation[axis], hangs
                )
            )

    def write(self, shape: Shape, name: str, decisions: Decisions) -> None:
        """The loops over results of this shape, by the schedule of the kernel of this name."""
        raise NotImplementedError

    @property
    def positions(self) -> int:
        """The number of positions of the window."""
        return prod(self.op.window)

    def several(self, ats: Sequence[Index], lanes: int, written_out: bool) -> None:
        """The results at several indices that differ only in the last axis; they share the loops
        over the window, or its positions are unrolled if `written_out`.
        """
        builder, elements = self.builder, self.elements
        starts: list[Expr]
        if self.op.body is None:
            dtype = self.xs[0].type.dtype
            starts = [Const(numeric.identity(self.op.combine, dtype), dtype.compute)]
        else:
            starts = [elements.at(i, ()) for i in self.anchor.inputs[len(self.xs) :]]
        states = [[builder.variable("acc", build.splat(s, lanes)) for s in starts] for _ in ats]
        adds = self.op.body is None and compensated(self.op.combine, starts[0].dtype)
        cut = blocks([tap.extent for tap in self.taps]) if adds else None
        pairs = [Pair.of(builder, state[0]) for state in states] if cut else []

        def level(axis: int, positions: tuple[Expr, ...], states: Sequence[Sequence[Var]]) -> None:
            if axis == len(self.taps):
                for at, state in zip(ats, states, strict=True):
                    self._combine(
                        state,
                        tuple(
                            self._place(t, i, p)
                            for t, i, p in zip(self.taps, at, positions, strict=True)
                        ),
                    )
                return
            tap = self.taps[axis]
            if cut is not None and cut.loop == axis:
                start, stop = (
                    self._inside(tap, ats[0][axis])
                    if tap.hangs
                    else (build.index(0), build.index(tap.extent))
                )
                with builder.loop("block", start, stop, cut.turns) as block:
                    end = build.apply(Primitive.MIN, build.add(block, cut.turns), stop)
                    parts = [
                        [builder.variable("part", build.splat(s, lanes)) for s in starts]
                        for _ in ats
                    ]
                    with builder.loop("k", block, bounded(builder, end, tap.extent)) as k:
                        level(axis + 1, (*positions, k), parts)
                    for pair, (part,) in zip(pairs, parts, strict=True):
                        pair.add(part)
            elif tap.hangs:
                start, stop = self._inside(tap, ats[0][axis])
                with builder.loop("k", start, stop) as k:
                    level(axis + 1, (*positions, k), states)
            elif written_out:
                for position in range(tap.extent):
                    level(axis + 1, (*positions, build.index(position)), states)
            else:
                with builder.loop("k", 0, tap.extent) as k:
                    level(axis + 1, (*positions, k), states)

        level(0, (), states)
        totals: Sequence[Sequence[Expr]] = [[p.total()] for p in pairs] if cut else states
        for at, state in zip(ats, totals, strict=True):
            self._store(at, state)

    def _place(self, tap: WindowAxis, at: Expr, position: Expr) -> Expr:
        """The index in x of a window position."""
        return build.add(
            build.add(build.mul(at, tap.stride), build.mul(position, tap.dilation)), -tap.low
        )

    def _inside(self, tap: WindowAxis, at: Expr) -> tuple[Expr, Expr]:
        """The positions of the window that are inside x along an axis with dilation 1."""
        first = build.sub(tap.low, build.mul(at, tap.stride))
        start = build.apply(Primitive.MAX, build.index(0), first)
        stop = build.apply(Primitive.MIN, build.index(tap.extent), build.add(first, tap.size))
        named = bounded(self.builder, start, tap.extent + tap.low)
        return named, bounded(self.builder, stop, tap.extent, -upper_bound(tap.size) - tap.extent)

    def _combine(self, state: Sequence[Var], at: Index) -> None:
        """Combines the elements at one position of the window."""
        values = [self.elements.at(x, at) for x in self.xs]
        if self.op.body is None:
            primitive = numeric.COMBINE[self.op.combine]
            self.builder.assign(
                state[0], build.apply(primitive, state[0], build.splat(values[0], state[0].lanes))
            )
            return
        before = [fixed(self.elements, var) for var in state]
        wide = [build.splat(v, state[0].lanes) for v in values]
        for var, value in zip(
            state, self.elements.inline(self.op.body, [*before, *wide]), strict=True
        ):
            self.builder.assign(var, value)

    def _store(self, at: Index, state: Sequence[Expr]) -> None:
        if self.after is not None:
            self.after.store(self.elements, at, fixed(self.elements, state[0]))
            return
        values = [
            convert_element(fixed(self.elements, v), t.dtype)
            for v, t in zip(state, self.anchor.results, strict=True)
        ]
        for node in self.group.outputs:
            assert isinstance(node.op, Pick)
            self.elements.store(node, at, values[node.op.index])
