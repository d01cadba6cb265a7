"""Reading and writing at indices that are data: gather, scatter and dynamic slices (StableHLO's
semantics).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from xlac.ir.dims import Dim, Shape, static
from xlac.ir.faults import DeclaredFault, OutOfRange
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array, Elementwise, Index, Op, Operand, Sample, ShapeError, declare
from xlac.ir.types import Type, Types
from xlac.ops import numeric
from xlac.ops.checks import (
    INTEGERS,
    check_axes,
    check_dtype,
    check_lengths,
    check_scalar,
    dims,
    fits,
    several,
)
from xlac.ops.control import bodies
from xlac.ops.reduction.reduction import check_combine
from xlac.ops.tensor.view import both, clamp, may_be_empty
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive

Ints = tuple[int, ...]


def index_element(value: Expr, last: Dim) -> Expr:
    """An integer read from a tensor, as an index clamped into 0..last."""
    if value.dtype is DType.U64:  # beyond 2**63 it would turn negative
        most = (
            Const(last, DType.U64)
            if isinstance(last, int)
            else build.cast(build.lift(last), DType.U64)
        )
        value = build.apply(Primitive.MIN, value, most)
    return clamp(build.cast(value, build.INDEX), last)


def batch_shape(mnemonic: str, indices: Type, vector: int) -> tuple[tuple[Dim, ...], Dim]:
    """The shape of `indices` without its index vectors, and their length."""
    check_dtype(mnemonic, indices, INTEGERS, 1)
    if not 0 <= vector <= indices.rank:
        raise ShapeError(
            f"index_vector_dim {vector} is not an axis of {indices}", attribute="index_vector_dim"
        )
    if vector == indices.rank:
        return indices.shape, 1
    return indices.shape[:vector] + indices.shape[vector + 1 :], indices.shape[vector]


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
                f"index vectors of {length} do not fit start_index_map {list(self.start_index_map)}",
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
        found = [
            case((7, 5), (4,), **rows), case((7, 5), (0,), **rows), case((999, 5), (1000,), **rows),
            case((7, 5), (2, 3), offset_dims=(2,), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=2, slice_sizes=(1, 5)),
            case((7, 5), (3, 2), offset_dims=(), collapsed_slice_dims=(0, 1), start_index_map=(1, 0), index_vector_dim=1, slice_sizes=(1, 1)),
            case((7, 5), (2,), offset_dims=(0, 1), start_index_map=(0, 1), index_vector_dim=0, slice_sizes=(3, 2)),
            case((3, 4, 2), (2, 2, 3), offset_dims=(2, 3), collapsed_slice_dims=(0,), start_index_map=(1, 0), index_vector_dim=0, slice_sizes=(1, 2, 2)),
            case((2, 7, 3), (2, 4, 1), offset_dims=(2,), collapsed_slice_dims=(1,), operand_batching_dims=(0,),
                 start_indices_batching_dims=(0,), start_index_map=(1,), index_vector_dim=2, slice_sizes=(1, 1, 3)),
            case((7,), (), offset_dims=(0,), start_index_map=(0,), index_vector_dim=0, slice_sizes=(2,)),
        ]  # fmt: skip
        found += [case((7, 5), (4,), d, **rows) for d in DType]
        return found + [
            Sample((Type(DType.F32, (7, 5)), Type(d, (4,))), rows, ("normal", "special"))
            for d in DType
            if d.is_integer
        ]


def check_pairs(
    mnemonic: str, x: Type, indices: Type, own: Sequence[int], others: Sequence[int]
) -> None:
    """The batching axes of an operand and of its indices match."""
    check_axes(own, x.rank, "operand_batching_dims")
    check_axes(others, indices.rank, "start_indices_batching_dims")
    if len(own) != len(others):
        raise ShapeError(
            f"batching axes of {mnemonic} must pair up, got {list(own)} and {list(others)}",
            attribute="operand_batching_dims",
        )
    for a, b in zip(own, others, strict=True):
        if x.shape[a] != indices.shape[b]:
            raise ShapeError(
                f"batching axes of {mnemonic} differ: axis {a} of {x} and axis {b} of {indices}",
                operand=1,
            )


def clamped(index: Array, last: int) -> Array:
    """Indices of any integer type moved into 0..last, as int64."""
    if index.dtype == np.uint64:
        index = np.minimum(index, np.uint64(last))
    return np.clip(index.astype(np.int64), 0, last)


@declare
class Scatter(Op):
    """x with `updates` combined into it at the places that `indices` list; elements out of range
    are dropped.

    The axes are named as in gather, from the updates' side. Updates of one place are combined one
    after another in row-major order of `updates`; `unique` promises that there are none. With
    `combine: body` the body takes the element and its update, and there may be several tensors:
    (*xs, indices, *updates).
    """

    mnemonic = "scatter"
    operands = ("x", "indices", "updates")
    update_window_dims: tuple[int, ...] = ()
    inserted_window_dims: tuple[int, ...] = ()
    input_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()
    scatter_dims_to_operand_dims: tuple[int, ...] = ()
    index_vector_dim: int = 0
    combine: str = "assign"
    body: Graph | None = None
    unique: bool = False

    def infer(self, *types: Type) -> Types:
        count = (len(types) - 1) // 2
        xs, indices, updates = types[:count], types[count], types[count + 1 :]
        if not xs or len(xs) != len(updates):
            raise ShapeError("scatter takes a tensor, indices and updates")
        if self.combine == "body":
            scalars = [x.with_shape(()) for x in xs]
            if self.body is None:
                raise ShapeError("scatter by body takes a body", attribute="body")
            bodies.check(self.mnemonic, self.body, [*scalars, *scalars], scalars)
        else:
            if count != 1:
                raise ShapeError(f"scatter by {self.combine} takes one tensor, got {count}")
            if self.combine != "assign":
                check_combine(self.mnemonic, self.combine, xs[0], ("add", "mul", "max", "min"))
        for x, update in zip(xs, updates, strict=True):
            self._check(x, indices, update)
        return several(xs)

    def _check(self, x: Type, indices: Type, update: Type) -> None:
        batch, length = batch_shape(self.mnemonic, indices, self.index_vector_dim)
        check_axes(
            (*self.inserted_window_dims, *self.input_batching_dims), x.rank, "inserted_window_dims"
        )
        check_axes(
            (*self.scatter_dims_to_operand_dims, *self.input_batching_dims),
            x.rank,
            "scatter_dims_to_operand_dims",
        )
        check_axes(self.update_window_dims, update.rank, "update_window_dims")
        check_pairs(
            self.mnemonic, x, indices, self.input_batching_dims, self.scatter_indices_batching_dims
        )
        if length != len(self.scatter_dims_to_operand_dims):
            raise ShapeError(
                f"index vectors of {length} do not fit scatter_dims_to_operand_dims {list(self.scatter_dims_to_operand_dims)}",
                operand=1,
            )
        window = self._window(x.rank)
        if x.dtype is not update.dtype or len(window) != len(self.update_window_dims):
            raise ShapeError(f"updates {update} do not fit {x}", operand=2)
        outer = tuple(
            update.shape[a] for a in range(update.rank) if a not in self.update_window_dims
        )
        if outer != batch:
            raise ShapeError(
                f"updates {update} have batch axes {dims(outer)}, indices {indices} have {dims(batch)}",
                operand=2,
            )
        for axis, spot in zip(window, sorted(self.update_window_dims), strict=True):
            if not fits(update.shape[spot], x.shape[axis]):
                raise ShapeError(
                    f"axis {spot} of updates {update} exceeds axis {axis} of {x}", operand=2
                )

    def _window(self, rank: int) -> Ints:
        gone = {*self.inserted_window_dims, *self.input_batching_dims}
        return tuple(a for a in range(rank) if a not in gone)

    def places(self, shape: Ints, indices: Array, updates: Ints) -> tuple[Array, Array]:
        """For every element of the updates: its row-major place in x, and whether it is inside."""
        at = np.indices(updates, sparse=True)
        batch = [at[a] for a in range(len(updates)) if a not in self.update_window_dims]
        where: list[Any] = [np.int64(0)] * len(shape)
        for position, axis in enumerate(self.scatter_dims_to_operand_dims):
            vector: list[Any] = [*batch]
            if self.index_vector_dim < indices.ndim:
                vector.insert(self.index_vector_dim, np.int64(position))
            start = indices[tuple(vector)]
            if start.dtype == np.uint64:
                start = np.minimum(start, np.uint64(2**62))
            # far outside is outside however the window offsets it
            where[axis] = np.clip(start.astype(np.int64), -(2**40), 2**40)
        for own, other in zip(
            self.input_batching_dims, self.scatter_indices_batching_dims, strict=True
        ):
            where[own] = batch[other - (other > self.index_vector_dim)]
        for axis, spot in zip(
            self._window(len(shape)), sorted(self.update_window_dims), strict=True
        ):
            where[axis] = where[axis] + at[spot]
        inside = np.ones(updates, np.bool_)
        place = np.zeros(updates, np.int64)
        for spot_, size in zip(where, shape, strict=True):
            inside = inside & (spot_ >= 0) & (spot_ < size)
            place = place * size + np.clip(spot_, 0, max(0, size - 1))
        return place, inside

    def evaluate(self, *arrays: Array) -> Array | tuple[Array, ...]:
        count = (len(arrays) - 1) // 2
        xs, indices, updates = arrays[:count], arrays[count], arrays[count + 1 :]
        place, inside = self.places(xs[0].shape, indices, updates[0].shape)
        place = place[inside]
        results = [np.array(x).reshape(-1) for x in xs]
        values = [u[inside] for u in updates]
        if self.combine == "add" and self.body is None and numeric.is_float(xs[0]):
            total = results[0].astype(numeric.wider(numeric.widen(results[0]).dtype))
            with np.errstate(all="ignore"):
                np.add.at(total, place, values[0].astype(total.dtype))
            # what nothing is added to keeps its bits
            touched = np.isin(np.arange(total.size), place)
            return np.where(touched, numeric.narrow(total, xs[0].dtype), results[0]).reshape(
                xs[0].shape
            )
        order = np.argsort(place, kind="stable")
        sorted_place = place[order]
        first = np.r_[0, np.flatnonzero(np.diff(sorted_place)) + 1].astype(np.int64)
        run = (
            np.repeat(first, np.diff(np.r_[first, sorted_place.size])) if place.size else first[:0]
        )
        turn = np.arange(place.size) - run  # how many updates of the same place come before
        for number in range(int(turn.max()) + 1 if place.size else 0):
            chosen = order[turn == number]
            spots = place[chosen]
            new = self._combine([r[spots] for r in results], [v[chosen] for v in values])
            for result, value in zip(results, new, strict=True):
                result[spots] = value
        shaped = [r.reshape(x.shape) for r, x in zip(results, xs, strict=True)]
        return shaped[0] if count == 1 else tuple(shaped)

    def _combine(self, old: list[Array], new: list[Array]) -> list[Array]:
        if self.body is not None:
            return bodies.elementwise(self.body, [*old, *new])
        return (
            new
            if self.combine == "assign"
            else [numeric.scalar(numeric.COMBINE[self.combine], old[0], new[0])]
        )

    def bodies(self) -> Sequence[Any]:
        return () if self.body is None else (self.body,)

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        count = (len(inputs) - 1) // 2
        x, indices, update = inputs[0], inputs[count], inputs[count + 1]
        sizes: list[Dim] = [1] * x.type.rank
        for axis, spot in zip(
            self._window(x.type.rank), sorted(self.update_window_dims), strict=True
        ):
            sizes[axis] = update.shape[spot]
        if 0 in update.shape:
            return ()
        counts = [x.shape[axis] - sizes[axis] + 1 for axis in self.scatter_dims_to_operand_dims]
        return out_of_range(indices, counts, self.index_vector_dim)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def case(
            x: Ints,
            indices: Ints,
            updates: Ints,
            combine: str = "add",
            dtype: DType = DType.F32,
            /,
            **given: object,
        ) -> Sample:
            types = (Type(dtype, x), Type(DType.I32, indices), Type(dtype, updates))
            return Sample(types, {"combine": combine} | given, ("small", "index", "small"))

        rows = {
            "update_window_dims": (1,),
            "inserted_window_dims": (0,),
            "scatter_dims_to_operand_dims": (0,),
            "index_vector_dim": 1,
        }
        found = [
            case((7, 5), (9,), (9, 5), c, **rows) for c in ("assign", "add", "mul", "max", "min")
        ]
        found += [
            case((7, 5), (0,), (0, 5), **rows), case((0, 5), (3,), (3, 5), **rows), case((70, 5), (1000,), (1000, 5), **rows),
            case((7, 5), (9, 2), (9,), inserted_window_dims=(0, 1), scatter_dims_to_operand_dims=(0, 1), index_vector_dim=1),
            case((7, 5), (2,), (3, 2), update_window_dims=(0, 1), scatter_dims_to_operand_dims=(0, 1), index_vector_dim=0),
            case((2, 7, 3), (2, 4, 1), (2, 4, 3), update_window_dims=(2,), inserted_window_dims=(1,), input_batching_dims=(0,),
                 scatter_indices_batching_dims=(0,), scatter_dims_to_operand_dims=(1,), index_vector_dim=2),
        ]  # fmt: skip
        return found + [
            case((7, 5), (9,), (9, 5), "assign" if d is DType.BOOL else "add", d, **rows)
            for d in DType
        ]


@declare
class DynSlice(Elementwise):
    """The part of x of the given `sizes` that begins at `starts`, one scalar an axis, clamped so
    that it lies inside.
    """

    mnemonic = "dyn_slice"
    creates = frozenset()
    operands = ("x", "*starts")
    sizes: tuple[Dim, ...] = ()

    def infer(self, *types: Type) -> Type:
        x, *starts = types
        check_lengths(self.mnemonic, x.rank, sizes=self.sizes)
        check_starts(self.mnemonic, x, starts, 1)
        for axis, (size, limit) in enumerate(zip(self.sizes, x.shape, strict=True)):
            if not fits(size, limit) or (isinstance(size, int) and size < 0):
                raise ShapeError(
                    f"a slice of {size} along axis {axis} does not fit {x}", attribute="sizes"
                )
        return x.with_shape(self.sizes)

    def evaluate(self, *arrays: Array) -> Array:
        x, *starts = arrays
        first = [
            int(clamped(s, n - k))
            for s, n, k in zip(starts, x.shape, static(self.sizes), strict=True)
        ]
        return x[tuple(slice(f, f + k) for f, k in zip(first, static(self.sizes), strict=True))]

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        x, *starts = inputs
        limits = [n - k for n, k in zip(x.type.shape, self.sizes, strict=True)]
        first = [index_element(s.read(()), limit) for s, limit in zip(starts, limits, strict=True)]
        return x.read(tuple(build.add(f, i) for f, i in zip(first, at, strict=True)))

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        x, *starts = inputs
        return starts_out_of_range(starts, x.shape, self.sizes)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, Ints]] = [
            ((), ()),
            ((7,), (3,)),
            ((7,), (7,)),
            ((7,), (0,)),
            ((0,), (0,)),
            ((3, 5), (2, 2)),
            ((2, 3, 5), (1, 3, 2)),
            ((4999,), (4000,)),
        ]
        found = [
            Sample(
                (Type(DType.F32, s), *[Type(DType.I32)] * len(s)), {"sizes": k}, ("normal", "index")
            )
            for s, k in cases
        ]
        found += [
            Sample((Type(d, (9,)), Type(DType.I64)), {"sizes": (4,)}, ("normal", "index"))
            for d in DType
        ]
        return found + [
            Sample((Type(DType.F32, (9,)), Type(d)), {"sizes": (4,)}, ("normal", "special"))
            for d in DType
            if d.is_integer
        ]


def out_of_range(indices: Node, counts: Sequence[Dim], axis: int) -> Sequence[DeclaredFault]:
    """Starts of slices that would not lie inside, by how many starts there are for each position
    along an axis.
    """
    each = tuple(counts)
    return (OutOfRange(indices, each, None if axis == indices.type.rank else axis),)


def starts_out_of_range(
    starts: Sequence[Node], shape: Shape, sizes: Shape
) -> Sequence[DeclaredFault]:
    """The same for starts that are scalars, one an axis."""
    if 0 in sizes:
        return ()
    return [
        OutOfRange(start, (limit - size + 1,), what=f"start {{value}} along axis {axis}")
        for axis, (start, limit, size) in enumerate(zip(starts, shape, sizes, strict=True))
    ]


def check_starts(mnemonic: str, x: Type, starts: Sequence[Type], first: int) -> None:
    if len(starts) != x.rank:
        raise ShapeError(f"{mnemonic} needs {x.rank} starts for {x}, got {len(starts)}")
    for number, start in enumerate(starts, first):
        check_dtype(mnemonic, start, INTEGERS, number)
        check_scalar(mnemonic, start, number)


@declare
class DynUpdate(Elementwise):
    """x with the part that begins at `starts` replaced by `update`; the starts are clamped so that
    it fits.
    """

    mnemonic = "dyn_update"
    creates = frozenset()
    operands = ("x", "update", "*starts")

    def infer(self, *types: Type) -> Type:
        x, update, *starts = types
        check_starts(self.mnemonic, x, starts, 2)
        if update.dtype is not x.dtype or update.rank != x.rank:
            raise ShapeError(
                f"dyn_update needs an update of x's element type and rank, got {x} and {update}",
                operand=1,
            )
        for axis, (size, limit) in enumerate(zip(update.shape, x.shape, strict=True)):
            if not fits(size, limit):
                raise ShapeError(f"the update {update} exceeds {x} along axis {axis}", operand=1)
        return x

    def evaluate(self, *arrays: Array) -> Array:
        x, update, *starts = arrays
        first = [
            int(clamped(s, n - k)) for s, n, k in zip(starts, x.shape, update.shape, strict=True)
        ]
        result = np.array(x)
        result[tuple(slice(f, f + k) for f, k in zip(first, update.shape, strict=True))] = update
        return result

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        x, update, *starts = inputs
        shape, sizes = x.type.shape, update.type.shape
        if update.type.size == 0:
            return x.read(at)
        inside: Expr | None = None
        where = []
        for i, start, size, limit in zip(at, starts, sizes, shape, strict=True):
            if size == limit:
                where.append(i)
                continue
            position = build.sub(i, index_element(start.read(()), limit - size))
            inside = both(inside, build.apply(Primitive.LE, build.index(0), position))
            inside = both(inside, build.apply(Primitive.LT, position, build.lift(size)))
            where.append(clamp(position, size - 1))
        new = build.cast(
            update.read(tuple(where), inside if may_be_empty(update.type) else None),
            result.dtype.compute,
        )
        return (
            new
            if inside is None
            else build.select(inside, new, build.cast(x.read(at), result.dtype.compute))
        )

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        x, update, *starts = inputs
        return starts_out_of_range(starts, x.shape, update.shape)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, Ints]] = [
            ((), ()),
            ((7,), (3,)),
            ((7,), (7,)),
            ((7,), (0,)),
            ((0,), (0,)),
            ((3, 5), (2, 2)),
            ((3, 5), (1, 5)),
            ((2, 3, 5), (1, 3, 2)),
            ((4999,), (3,)),
        ]
        found = [
            Sample(
                (Type(DType.F32, s), Type(DType.F32, k), *[Type(DType.I32)] * len(s)),
                {},
                ("normal", "normal", "index"),
            )
            for s, k in cases
        ]
        return found + [
            Sample(
                (Type(d, (9,)), Type(d, (4,)), Type(DType.I64)), {}, ("normal", "normal", "index")
            )
            for d in DType
        ]
