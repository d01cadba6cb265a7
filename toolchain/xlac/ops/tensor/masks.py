"""Choosing by position: one-hot rows and triangles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.dims import Shape
from xlac.ir.faults import DeclaredFault, OutOfRange
from xlac.ir.graph import Node
from xlac.ir.op import Array, Sample, ShapeError, declare, normal_axis
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import INTEGERS, check_dtype
from xlac.ops.tensor.choose import F, Ints
from xlac_sdk.dtypes import DType


@declare
class OneHot(Composite):
    """1 where the position along a new axis equals the index, 0 elsewhere; an index out of range
    gives all 0.
    """

    mnemonic = "one_hot"
    creates = frozenset()
    operands = ("indices",)
    depth: int = 0
    axis: int = -1
    dtype: DType = DType.F32

    def infer(self, *types: Type) -> Type:
        (indices,) = types
        check_dtype(self.mnemonic, indices, INTEGERS)
        if self.depth < 0:
            raise ShapeError(f"depth {self.depth} is negative", attribute="depth")
        axis = normal_axis(self.axis, indices.rank + 1)
        return Type(self.dtype, (*indices.shape[:axis], self.depth, *indices.shape[axis:]))

    def expand(self, *inputs: Node) -> Node:
        (indices,) = inputs
        result = self.infer(indices.type)
        axis = normal_axis(self.axis, result.rank)
        wide = DType.U64 if indices.type.dtype is DType.U64 else DType.I64
        spread = build.spread(
            build.cast(indices, wide), result.shape, [a for a in range(result.rank) if a != axis]
        )
        return build.cast(
            build.compare(spread, "eq", build.iota(result.shape, axis, wide)), self.dtype
        )

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        return (OutOfRange(inputs[0], (self.depth,)),)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, int, int]] = [
            ((5,), 7, -1),
            ((), 3, 0),
            ((2, 3), 4, 0),
            ((2, 3), 4, 1),
            ((0,), 3, -1),
            ((5,), 0, -1),
        ]
        samples = [
            Sample((Type(DType.I64, s),), {"depth": d, "axis": a}, ("index",)) for s, d, a in cases
        ]
        samples += [
            Sample((Type(DType.I32, (5,)),), {"depth": 7, "dtype": d}, ("index",)) for d in DType
        ]
        return samples + [
            Sample((Type(d, (5,)),), {"depth": 7}, ("index",)) for d in DType if d.is_integer
        ]


def triangle(shape: Shape, k: int, upper: bool) -> Node:
    """Where the last two axes of a shape lie on or below (above, if upper) diagonal `k`."""
    two = shape[-2:]
    gap = build.sub(build.iota(two, 1), build.iota(two, 0))
    return build.compare(gap, "ge" if upper else "le", k)


class Triangle(Composite):
    """One side of a diagonal of the last two axes, 0 on the other."""

    k: int

    def infer(self, *types: Type) -> Type:
        (x,) = types
        if x.rank < 2:
            raise ShapeError(f"{self.mnemonic} needs a matrix, got {x}", operand=0)
        return x

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        keep = build.broadcast_to(triangle(x.shape, self.k, self.mnemonic == "triu"), x.shape)
        return build.select(keep, x, build.like(0, x))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, int]] = [
            ((4, 4), 0),
            ((3, 5), 1),
            ((5, 3), -1),
            ((2, 3, 3), 0),
            ((0, 3), 0),
            ((3, 3), 9),
        ]
        return [Sample((Type(F, s),), {"k": k}) for s, k in cases] + [
            Sample((Type(d, (3, 3)),), {}) for d in DType
        ]


@declare
class Tril(Triangle):
    """x on and below diagonal `k` of its last two axes, 0 above."""

    mnemonic = "tril"
    creates = frozenset()
    k: int = 0

    def evaluate(self, *arrays: Array) -> Array:
        return np.tril(arrays[0], self.k)


@declare
class Triu(Triangle):
    """x on and above diagonal `k` of its last two axes, 0 below."""

    mnemonic = "triu"
    creates = frozenset()
    k: int = 0

    def evaluate(self, *arrays: Array) -> Array:
        return np.triu(arrays[0], self.k)
