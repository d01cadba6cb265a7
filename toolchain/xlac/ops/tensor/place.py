"""Putting elements at places that indices give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from xlac.ir.composite import Composite
from xlac.ir.faults import DeclaredFault
from xlac.ir.graph import Node
from xlac.ir.op import Sample, ShapeError, declare, normal_axis
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import ANY, INTEGERS, NUMBERS, check_dtype
from xlac.ops.tensor.choose import GatherNd, check_along, from_either_end, wrapped
from xlac.ops.tensor.scatter import Scatter
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]
F = DType.F32


Combine = Literal["assign", "add", "mul", "max", "min"]


@declare
class ScatterElements(Composite):
    """x with each element of `updates` combined into the place that `indices` gives along `axis`.

    Indices and updates have one shape, x's or smaller; negative indices count from the end, and
    those out of range are dropped.
    """

    mnemonic = "scatter_elements"
    operands = ("x", "indices", "updates")
    axis: int = 0
    combine: Combine = "assign"

    def infer(self, *types: Type) -> Type:
        x, indices, updates = types
        check_dtype(self.mnemonic, indices, INTEGERS, 1)
        check_dtype(self.mnemonic, x, NUMBERS if self.combine != "assign" else ANY)
        check_along(self.mnemonic, x, indices, normal_axis(self.axis, x.rank), exact=False)
        if updates.dtype is not x.dtype or updates.shape != indices.shape:
            raise ShapeError(f"updates {updates} do not fit indices {indices} and {x}", operand=2)
        return x

    def expand(self, *inputs: Node) -> Node:
        x, indices, updates = inputs
        axis = normal_axis(self.axis, x.type.rank)
        places = build.cast(wrapped(indices, x.shape[axis]), DType.I64)
        parts = [places if a == axis else build.iota(indices.shape, a) for a in range(x.type.rank)]
        vectors = build.concat([build.reshape(p, (*p.shape, 1)) for p in parts], x.type.rank)
        axes = tuple(range(x.type.rank))
        op = Scatter((), axes, (), (), axes, x.type.rank, self.combine)
        return Node.of(op, x, vectors, updates)

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        x, indices, _ = inputs
        return from_either_end(indices, x.shape[normal_axis(self.axis, x.type.rank)])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, Ints, int]] = [
            ((7,), (3,), 0),
            ((3, 7), (3, 2), 1),
            ((7, 3), (9, 3), 0),
            ((3, 7), (2, 5), 1),
            ((3, 7), (0, 2), 0),
        ]
        samples = [
            Sample(
                (Type(F, s), Type(DType.I64, i), Type(F, i)),
                {"axis": a, "combine": "add"},
                ("small", "index", "small"),
            )
            for s, i, a in cases
        ]
        samples += [
            Sample(
                (Type(F, (7,)), Type(DType.I32, (9,)), Type(F, (9,))),
                {"combine": c},
                ("small", "index", "small"),
            )
            for c in ("assign", "mul", "max", "min")
        ]
        return samples + [
            Sample(
                (Type(d, (7,)), Type(DType.I32, (5,)), Type(d, (5,))),
                {},
                ("normal", "index", "normal"),
            )
            for d in DType
        ]


@declare
class ScatterAdd(Composite):
    """x with each element of `updates` added at the place that `indices` gives along `axis`."""

    mnemonic = "scatter_add"
    operands = ("x", "indices", "updates")
    axis: int = 0

    def infer(self, *types: Type) -> Type:
        return ScatterElements(self.axis, "add").infer(*types)

    def expand(self, *inputs: Node) -> Node:
        return ScatterElements(self.axis, "add").expand(*inputs)

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        return ScatterElements(self.axis, "add").faults(*inputs)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample(
                (Type(d, (7, 3)), Type(DType.I64, (9, 3)), Type(d, (9, 3))),
                {},
                ("small", "index", "small"),
            )
            for d in DType
            if d in NUMBERS
        ]


@declare
class ScatterNd(Composite):
    """x with slices of `updates` combined in where vectors along the last axis of `indices` say, in
    the first axes of x.
    """

    mnemonic = "scatter_nd"
    operands = ("x", "indices", "updates")
    combine: Combine = "assign"

    def infer(self, *types: Type) -> Type:
        x, indices, updates = types
        if updates != GatherNd().infer(x, indices):
            raise ShapeError(
                f"updates for {x} at {indices} are {GatherNd().infer(x, indices)}, got {updates}",
                operand=2,
            )
        check_dtype(self.mnemonic, x, NUMBERS if self.combine != "assign" else ANY)
        return x

    def expand(self, *inputs: Node) -> Node:
        x, indices, updates = inputs
        depth = indices.shape[-1]
        assert isinstance(depth, int)
        batch, axes = indices.type.rank - 1, tuple(range(depth))
        op = Scatter(
            tuple(range(batch, updates.type.rank)), axes, (), (), axes, batch, self.combine
        )
        return Node.of(op, x, indices, updates)

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        x, indices, _ = inputs
        return GatherNd().faults(x, indices)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, Ints, Ints]] = [
            ((7, 5), (3, 2), (3,)),
            ((7, 5), (3, 1), (3, 5)),
            ((7, 5, 2), (2, 3, 2), (2, 3, 2)),
            ((7,), (0, 1), (0,)),
        ]
        samples = [
            Sample(
                (Type(F, s), Type(DType.I64, i), Type(F, u)),
                {"combine": c},
                ("small", "small", "small"),
            )
            for s, i, u in cases
            for c in ("assign", "add")
        ]
        return samples + [
            Sample(
                (Type(d, (7,)), Type(DType.I32, (5, 1)), Type(d, (5,))),
                {},
                ("normal", "index", "normal"),
            )
            for d in DType
        ]
