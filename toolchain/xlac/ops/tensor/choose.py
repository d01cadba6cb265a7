"""Choosing elements by index or by order, and putting them somewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim
from xlac.ir.faults import DeclaredFault, OutOfRange
from xlac.ir.graph import Node
from xlac.ir.op import Sample, ShapeError, declare, normal_axis
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import FLOATS, INTEGERS, check_dtype, fits
from xlac.ops.tensor.gather import Gather
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]


F = DType.F32


def wrapped(indices: Node, size: Dim) -> Node:
    """Indices whose negative entries count from the end where the size is known."""
    return build.from_end(indices, size) if isinstance(size, int) else indices


def from_either_end(indices: Node, size: Dim) -> Sequence[DeclaredFault]:
    """Indices that `wrapped` does not bring inside."""
    return (OutOfRange(indices, (size,), wraps=isinstance(size, int)),)


@declare
class Embedding(Composite):
    """Rows of a learned table: `weight` (count, dim), one row for each index; indices are clamped
    into range.
    """

    mnemonic = "embedding"
    creates = frozenset()
    operands = ("indices",)
    count: int = 0
    dim: int = 0
    dtype: DType = DType.F32

    def parameters(self, *types: Type) -> Mapping[str, Type]:
        if self.count < 1 or self.dim < 1:
            raise ShapeError(
                f"embedding needs a count and a dim, got {self.count} and {self.dim}",
                attribute="count",
            )
        if not self.dtype.is_float:
            raise ShapeError(f"embedding learns floats, not {self.dtype}", attribute="dtype")
        return {"weight": Type(self.dtype, (self.count, self.dim))}

    def infer(self, *types: Type) -> Type:
        indices, *learned = types
        check_dtype(self.mnemonic, indices, INTEGERS)
        wanted = self.parameters(indices)["weight"]
        if len(learned) != 1:
            raise ShapeError(
                f"embedding needs its weight after the indices, got {len(learned)} more operands"
            )
        if learned[0].shape != wanted.shape or not learned[0].dtype.is_float:
            raise ShapeError(f"weight of embedding is {wanted}, got {learned[0]}", operand=1)
        return Type(learned[0].dtype, (*indices.shape, self.dim))

    def expand(self, *inputs: Node) -> Node:
        indices, weight = inputs
        return build.take(weight, indices, 0)

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        return (OutOfRange(inputs[0], (self.count,)),)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        shapes: list[Ints] = [(5,), (), (2, 3), (0,), (1000,)]
        known = {"count": 7, "dim": 5}
        samples = [
            Sample((Type(DType.I64, s), Type(F, (7, 5))), known, ("small", "normal"))
            for s in shapes
        ]
        samples += [
            Sample(
                (Type(DType.I32, (4,)), Type(d, (7, 5))), known | {"dtype": d}, ("index", "normal")
            )
            for d in DType
            if d in FLOATS
        ]
        return samples + [
            Sample((Type(d, (4,)), Type(F, (7, 5))), known, ("small", "normal"))
            for d in DType
            if d.is_integer
        ]


@declare
class Take(Composite):
    """Whole slices of x along `axis` at indices of any shape; negative ones count from the end,
    others are clamped.
    """

    mnemonic = "take"
    creates = frozenset()
    operands = ("x", "indices")
    axis: int = 0

    def infer(self, *types: Type) -> Type:
        x, indices = types
        check_dtype(self.mnemonic, indices, INTEGERS, 1)
        axis = normal_axis(self.axis, x.rank)
        if x.shape[axis] == 0 and indices.size != 0:
            raise ShapeError(f"there is nothing to take along axis {axis} of {x}", operand=0)
        return x.with_shape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))

    def expand(self, *inputs: Node) -> Node:
        x, indices = inputs
        axis = normal_axis(self.axis, x.type.rank)
        if x.shape[axis] == 0:
            return build.full(0, self.infer(x.type, indices.type).shape, x.type.dtype)
        return build.take(x, wrapped(indices, x.shape[axis]), axis)

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        x, indices = inputs
        return from_either_end(indices, x.shape[normal_axis(self.axis, x.type.rank)])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, Ints, int]] = [
            ((7,), (3,), 0),
            ((7, 5), (2, 3), 0),
            ((3, 7), (4,), 1),
            ((3, 7, 2), (), 1),
            ((7,), (0,), 0),
            ((0, 3), (2,), 1),
            ((99,), (1000,), 0),
        ]
        samples = [
            Sample((Type(F, s), Type(DType.I64, i)), {"axis": a}, ("normal", "index"))
            for s, i, a in cases
        ]
        return samples + [
            Sample((Type(d, (7,)), Type(DType.I32, (5,))), {}, ("normal", "index")) for d in DType
        ]


@declare
class TakeAlongAxis(Composite):
    """Elements of x at indices along `axis`, which have x's other extents; negative ones count from
    the end.
    """

    mnemonic = "take_along_axis"
    creates = frozenset()
    operands = ("x", "indices")
    axis: int = -1

    def infer(self, *types: Type) -> Type:
        x, indices = types
        check_dtype(self.mnemonic, indices, INTEGERS, 1)
        check_along(self.mnemonic, x, indices, normal_axis(self.axis, x.rank), exact=True)
        return x.with_shape(indices.shape)

    def expand(self, *inputs: Node) -> Node:
        x, indices = inputs
        axis = normal_axis(self.axis, x.type.rank)
        batch = tuple(a for a in range(x.type.rank) if a != axis)
        op = Gather(
            offset_dims=(),
            collapsed_slice_dims=(axis,),
            operand_batching_dims=batch,
            start_indices_batching_dims=batch,
            start_index_map=(axis,),
            index_vector_dim=x.type.rank,
            slice_sizes=tuple(0 if size == 0 else 1 for size in x.shape),
        )
        return Node.of(op, x, wrapped(indices, x.shape[axis]))

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        x, indices = inputs
        return from_either_end(indices, x.shape[normal_axis(self.axis, x.type.rank)])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, Ints, int]] = [
            ((7,), (3,), 0),
            ((3, 7), (3, 2), 1),
            ((7, 3), (2, 3), 0),
            ((2, 3, 7), (2, 3, 9), -1),
            ((3, 7), (3, 0), 1),
        ]
        samples = [
            Sample((Type(F, s), Type(DType.I64, i)), {"axis": a}, ("normal", "index"))
            for s, i, a in cases
        ]
        return samples + [
            Sample((Type(d, (3, 7)), Type(DType.I32, (3, 5))), {}, ("normal", "index"))
            for d in DType
        ]


def check_along(mnemonic: str, x: Type, indices: Type, axis: int, exact: bool) -> None:
    """Indices along an axis have x's rank and its other extents (or fewer of them)."""
    same = x.rank == indices.rank and all(
        a == axis
        or (indices.shape[a] == x.shape[a] if exact else fits(indices.shape[a], x.shape[a]))
        for a in range(x.rank)
    )
    if not same:
        raise ShapeError(
            f"{mnemonic}: indices {indices} do not fit {x} but for axis {axis}", operand=1
        )
    if x.shape[axis] == 0 and indices.size != 0:
        raise ShapeError(f"{mnemonic}: axis {axis} of {x} has no elements", operand=0)


