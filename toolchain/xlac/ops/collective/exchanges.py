"""Collectives that move values between the ranks of a group without computing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.graph import Node, apply
from xlac.ir.leading import AXES
from xlac.ir.op import Array, Sample, ShapeError, declare, normal_axis
from xlac.ir.types import Type
from xlac.ops.collective.group import ONE, Collective, leading_group, merged_group, selected
from xlac.ops.collective.sums import divided
from xlac_sdk.dtypes import DType

ABOUT = {"mesh": ONE, "axes": ("ranks",)}


@declare
class AllGather(Collective):
    """All ranks' x, one after the other along `axis`; every rank has the whole.

    With `shared` the result counts as one value that all ranks share, and the derivative of each x
    is its own part; else as one value a rank, and their derivatives are added.
    """

    mnemonic = "all_gather"
    kind = "all_gather"
    leading = {"axis": AXES}
    axis: int = 0
    shared: bool = False

    def infer(self, *types: Type) -> Type:
        (x,) = types
        self.check_operand(x)
        axis = normal_axis(self.axis, x.rank)
        return x.with_shape((*x.shape[:axis], x.shape[axis] * self.group, *x.shape[axis + 1 :]))

    def is_step(self, *types: Type) -> bool:
        return self.group > 1 and not self.axis

    def among(self, *xs: Array) -> Array:
        (x,) = xs
        axis = normal_axis(self.axis, x.ndim - 1)
        whole = np.concatenate(list(x), axis=axis)
        return np.broadcast_to(whole, (len(x), *whole.shape))

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        if self.group == 1:
            return x
        axis = normal_axis(self.axis, x.type.rank)
        if axis == 0 and self.axis == 0:
            raise self.alone()
        lines = apply("reshape", x, shape=(1, *x.shape))
        whole = apply("all_gather", lines, mesh=self.mesh, axes=self.axes, axis=0)
        return merged_group(whole, axis)

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x",),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        ct, x = selected(cotangents), node.inputs[0]
        if not self.shared:
            return [apply("reduce_scatter", ct, mesh=self.mesh, axes=self.axes, axis=self.axis)]
        return [own_part(ct, self, normal_axis(self.axis, x.type.rank))]

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample((Type(dtype, (3, 5)),), {**ABOUT, "axis": axis})
            for dtype in (DType.F32, DType.BF16, DType.I32, DType.BOOL)
            for axis in (0, 1, -1)
        ]


def own_part(x: Node, op: Collective, axis: int) -> Node:
    """The part along an axis that belongs to this rank of the group."""
    size = divided("a part", x.type, axis, op.group)[axis]
    number = apply("axis_index", mesh=op.mesh, axes=op.axes)
    start = apply("mul", number, apply("const", value=np.asarray(size, np.int32)))
    zero = apply("const", value=np.asarray(0, np.int32))
    starts = [start if a == axis else zero for a in range(x.type.rank)]
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    varied = apply("varying", x, mesh=op.mesh, axes=op.axes)
    return apply("dyn_slice", varied, *starts, sizes=shape)


@declare
class AllToAll(Collective):
    """Each rank's x in equal parts along `split`, one for each rank, which concatenates what it
    receives along `concat`.

    Rank r receives the r-th part of everyone; the parts are in the order of the senders.
    """

    mnemonic = "all_to_all"
    kind = "all_to_all"
    leading = {"split": AXES, "concat": AXES}
    split: int = 0
    concat: int = 0

    def infer(self, *types: Type) -> Type:
        (x,) = types
        self.check_operand(x)
        split, concat = (self.place(name, x.rank) for name in ("split", "concat"))
        shape = list(divided(self.mnemonic, x, split, self.group))
        shape[concat] = shape[concat] * self.group
        return x.with_shape(tuple(shape))

    def place(self, name: str, rank: int) -> int:
        """One of the two axes, counted from the start. Raises ShapeError."""
        try:
            return normal_axis(getattr(self, name), rank)
        except ShapeError as error:
            raise ShapeError(str(error), attribute=name) from None

    def is_step(self, *types: Type) -> bool:
        return self.group > 1 and not self.split and not self.concat

    def among(self, *xs: Array) -> Array:
        (x,) = xs
        split, concat = (self.place(name, x.ndim - 1) for name in ("split", "concat"))
        parts = [np.split(one, self.group, axis=split) for one in x]
        return np.stack([np.concatenate(got, axis=concat) for got in zip(*parts, strict=True)])

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        if self.group == 1:
            return x
        split, concat = (self.place(name, x.type.rank) for name in ("split", "concat"))
        if (self.split, self.concat) == (0, 0):
            raise self.alone()
        parts = leading_group(x, split, self.group)
        moved = apply("all_to_all", parts, mesh=self.mesh, axes=self.axes)
        return merged_group(moved, concat)

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x",),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        back = {"split": self.concat, "concat": self.split}
        return [apply("all_to_all", selected(cotangents), mesh=self.mesh, axes=self.axes, **back)]

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample((Type(dtype, (4, 6)),), {**ABOUT, "split": split, "concat": concat})
            for dtype in (DType.F32, DType.I8)
            for split, concat in ((0, 0), (0, 1), (1, 0), (-1, 0))
        ]


@declare
class CollectivePermute(Collective):
    """x of another rank, where `pairs` says of which.

    Each pair is a source and a target, numbers in the group. A rank that is no target has zeros.
    """

    mnemonic = "collective_permute"
    kind = "permute"
    leading = {}
    pairs: tuple[tuple[int, int], ...] = ()

    def infer(self, *types: Type) -> Type:
        (x,) = types
        self.check_operand(x)
        for side in (0, 1):
            numbers = [pair[side] for pair in self.pairs]
            if len(set(numbers)) != len(numbers) or any(
                not 0 <= number < self.group for number in numbers
            ):
                raise ShapeError(
                    f"pairs of {self.mnemonic} are distinct sources and targets below "
                    f"{self.group}, got {self.pairs}",
                    attribute="pairs",
                )
        return x

    def among(self, *xs: Array) -> Array:
        (x,) = xs
        moved = np.zeros_like(x)
        for source, target in self.pairs:
            moved[target] = x[source]
        return moved

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        if self.group > 1:
            raise self.alone()
        if self.pairs:
            return x
        zero = apply("const", value=np.zeros((), x.type.dtype.numpy))
        return apply("broadcast", zero, shape=x.shape, axes=()) if x.shape else zero

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x",),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        back = tuple((target, source) for source, target in self.pairs)
        ct = selected(cotangents)
        return [apply("collective_permute", ct, mesh=self.mesh, axes=self.axes, pairs=back)]

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample((Type(dtype, shape),), {**ABOUT, "pairs": pairs})
            for dtype in (DType.F32, DType.U8)
            for shape, pairs in (((3, 5), ((0, 0),)), ((7,), ()), ((), ((0, 0),)))
        ]


@declare
class CollectiveBroadcast(Collective):
    """x of the rank with the number `root` in its group, on every rank."""

    mnemonic = "collective_broadcast"
    kind = "broadcast"
    leading = {}
    root: int = 0

    def infer(self, *types: Type) -> Type:
        (x,) = types
        self.check_operand(x)
        if not 0 <= self.root < self.group:
            raise ShapeError(
                f"the root of {self.mnemonic} is a number below {self.group}, got {self.root}",
                attribute="root",
            )
        return x

    def among(self, *xs: Array) -> Array:
        (x,) = xs
        return np.broadcast_to(x[self.root], x.shape)

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        if self.group > 1:
            raise self.alone()
        return x

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x",),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        ct = apply("varying", selected(cotangents), mesh=self.mesh, axes=self.axes)
        number = apply("axis_index", mesh=self.mesh, axes=self.axes)
        root = apply("const", value=np.asarray(self.root, np.int32))
        zero = apply("const", value=np.zeros((), ct.type.dtype.numpy))
        here = apply("compare", number, root, direction="eq")
        if ct.shape:
            here, zero = (apply("broadcast", n, shape=ct.shape, axes=()) for n in (here, zero))
        return [apply("select", here, ct, zero)]

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [Sample((Type(d, (3, 5)),), ABOUT) for d in (DType.F32, DType.F16, DType.I64)]
