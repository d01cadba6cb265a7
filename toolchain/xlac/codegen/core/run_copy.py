"""Copies runs of contiguous elements of an operand into a local array, converted to its type."""

from __future__ import annotations

from dataclasses import dataclass

from xlac.codegen.core.contraction.contraction import OperandSource, read, zero
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.loop_nest import bounded
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Buffer, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target


def row_length(elements: int, dtype: DType, target: Target) -> int:
    """Elements from a row of a local array to the next: an odd number of cache lines, so that rows
    do not compete for a few sets of the first-level cache.
    """
    line = max(1, target.hardware.line_bytes // dtype.nbytes)
    lines = -(-elements // line)
    return (lines + 1 - lines % 2) * line


def clear(builder: Builder, buffer: Buffer, first: build.Number, stop: int, lanes: int) -> None:
    """Makes whole vectors of a local array zero."""
    with builder.loop("z", first, stop, lanes) as z:
        builder.store(buffer, build.ramp(z, 1, lanes), zero(buffer.dtype, lanes))


@dataclass(frozen=True, slots=True)
class RunCopy:
    """Writes copies of runs of an operand with the builder of `elements`."""

    elements: Elements
    source: OperandSource

    def write(self, to: Buffer, at: Expr, start: Expr, most: int, there: build.Number) -> None:
        """Copies `there` elements from `start` on to place `at`, at most `most`."""
        builder, target = self.elements.builder, self.elements.target
        lanes = target.lanes(to.dtype)
        if isinstance(there, int):
            self._vectors(to, at, start, build.lift(there // lanes * lanes))
            first, left = there // lanes * lanes, there % lanes
            if left and target.masked:
                self._masked(to, at, start, build.index(first), build.index(left))
            while left and not target.masked:
                wide = 1 << (left.bit_length() - 1)
                self._move(to, build.add(at, first), build.add(start, first), wide)
                first, left = first + wide, left - wide
            return
        least = build.apply(Primitive.MIN, build.lift(there), build.index(most))
        count = bounded(builder, least, most, 1)
        whole = builder.let("whole", build.mul(build.div(count, lanes), lanes))
        self._vectors(to, at, start, whole)
        if target.masked:
            with builder.when(build.apply(Primitive.LT, whole, count)):
                self._masked(to, at, start, whole, build.sub(count, whole))
            return
        with builder.loop("n", whole, count) as n:
            self._move(to, build.add(at, n), build.add(start, n), 1)

    def _vectors(self, to: Buffer, at: Expr, start: Expr, count: Expr) -> None:
        """Copies whole vectors."""
        lanes = self.elements.target.lanes(to.dtype)
        with self.elements.builder.loop("n", 0, count, lanes) as n:
            self._move(to, build.add(at, n), build.add(start, n), lanes)

    def _move(self, to: Buffer, at: Expr, start: Expr, lanes: int) -> None:
        value = read(self.elements, self.source, start, lanes, to.dtype)
        self.elements.builder.store(to, build.ramp(at, 1, lanes), value)

    def _masked(self, to: Buffer, at: Expr, start: Expr, first: Expr, left: Expr) -> None:
        """Copies the `left` elements of the last vector."""
        builder, lanes = self.elements.builder, self.elements.target.lanes(to.dtype)
        below = build.apply(Primitive.LT, build.ramp(0, 1, lanes), build.splat(left, lanes))
        mask = builder.let("mask", below)
        value = read(self.elements, self.source, build.add(start, first), lanes, to.dtype, mask)
        value = builder.let("x", value)
        builder.store(to, build.ramp(build.add(at, first), 1, lanes), value, mask)