@declare
class GatherNd(Composite):
    """Slices of x at full or partial indices: each vector along the last axis of `indices` says
    where, in the first axes of x.
    """

    mnemonic = "gather_nd"
    creates = frozenset()
    operands = ("x", "indices")

    def infer(self, *types: Type) -> Type:
        x, indices = types
        check_dtype(self.mnemonic, indices, INTEGERS, 1)
        if (
            not indices.shape
            or not isinstance(indices.shape[-1], int)
            or indices.shape[-1] > x.rank
        ):
            raise ShapeError(f"index vectors of {indices} do not fit {x}", operand=1)
        return x.with_shape((*indices.shape[:-1], *x.shape[indices.shape[-1] :]))

    def expand(self, *inputs: Node) -> Node:
        x, indices = inputs
        depth = indices.shape[-1]
        assert isinstance(depth, int)
        batch = indices.type.rank - 1
        rank = x.type.rank
        op = Gather(
            offset_dims=tuple(range(batch, batch + rank - depth)),
            collapsed_slice_dims=tuple(range(depth)),
            start_index_map=tuple(range(depth)),
            index_vector_dim=batch,
            slice_sizes=(*[1] * depth, *x.shape[depth:]),
        )
        return Node.of(op, x, indices)

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        x, indices = inputs
        depth = indices.shape[-1]
        assert isinstance(depth, int)
        return (OutOfRange(indices, x.shape[:depth], indices.type.rank - 1),)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, Ints]] = [
            ((7, 5), (3, 2)),
            ((7, 5), (3, 1)),
            ((7, 5, 2), (2, 3, 2)),
            ((7,), (0, 1)),
            ((7, 5), (2,)),
        ]
        samples = [
            Sample((Type(F, s), Type(DType.I64, i)), {}, ("normal", "small")) for s, i in cases
        ]
        return samples + [
            Sample((Type(d, (7, 5)), Type(DType.I32, (3, 2))), {}, ("normal", "small"))
            for d in DType
        ]
