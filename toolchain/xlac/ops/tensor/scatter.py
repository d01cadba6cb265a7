"""Writing and combining at indices that are data (StableHLO's scatter)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlac.ir.dims import Dim
from xlac.ir.faults import DeclaredFault
from xlac.ir.graph import Graph, Node, zeros
from xlac.ir.leading import AXES, BATCH
from xlac.ir.op import Array, Op, Sample, ShapeError, declare
from xlac.ir.types import Type, Types
from xlac.ops import numeric
from xlac.ops.checks import check_axes, dims, fits, several
from xlac.ops.control import bodies
from xlac.ops.reduction.reduction import check_combine
from xlac.ops.tensor.index import Ints, batch_shape, check_pairs, out_of_range
from xlac.ops.tensor.scatter_changes import scattered_change, update_cotangents
from xlac_sdk.dtypes import DType


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
    leading = {
        "update_window_dims": AXES,
        "inserted_window_dims": AXES,
        "input_batching_dims": BATCH,
        "scatter_indices_batching_dims": BATCH,
        "scatter_dims_to_operand_dims": AXES,
        "index_vector_dim": AXES,
    }
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
                f"index vectors of {length} do not fit scatter_dims_to_operand_dims "
                f"{list(self.scatter_dims_to_operand_dims)}",
                operand=1,
            )
        window = self.window(x.rank)
        if x.dtype is not update.dtype or len(window) != len(self.update_window_dims):
            raise ShapeError(f"updates {update} do not fit {x}", operand=2)
        outer = tuple(
            update.shape[a] for a in range(update.rank) if a not in self.update_window_dims
        )
        if outer != batch:
            raise ShapeError(
                f"updates {update} have batch axes {dims(outer)}, indices {indices} have "
                f"{dims(batch)}",
                operand=2,
            )
        for axis, spot in zip(window, sorted(self.update_window_dims), strict=True):
            if not fits(update.shape[spot], x.shape[axis]):
                raise ShapeError(
                    f"axis {spot} of updates {update} exceeds axis {axis} of {x}", operand=2
                )

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x", "updates"),) if self.combine in ("add", "assign") else ()

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """Updates get what lies at their places; where several assigned to one, only the last."""
        (ct,) = cotangents
        assert ct is not None
        x, indices, updates = node.inputs
        back: list[Node | None] = [ct if linear[0] else None, None, None]
        if self.combine == "assign" and linear[0]:
            back[0] = Node.of(self, ct, indices, zeros(updates.type))
        if linear[2]:
            back[2] = update_cotangents(self, ct, x, indices, updates)
        return back

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None] | None:
        return None if self.body is not None else scattered_change(self, node, tangents)

    def window(self, rank: int) -> Ints:
        """The axes of x that a window of updates spans."""
        gone = {*self.inserted_window_dims, *self.input_batching_dims}
        return tuple(a for a in range(rank) if a not in gone)

    def window_sizes(self, x: Type, updates: Type) -> list[Dim]:
        """The size of a window of updates along each axis of x."""
        sizes: list[Dim] = [1] * x.rank
        for axis, spot in zip(self.window(x.rank), sorted(self.update_window_dims), strict=True):
            sizes[axis] = updates.shape[spot]
        return sizes

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
            self.window(len(shape)), sorted(self.update_window_dims), strict=True
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
        if 0 in update.shape:
            return ()
        sizes = self.window_sizes(x.type, update.type)
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
        samples = [
            case((7, 5), (9,), (9, 5), c, **rows) for c in ("assign", "add", "mul", "max", "min")
        ]
        samples += [
            case((7, 5), (0,), (0, 5), **rows),
            case((0, 5), (3,), (3, 5), **rows),
            case((70, 5), (1000,), (1000, 5), **rows),
            case(
                (7, 5),
                (9, 2),
                (9,),
                inserted_window_dims=(0, 1),
                scatter_dims_to_operand_dims=(0, 1),
                index_vector_dim=1,
            ),
            case(
                (7, 5),
                (2,),
                (3, 2),
                update_window_dims=(0, 1),
                scatter_dims_to_operand_dims=(0, 1),
                index_vector_dim=0,
            ),
            case(
                (2, 7, 3),
                (2, 4, 1),
                (2, 4, 3),
                update_window_dims=(2,),
                inserted_window_dims=(1,),
                input_batching_dims=(0,),
                scatter_indices_batching_dims=(0,),
                scatter_dims_to_operand_dims=(1,),
                index_vector_dim=2,
            ),
        ]
        return samples + [
            case((7, 5), (9,), (9, 5), "assign" if d is DType.BOOL else "add", d, **rows)
            for d in DType
        ]
