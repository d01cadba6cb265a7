"""One operand of a matrix product, with its own axes and the summed axes each flattened to one.

Several axes are one counter in loops, which is split into several where an element is read or
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
    """Padding along an axis of an operand: the axis has `extent` elements from position `low` of
    the counters on; `own`, `batch` and `depth` are the steps along it of each counter.
    """

    low: int
    extent: Dim
    own: tuple[int, ...]
    batch: tuple[int, ...]
    depth: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MatrixOperand:
    """One operand: its own axes, outermost first, and its element stride along every axis. Outside
    its borders it is zero.
    """

    source: OperandSource
    extents: Shape
    strides: Shape
    batch: Shape  # strides along the batch axes
    depth: Shape  # strides along the summed axes
    borders: tuple[Padding, ...] = ()

    @property
    def size(self) -> Dim:
        """The number of elements along the operand's own axes."""
        return volume(self.extents)

    def start(self, batch: Counters) -> Expr:
        """The offset of the operand at one position of the batch."""
        return offset(build.lift(self.source.offset), batch, self.batch)

    def moved(self, where: Expr, counters: Counters) -> Expr:
        """The offset plus that of counters along its own axes."""
        return offset(where, counters, self.strides)

    def width(self, most: int, *, along_depth: bool, depth: Shape) -> int:
        """The vector width, a power of two up to `most`, of contiguous and aligned elements along
        the innermost summed axis or the operand's own; 1 if neighbours are not contiguous.
        """
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
    """An offset plus that of counters along axes with these strides."""
    for counter, stride in zip(counters, strides, strict=True):
        where = build.add(where, build.mul(counter, stride))
    return where


def apart(builder: Builder, counter: Expr, extents: Shape) -> list[Expr]:
    """Splits one counter (or a vector that varies along the last axis) into the counters of several
    axes.
    """
    if len(extents) < 2:
        return [counter] * len(extents)
    return unravel(builder, counter, extents)
