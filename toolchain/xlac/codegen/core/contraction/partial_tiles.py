"""Partial sums in memory: the blocks of a long contraction are summed in registers, and added to
sums in a local array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac.codegen.core.contraction.contraction import zero
from xlac.codegen.core.summation import two_sum, whole
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Buffer, Expr
from xlac_sdk.kernel_ir.primitives import Primitive

PRODUCTS = 128  # products that an accumulator sums without compensation: one block
WHOLE = 384  # products up to which the loops are not blocked, as blocks cost registers
# blocks that are summed without compensation if there are more than FEW
GROUP = 8
FEW = 16
UNROLLED = 4  # most vectors of sums that are cleared in one turn of a loop


@dataclass(frozen=True, slots=True)
class Waiting:
    """A local array of partial sums, in vectors of `lanes` lanes. If blocks are compensated there
    are three: sums of the current group of blocks, and the total and its lost low part.
    """

    builder: Builder
    sums: Buffer
    lanes: int
    high: Buffer | None = None
    low: Buffer | None = None

    @staticmethod
    def of(builder: Builder, dtype: DType, size: int, lanes: int, blocks: int) -> Waiting:
        """An array for `size` sums (a multiple of `lanes`) of so many blocks,
        initialized to zero.
        """
        names = ("s", "high", "low") if blocks > FEW and dtype.is_float else ("s",)
        buffers = [builder.local(name, dtype, size) for name in names]
        many = next(n for n in range(UNROLLED, 0, -1) if size // lanes % n == 0)
        with builder.loop("z", 0, size, many * lanes) as z:
            for first in range(0, many * lanes, lanes):
                for buffer in buffers:
                    at = build.ramp(build.add(z, first), 1, lanes)
                    builder.store(buffer, at, zero(dtype, lanes))
        return Waiting(builder, buffers[0], lanes, *buffers[1:])

    def add(self, place: Expr, value: Expr) -> None:
        """Adds a vector to the sums at an offset."""
        where = build.ramp(place, 1, self.lanes)
        self.builder.store(
            self.sums, where, build.apply(Primitive.ADD, build.load(self.sums, where), value)
        )

    def group(self, first: Expr, size: build.Number, number: Expr) -> None:
        """To be called after block `number` was added to `size` sums from `first` on: after every
        GROUP blocks, the sums are added to the compensated totals.
        """
        if self.high is None:
            return
        last = build.apply(Primitive.EQ, build.mod(number, GROUP), build.index(GROUP - 1))
        with self.builder.when(last):
            self.join(first, size)

    def join(self, first: Expr, size: build.Number) -> None:
        """Adds the current sums to the compensated totals and clears them, for `size` sums from
        `first` on.
        """
        builder, lanes = self.builder, self.lanes
        if self.high is None or self.low is None:
            return
        with builder.loop("z", first, build.add(first, size), lanes) as z:
            where = build.ramp(z, 1, lanes)
            before = builder.let("before", build.load(self.high, where))
            high, lost = two_sum(builder, before, build.load(self.sums, where))
            builder.store(self.high, where, high)
            builder.store(
                self.low, where, build.apply(Primitive.ADD, build.load(self.low, where), lost)
            )
            builder.store(self.sums, where, zero(self.sums.dtype, lanes))

    def finish(self, size: build.Number) -> Buffer:
        """The final sums in one buffer."""
        if self.high is not None and self.low is not None:
            self.join(build.index(0), size)
            with self.builder.loop("z", 0, size, self.lanes) as z:
                where = build.ramp(z, 1, self.lanes)
                high = self.builder.let("high", build.load(self.high, where))
                self.builder.store(
                    self.sums,
                    where,
                    whole(self.builder, high, self.builder.let("low", build.load(self.low, where))),
                )
        return self.sums


def places(
    first: Expr, width: int, rows: int, vectors: int, lanes: int
) -> Sequence[Sequence[Expr]]:
    """The offsets of the vectors of some rows, which are `width` elements apart."""
    return [[build.add(first, i * width + v * lanes) for v in range(vectors)] for i in range(rows)]
