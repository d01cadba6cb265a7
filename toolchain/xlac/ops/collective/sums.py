"""Collectives that combine the values of all ranks of a group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.dims import Dim
from xlac.ir.graph import Node, apply
from xlac.ir.leading import AXES
from xlac.ir.op import Array, Sample, ShapeError, declare, normal_axis
from xlac.ir.types import Type
from xlac.ops import numeric
from xlac.ops.checks import NUMBERS
from xlac.ops.collective.group import ONE, Collective, leading_group, selected
from xlac.ops.sampling import dtypes_and_shapes
from xlac_sdk.dtypes import DType

COMBINATIONS = ("add", "mul", "max", "min")


def check_combination(mnemonic: str, combine: str, x: Type) -> None:
    """Raises ShapeError for a combination that no library of messages has, or not of this type."""
    if combine not in COMBINATIONS:
        raise ShapeError(
            f"{mnemonic} cannot combine by {combine!r}; there are {', '.join(COMBINATIONS)}",
            attribute="combine",
        )
    if x.dtype not in NUMBERS:
        raise ShapeError(f"{mnemonic} takes numbers, got {x}", operand=0, hint="cast to i32 first")


def combined(combine: str, x: Array) -> Array:
    """The combination over the leading axis, halves accumulated in f32."""
    return numeric.reduce(combine, x, (0,))


def in_single(x: Node, op: Collective) -> Node:
    """The operation on halves as f32, rounded once."""
    wide = Node.of(op, apply("cast", x, dtype=DType.F32), origin=x.origin)
    return apply("cast", wide, dtype=x.type.dtype)


@declare
class AllReduce(Collective):
    """The element-wise combination of all ranks' x: sum, product, largest or least.

    Every rank has the same result. Halves are combined in f32 and rounded once. x is one value a
    rank (`varying` makes one of a value that all share), or else its sum counts it once for each.
    """

    mnemonic = "all_reduce"
    kind = "all_reduce"
    leading = {}
    combine: str = "add"

    def infer(self, *types: Type) -> Type:
        (x,) = types
        self.check_operand(x)
        check_combination(self.mnemonic, self.combine, x)
        return x

    def is_step(self, *types: Type) -> bool:
        return self.group > 1 and not types[0].dtype.is_half

    def among(self, *xs: Array) -> Array:
        (x,) = xs
        total = combined(self.combine, x)
        return np.broadcast_to(total, x.shape)

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        if self.group == 1:
            return x
        if x.type.dtype.is_half:
            return in_single(x, self)
        lines = apply("reshape", x, shape=(1, *x.shape))
        whole = apply("all_gather", lines, mesh=self.mesh, axes=self.axes, axis=0)
        return apply("reduce", whole, axes=(0,), combine=self.combine)

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x",),) if self.combine == "add" else ()

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        return [apply("varying", selected(cotangents), mesh=self.mesh, axes=self.axes)]

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None] | None:
        """Of an extreme: the mean tangent of the elements that equal it, as for `reduce`."""
        (t,) = tangents
        if t is None or self.combine not in ("max", "min"):
            return None
        (x,) = node.inputs
        spread = apply("varying", node, mesh=self.mesh, axes=self.axes)
        same = apply("cast", apply("compare", x, spread, direction="eq"), dtype=x.type.dtype)

        def total(value: Node) -> Node:
            return apply("all_reduce", value, mesh=self.mesh, axes=self.axes)

        return [apply("div", total(apply("mul", t, same)), total(same))]

    def differentiated(self, node: Node) -> Sequence[Node] | None:
        """A product is that of the gathered values, which `reduce` differentiates."""
        if self.combine != "mul":
            return None
        (x,) = node.inputs
        lines = apply("reshape", x, shape=(1, *x.shape))
        whole = apply("all_gather", lines, mesh=self.mesh, axes=self.axes, axis=0, shared=True)
        return [apply("reduce", whole, axes=(0,), combine="mul")]

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        drawn = dtypes_and_shapes(1, NUMBERS)
        return [
            Sample(s.inputs, {"mesh": ONE, "axes": ("ranks",), "combine": combine}, s.draw)
            for s, combine in zip(drawn, COMBINATIONS * len(drawn), strict=False)
            if s.inputs[0].dtype in NUMBERS
        ]


@declare
class ReduceScatter(Collective):
    """The sum of all ranks' x, of which each rank has one part along `axis`, in the order of the
    ranks.

    Halves are added in f32 and rounded once.
    """

    mnemonic = "reduce_scatter"
    kind = "reduce_scatter"
    leading = {"axis": AXES}
    axis: int = 0

    def infer(self, *types: Type) -> Type:
        (x,) = types
        self.check_operand(x)
        check_combination(self.mnemonic, "add", x)
        axis = normal_axis(self.axis, x.rank)
        return x.with_shape(divided(self.mnemonic, x, axis, self.group))

    def is_step(self, *types: Type) -> bool:
        return self.group > 1 and not types[0].dtype.is_half and not self.axis

    def among(self, *xs: Array) -> Array:
        (x,) = xs
        axis = normal_axis(self.axis, x.ndim - 1)
        return np.stack(np.split(combined("add", x), self.group, axis=axis))

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        if self.group == 1:
            return x
        if x.type.dtype.is_half:
            return in_single(x, self)
        axis = normal_axis(self.axis, x.type.rank)
        if axis == 0 and self.axis == 0:
            parts = apply("all_to_all", x, mesh=self.mesh, axes=self.axes)
            return apply("reduce", leading_group(parts, 0, self.group), axes=(0,), combine="add")
        parts = leading_group(x, axis, self.group)
        own = apply("reduce_scatter", parts, mesh=self.mesh, axes=self.axes, axis=0)
        return apply("reshape", own, shape=own.shape[1:])

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x",),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        ct = selected(cotangents)
        return [apply("all_gather", ct, mesh=self.mesh, axes=self.axes, axis=self.axis)]

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        about = {"mesh": ONE, "axes": ("ranks",)}
        return [
            Sample((Type(dtype, (4, 6)),), {**about, "axis": axis})
            for dtype in (DType.F32, DType.F16, DType.I64)
            for axis in (0, 1, -1)
        ]


def divided(mnemonic: str, x: Type, axis: int, count: int) -> tuple[Dim, ...]:
    """The shape of one of `count` equal parts along an axis. Raises ShapeError where it has no
    such parts.
    """
    size = x.shape[axis]
    if not isinstance(size, int) and count > 1:
        raise ShapeError(f"{mnemonic} needs a fixed size along axis {axis}, got {x}", operand=0)
    if isinstance(size, int) and size % count:
        raise ShapeError(
            f"{mnemonic} cuts axis {axis} of {x} into {count} equal parts, which {size} has not",
            operand=0,
        )
    part = size // count if isinstance(size, int) else size
    return (*x.shape[:axis], part, *x.shape[axis + 1 :])
