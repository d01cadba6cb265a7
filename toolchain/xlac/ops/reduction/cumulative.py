"""Running combinations along an axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.op import Array, Op, Sample, ShapeError, declare, normal_axis
from xlac.ir.types import Type
from xlac.ops import numeric
from xlac.ops.reduction.reduction import check_combine, created
from xlac_sdk.dtypes import DType


@declare
class Cumulative(Op):
    """Running combinations along `axis`: element i combines elements 0..i, or 0..i-1 when
    `exclusive`.

    `reverse` runs from the end. Halves accumulate in f32, and each result is rounded.
    """

    mnemonic = "cumulative"
    axis: int = 0
    combine: str = "add"
    reverse: bool = False
    exclusive: bool = False

    def infer(self, *types: Type) -> Type:
        (x,) = types
        check_combine(self.mnemonic, self.combine, x)
        if normal_axis(self.axis, x.rank) != self.axis:
            raise ShapeError(f"axis {self.axis} must count from the start", attribute="axis")
        return x

    @property
    def creates(self) -> frozenset[str]:
        return created(self.combine)

    def evaluate(self, *arrays: Array) -> Array:
        (x,) = arrays
        flipped = np.flip(x, self.axis) if self.reverse else x
        result = numeric.accumulate(self.combine, flipped, self.axis)
        if self.exclusive and x.shape[self.axis]:
            first = np.full_like(
                np.take(result, [0], self.axis), numeric.identity(self.combine, DType.of(x.dtype))
            )
            result = np.concatenate([first, np.delete(result, -1, self.axis)], self.axis)
        return np.ascontiguousarray(np.flip(result, self.axis) if self.reverse else result)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        found = [
            Sample((Type(DType.F32, s),), {"axis": a, "combine": "add"})
            for s, a in (
                ((7,), 0),
                ((0,), 0),
                ((3, 5), 0),
                ((3, 5), 1),
                ((3, 0), 1),
                ((2, 3, 5), 1),
                ((2, 1, 3, 5), 3),
                ((4999,), 0),
            )
        ]
        for combine, draw in (("mul", "unit"), ("max", "special"), ("min", "special")):
            found.append(
                Sample((Type(DType.F32, (3, 11)),), {"axis": 1, "combine": combine}, (draw,))
            )
        for reverse, exclusive in ((True, False), (False, True), (True, True)):
            given = {"axis": 1, "combine": "add", "reverse": reverse, "exclusive": exclusive}
            found.append(Sample((Type(DType.F32, (3, 7)),), given))
        for dtype in DType:
            combine = "xor" if dtype is DType.BOOL else "add"
            found.append(
                Sample((Type(dtype, (2, 9)),), {"axis": 1, "combine": combine}, ("small",))
            )
        return found
