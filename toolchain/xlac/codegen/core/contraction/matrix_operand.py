"""One operand of a matrix product, its own axes and those of the sum each flattened to one.

What stands for several axes is one counter in loops, and several where an element is read or
written (`apart`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac.codegen.core.contraction.contraction import OperandSource, unravel
from xlac.ir.dims import Dim, Shape, divisor, volume
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Expr

Counters = Sequence[Expr]


@dataclass(frozen=True, slots=True)
class Padding:
    """An axis of an operand that ends: it has `extent` places, begins `low` after where the
    counters do, and a step along each axis moves so far along it."""

    low: int
    extent: Dim
    own: tuple[int, ...]
    batch: tuple[int, ...]
    depth: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MatrixOperand:
    """One operand: its own axes, outermost first, and how far a step along every axis moves in it,
    in elements. Beyond its borders it is zero."""

    source: OperandSource
    extents: Shape
    strides: Shape
    batch: Shape  # strides along the batch's axes
    depth: Shape  # strides along the summed axes
    borders: tuple[Padding, ...] = ()

    @property
    def size(self) -> Dim:
        """Elements along the operand's own axes."""
        return volume(self.extents)

    def start(self, batch: Counters) -> Expr:
        """Where the operand of one position of the batch begins."""
        return offset(build.lift(self.source.offset), batch, self.batch)

    def moved(self, where: Expr, counters: Counters) -> Expr:
        """Where counters of its own axes lead from there."""
        return offset(where, counters, self.strides)

    def width(self, most: int, *, along_depth: bool, depth: Shape) -> int:
        """Elements, a power of two up to `most`, that lie side by side and aligned along the
        innermost axis of the sum or of the side; 1 where neighbours lie apart."""
        extents, strides, others = (
            (depth, self.depth, self.strides)
            if along_depth
            else (self.extents, self.strides, self.depth)
        )
        if (
            not strides
            or strides[-1] != 1
            or any((b.depth if along_depth else b.own)[-1] for b in self.borders)
        ):
            return 1
        steps = [*strides[:-1], *others, *self.batch, self.source.offset, extents[-1]]
        while most > 1 and any(divisor(step) % most for step in steps):
            most //= 2
        return most


def offset(where: Expr, counters: Counters, strides: Shape) -> Expr:
    """Where counters along axes of these strides lead from a place."""
    for counter, stride in zip(counters, strides, strict=True):
        where = build.add(where, build.mul(counter, stride))
    return where


def apart(builder: Builder, counter: Expr, extents: Shape) -> list[Expr]:
    """The counters of the axes that one counter, or a vector of neighbours along the last of them,
    stands for.
    """
    if len(extents) < 2:
        return [counter] * len(extents)
    return unravel(builder, counter, extents)
