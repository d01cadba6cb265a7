"""Reading at indices that are data (StableHLO's gather)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from xlac.ir.dims import Dim, static
from xlac.ir.faults import DeclaredFault
from xlac.ir.graph import Node, apply, zeros
from xlac.ir.leading import widened_axes
from xlac.ir.op import Array, Elementwise, Index, Operand, Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops.checks import check_axes, check_lengths, fits
from xlac.ops.tensor.index import (
    Ints,
    batch_shape,
    check_pairs,
    clamped,
    clamped_starts,
    index_element,
    out_of_range,
)
from xlac.ops.tensor.leaf import Const
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr

SHORT = 256  # entries of a table that is looked up element by element
GATHERED = ("offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_index_map")


@declare
class Gather(Elementwise):
    """Slices of x at starting points listed in `indices`, clamped so that every slice lies inside.

    Each vector of `indices` along `index_vector_dim` gives the start in the axes `start_index_map`
    of x. The slice, of `slice_sizes`, loses its `collapsed_slice_dims` and `operand_batching_dims`;
    what is left fills `offset_dims` of the result, and the batch axes of `indices` fill the others.
    """

    mnemonic = "gather"
    creates = frozenset()
    operands = ("x", "indices")
    offset_dims: tuple[int, ...] = ()
    collapsed_slice_dims: tuple[int, ...] = ()
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()
    start_index_map: tuple[int, ...] = ()
    index_vector_dim: int = 0
    slice_sizes: tuple[Dim, ...] = ()

    def infer(self, *types: Type) -> Type:
        x, indices = types
        batch, length = batch_shape(self.mnemonic, indices, self.index_vector_dim)
        check_lengths(self.mnemonic, x.rank, slice_sizes=self.slice_sizes)
        check_axes(
            (*self.collapsed_slice_dims, *self.operand_batching_dims),
            x.rank,
            "collapsed_slice_dims",
        )
        check_axes((*self.start_index_map, *self.operand_batching_dims), x.rank, "start_index_map")
        check_pairs(
            self.mnemonic, x, indices, self.operand_batching_dims, self.start_indices_batching_dims
        )
        if length != len(self.start_index_map):
            raise ShapeError(
                f"index vectors of {length} do not fit start_index_map "
                f"{list(self.start_index_map)}",
                operand=1,
            )
        for axis, size in enumerate(self.slice_sizes):
            if not fits(size, x.shape[axis]) or (isinstance(size, int) and size < 0):
                raise ShapeError(
                    f"a slice of {size} along axis {axis} does not fit {x}", attribute="slice_sizes"
                )
            if axis in (*self.collapsed_slice_dims, *self.operand_batching_dims) and size not in (
                0,
                1,
            ):
                raise ShapeError(
                    f"axis {axis} of the slice goes away, so its size must be 1, not {size}",
                    attribute="slice_sizes",
                )
        kept = self._kept(x.rank)
        rank = len(batch) + len(kept)
        check_axes(self.offset_dims, rank, "offset_dims")
        if len(kept) != len(self.offset_dims):
            raise ShapeError(
                f"the slice keeps {len(kept)} axes, offset_dims names {len(self.offset_dims)}",
                attribute="offset_dims",
            )
        offsets, batches = iter(self.slice_sizes[a] for a in kept), iter(batch)
        return x.with_shape(
            tuple(next(offsets) if a in self.offset_dims else next(batches) for a in range(rank))
        )

    def _kept(self, rank: int) -> Ints:
        gone = {*self.collapsed_slice_dims, *self.operand_batching_dims}
        return tuple(a for a in range(rank) if a not in gone)

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x",),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (ct,) = cotangents
        assert ct is not None
        x, indices = node.inputs
        lasts = [x.shape[axis] - self.slice_sizes[axis] for axis in self.start_index_map]
        starts = clamped_starts(indices, self.index_vector_dim, lasts)
        if (axis := self._one_of_each_line(x, indices)) is not None:
            return [_placed(starts, ct, x, axis), None]
        summed = apply(
            "scatter",
            zeros(x.type),
            starts,
            ct,
            combine="add",
            update_window_dims=self.offset_dims,
            inserted_window_dims=self.collapsed_slice_dims,
            input_batching_dims=self.operand_batching_dims,
            scatter_indices_batching_dims=self.start_indices_batching_dims,
            scatter_dims_to_operand_dims=self.start_index_map,
            index_vector_dim=self.index_vector_dim,
        )
        return [summed, None]

    def _one_of_each_line(self, x: Node, indices: Node) -> int | None:
        """The axis along which one element of each line of x is taken (the logarithm of what a
        class was expected with), None where it is not so.
        """
        rank = x.type.rank
        if len(self.start_index_map) != 1 or self.index_vector_dim != rank:
            return None
        (axis,) = self.start_index_map
        others = tuple(a for a in range(rank) if a != axis)
        same = self.operand_batching_dims == self.start_indices_batching_dims == others
        one = indices.type.rank == rank and indices.shape[axis] == 1
        return axis if same and one and self.collapsed_slice_dims == (axis,) else None

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node]:
        x, indices = inputs
        after: dict[str, Any] = {name: widened_axes(getattr(self, name)) for name in GATHERED}
        if all(mapped):
            one = 0 if size == 0 else 1
            after |= {
                "operand_batching_dims": (0, *after["operand_batching_dims"]),
                "start_indices_batching_dims": (0, *widened_axes(self.start_indices_batching_dims)),
                "slice_sizes": (one, *self.slice_sizes),
                "index_vector_dim": self.index_vector_dim + 1,
            }
        elif mapped[0]:  # the axis is part of every slice
            after |= {
                "offset_dims": (0, *after["offset_dims"]),
                "slice_sizes": (size, *self.slice_sizes),
            }
        else:
            after = {
                "offset_dims": after["offset_dims"],
                "start_indices_batching_dims": widened_axes(self.start_indices_batching_dims),
                "index_vector_dim": self.index_vector_dim + 1,
            }
        return [Node.of(replace(self, **after), x, indices)]

    def evaluate(self, *arrays: Array) -> Array:
        x, indices = arrays
        result = self.infer(*(Type(DType.of(a.dtype), a.shape) for a in arrays))
        shape = static(result.shape)
        at = np.indices(shape, sparse=True)
        batch = [at[a] for a in range(len(shape)) if a not in self.offset_dims]
        where: list[Any] = [np.int64(0)] * x.ndim
        for position, axis in enumerate(self.start_index_map):
            vector: list[Any] = [*batch]
            if self.index_vector_dim < indices.ndim:
                vector.insert(self.index_vector_dim, np.int64(position))
            last = x.shape[axis] - static(self.slice_sizes)[axis]
            where[axis] = clamped(indices[tuple(vector)], last)
        for own, other in zip(
            self.operand_batching_dims, self.start_indices_batching_dims, strict=True
        ):
            where[own] = batch[other - (other > self.index_vector_dim)]
        for axis, spot in zip(self._kept(x.ndim), sorted(self.offset_dims), strict=True):
            where[axis] = where[axis] + at[spot]
        if prod(shape) == 0:
            return np.empty(shape, x.dtype)
        return np.array(np.broadcast_to(x[tuple(where)], shape))

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        x, indices = inputs
        shape, sizes = x.type.shape, self.slice_sizes
        batch = [counter for a, counter in enumerate(at) if a not in self.offset_dims]
        where: list[Expr] = [build.index(0)] * len(shape)
        for position, axis in enumerate(self.start_index_map):
            vector = [*batch]
            if self.index_vector_dim < indices.type.rank:
                vector.insert(self.index_vector_dim, build.index(position))
            where[axis] = index_element(indices.read(tuple(vector)), shape[axis] - sizes[axis])
        for own, other in zip(
            self.operand_batching_dims, self.start_indices_batching_dims, strict=True
        ):
            where[own] = batch[other - (other > self.index_vector_dim)]
        for axis, spot in zip(self._kept(len(shape)), sorted(self.offset_dims), strict=True):
            where[axis] = build.add(where[axis], at[spot])
        return x.read(tuple(where))

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        x, indices = inputs
        if 0 in self.slice_sizes:
            return ()
        counts = [x.shape[axis] - self.slice_sizes[axis] + 1 for axis in self.start_index_map]
        return out_of_range(indices, counts, self.index_vector_dim)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def case(
            x: Ints,
            indices: Ints,
            dtype: DType = DType.F32,
            by: DType = DType.I32,
            /,
            **given: object,
        ) -> Sample:
            return Sample((Type(dtype, x), Type(by, indices)), given, ("normal", "index"))

        rows = {
            "offset_dims": (1,),
            "collapsed_slice_dims": (0,),
            "start_index_map": (0,),
            "index_vector_dim": 1,
            "slice_sizes": (1, 5),
        }
        samples = [
            case((7, 5), (4,), **rows), case((7, 5), (0,), **rows), case((999, 5), (1000,), **rows),
            case((7, 5), (2, 3), offset_dims=(2,), collapsed_slice_dims=(0,), start_index_map=(0,),
                 index_vector_dim=2, slice_sizes=(1, 5)),
            case((7, 5), (3, 2), offset_dims=(), collapsed_slice_dims=(0, 1),
                 start_index_map=(1, 0), index_vector_dim=1, slice_sizes=(1, 1)),
            case((7, 5), (2,), offset_dims=(0, 1), start_index_map=(0, 1), index_vector_dim=0,
                 slice_sizes=(3, 2)),
            case((3, 4, 2), (2, 2, 3), offset_dims=(2, 3), collapsed_slice_dims=(0,),
                 start_index_map=(1, 0), index_vector_dim=0, slice_sizes=(1, 2, 2)),
            case((2, 7, 3), (2, 4, 1), offset_dims=(2,), collapsed_slice_dims=(1,),
                 operand_batching_dims=(0,),
                 start_indices_batching_dims=(0,), start_index_map=(1,), index_vector_dim=2,
                 slice_sizes=(1, 1, 3)),
            case((7,), (), offset_dims=(0,), start_index_map=(0,), index_vector_dim=0,
                 slice_sizes=(2,)),
        ]  # fmt: skip
        samples += [case((7, 5), (4,), d, **rows) for d in DType]
        return samples + [
            Sample((Type(DType.F32, (7, 5)), Type(d, (4,))), rows, ("normal", "special"))
            for d in DType
            if d.is_integer
        ]


def is_lookup(node: Node) -> bool:
    """Whether each element is the entry of a short constant table that the element of the indices
    at the same index chooses.
    """
    op = node.op
    if not isinstance(op, Gather) or not isinstance(node.inputs[0].op, Const):
        return False
    table, indices = node.inputs
    single = table.type.rank == 1 and table.shape[0] <= SHORT and op.slice_sizes == (1,)  # type: ignore[operator]
    along = op.start_index_map == (0,) and op.collapsed_slice_dims == (0,)
    return single and along and op.index_vector_dim == indices.type.rank


def _placed(starts: Node, ct: Node, x: Node, axis: int) -> Node:
    """A cotangent where its line was read, zeros elsewhere: as a choice for each element, which
    needs no memory where what reads it is computed beside it, as a scatter would.
    """
    size = x.shape[axis]
    dtype = DType.I32 if isinstance(size, int) and size < 1 << 31 else DType.I64
    every = tuple(range(x.type.rank))
    line = apply("iota", shape=x.shape, axis=axis, dtype=dtype)
    place, value = (
        apply("broadcast", one, shape=x.shape, axes=every)
        for one in (apply("cast", starts, dtype=dtype), ct)
    )
    return apply("select", apply("compare", line, place, direction="eq"), value, zeros(x.type))
