"""Views that are larger than what they are of: padding and concatenation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.dims import Dim, bounds, static, volume
from xlac.ir.graph import Node, apply, zeros
from xlac.ir.leading import AXES, widened, with_axis
from xlac.ir.op import Array, Elementwise, Index, Operand, Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops.checks import check_axes, check_lengths, check_scalar, extent
from xlac.ops.tensor.in_range import both, clamp, exceeds, may_be_empty
from xlac.ops.tensor.view import Ints
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive


@declare
class Pad(Elementwise):
    """Puts `low[a]` copies of a scalar before each axis, `high[a]` after it and `interior[a]`
    between neighbours.

    A negative low or high removes elements instead, after the interior padding.
    """

    mnemonic = "pad"
    creates = frozenset()
    operands = ("x", "value")
    leading = {"low": 0, "high": 0, "interior": 0}
    low: tuple[Dim, ...] = ()
    high: tuple[Dim, ...] = ()
    interior: tuple[int, ...] = ()

    def infer(self, *types: Type) -> Type:
        x, value = types
        check_scalar(self.mnemonic, value, 1)
        if value.dtype is not x.dtype:
            raise ShapeError(f"cannot pad {x} with a value of {value.dtype}", operand=1)
        check_lengths(self.mnemonic, x.rank, low=self.low, high=self.high, interior=self.interior)
        extents = []
        for axis, (size, low, high, between) in enumerate(
            zip(x.shape, self.low, self.high, self.interior, strict=True)
        ):
            if between < 0:
                raise ShapeError(
                    f"the interior padding of axis {axis} is negative", attribute="interior"
                )
            inner = size + extent(size - 1) * between
            if bounds(inner + low + high)[1] < 0:
                raise ShapeError(
                    f"padding {low} and {high} crops more than axis {axis} of {x} holds",
                    attribute="low",
                )
            extents.append(inner + low + high)
        return x.with_shape(tuple(extents))

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x", "value"),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (ct,) = cotangents
        assert ct is not None
        x, value = node.inputs
        back: list[Node | None] = [None, None]
        if linear[0]:
            cropped = apply(
                "pad",
                ct,
                zeros(value.type),
                low=tuple(-n for n in self.low),
                high=tuple(-n for n in self.high),
                interior=(0,) * x.type.rank,
            )
            steps = tuple(n + 1 for n in self.interior)
            if any(self.interior):
                cropped = apply(
                    "slice", cropped, starts=(0,) * x.type.rank, stops=cropped.shape, steps=steps
                )
            back[0] = cropped
        if linear[1]:
            inside = Node.of(
                self,
                zeros(x.type.with_dtype(DType.BOOL)),
                apply("const", value=np.ones((), np.bool_)),
            )
            border = apply("select", inside, ct, zeros(ct.type))
            back[1] = apply("reduce", border, axes=tuple(range(x.type.rank)), combine="add")
        return back

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node] | None:
        """A value for each: it is written over the padding where it shows."""
        x, value = inputs
        if not mapped[1]:
            return [Node.of(widened(self, size), x, value)]
        filler = zeros(value.type.with_shape(()))
        nothing = zeros(node.inputs[0].type.with_dtype(DType.BOOL))
        border = Node.of(self, nothing, apply("const", value=np.ones((), np.bool_)))
        wide = (size, *node.shape)
        inside = (
            Node.of(widened(self, size), x, filler)
            if mapped[0]
            else with_axis(Node.of(self, x, filler), size)
        )
        around = apply("broadcast", value, shape=wide, axes=(0,))
        return [apply("select", with_axis(border, size), around, inside)]

    def evaluate(self, *arrays: Array) -> Array:
        x, value = arrays
        inner = tuple(n + max(0, n - 1) * k for n, k in zip(x.shape, self.interior, strict=True))
        spread = np.full(inner, value, x.dtype)
        spread[tuple(slice(None, None, k + 1) for k in self.interior)] = x
        low, high = static(self.low), static(self.high)
        crop = tuple(
            slice(max(0, -a), n - max(0, -b)) for n, a, b in zip(inner, low, high, strict=True)
        )
        kept = spread[crop]
        shape = tuple(n + a + b for n, a, b in zip(inner, low, high, strict=True))
        result = np.full(shape, value, x.dtype)
        if all(size > 0 for size in kept.shape):
            result[
                tuple(slice(max(0, a), max(0, a) + n) for a, n in zip(low, kept.shape, strict=True))
            ] = kept
        return result

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        x, value = inputs
        filler = build.cast(value.read(()), result.dtype.compute)
        if volume(x.type.shape) == 0:
            return filler
        inside: Expr | None = None
        where = []
        for i, size, before, between in zip(at, x.type.shape, self.low, self.interior, strict=True):
            position = build.sub(i, before)
            least, most = build.bounds(position)
            last = (size - 1) * (between + 1)
            if least is None or least < 0:
                inside = both(inside, build.apply(Primitive.LE, build.index(0), position))
                position = build.apply(Primitive.MAX, position, build.index(0))
            if exceeds(position, most, last):
                inside = both(inside, build.apply(Primitive.LE, position, build.lift(last)))
                position = build.apply(Primitive.MIN, position, build.lift(last))
            if between:
                inside = both(
                    inside,
                    build.apply(Primitive.EQ, build.mod(position, between + 1), build.index(0)),
                )
                position = build.div(position, between + 1)
            where.append(position)
        element = build.cast(
            x.read(tuple(where), inside if may_be_empty(x.type) else None), result.dtype.compute
        )
        return element if inside is None else build.select(inside, element, filler)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, Ints, Ints, Ints]] = [
            ((), (), (), ()), ((5,), (2,), (3,), (0,)), ((5,), (0,), (0,), (2,)),
            ((5,), (-1,), (-2,), (0,)), ((5,), (-1,), (4,), (1,)), ((0,), (2,), (1,), (0,)),
            ((0, 3), (0, 1), (0, 1), (0, 0)), ((3, 5), (1, 0), (0, 2), (0, 1)),
            ((2, 3, 5), (0, 1, 2), (0, 1, 2), (0, 0, 0)),
            ((1, 2, 5, 5), (0, 0, 1, 1), (0, 0, 1, 1), (0,) * 4), ((4990,), (4,), (5,), (0,)),
            ((5,), (-4,), (-1,), (0,)),
        ]  # fmt: skip
        samples = [
            Sample((Type(DType.F32, x), Type(DType.F32)), {"low": a, "high": b, "interior": c})
            for x, a, b, c in cases
        ]
        shape = {"low": (1, 0), "high": (0, 2), "interior": (0, 0)}
        return samples + [Sample((Type(d, (3, 5)), Type(d)), shape) for d in DType]


@declare
class Concat(Elementwise):
    """Tensors one after another along `axis`."""

    mnemonic = "concat"
    creates = frozenset()
    operands = ("*xs",)
    leading = {"axis": AXES}
    axis: int = 0

    def infer(self, *types: Type) -> Type:
        if not types:
            raise ShapeError("concat needs at least one operand")
        first = types[0]
        check_axes((self.axis,), first.rank, "axis")
        total: Dim = 0
        for number, x in enumerate(types):
            if x.dtype is not first.dtype:
                raise ShapeError(
                    f"concat needs one element type, got {first} and {x}", operand=number
                )
            same = [a for a in range(first.rank) if a != self.axis]
            if x.rank != first.rank or any(x.shape[a] != first.shape[a] for a in same):
                raise ShapeError(
                    f"concat along axis {self.axis} needs all other extents equal, got {first} and "
                    f"{x}",
                    operand=number,
                )
            total = total + x.shape[self.axis]
        return first.with_shape((*first.shape[: self.axis], total, *first.shape[self.axis + 1 :]))

    def linear(self) -> Sequence[Sequence[str]]:
        return (("xs",),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (ct,) = cotangents
        assert ct is not None
        back: list[Node | None] = []
        start: Dim = 0
        for x, wanted in zip(node.inputs, linear, strict=True):
            stop = start + x.shape[self.axis]
            starts = tuple(start if a == self.axis else 0 for a in range(x.type.rank))
            stops = tuple(stop if a == self.axis else size for a, size in enumerate(x.shape))
            part = {"starts": starts, "stops": stops, "steps": (1,) * x.type.rank}
            back.append(apply("slice", ct, **part) if wanted else None)
            start = stop
        return back

    def evaluate(self, *arrays: Array) -> Array:
        return np.concatenate(arrays, axis=self.axis)

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        position = at[self.axis]
        least, most = build.bounds(position)
        start: Dim = 0
        pieces = []  # (first index, value)
        for x in inputs:
            size = x.type.shape[self.axis]
            if size == 0:
                continue
            if isinstance(size, int) and isinstance(start, int):
                before = least is not None and start + size <= least
                if before or (most is not None and start > most):  # no index lies in it
                    start = start + size
                    continue
            local = clamp(build.sub(position, start), size - 1)
            here: Expr | None = None
            if may_be_empty(x.type):
                here = build.apply(Primitive.LE, build.lift(start), position)
                here = both(here, build.apply(Primitive.LT, position, build.lift(start + size)))
            read = x.read((*at[: self.axis], local, *at[self.axis + 1 :]), here)
            pieces.append((start, build.cast(read, result.dtype.compute)))
            start = start + size
        if not pieces:
            return Const(0.0 if result.dtype.is_float else 0, result.dtype.compute)
        value = pieces[0][1]
        for start, later in pieces[1:]:
            value = build.select(
                build.apply(Primitive.LT, position, build.lift(start)), value, later
            )
        return value

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[tuple[Ints, ...], int]] = [
            (((5,),), 0), (((2,), (3,)), 0), (((0,), (3,), (0,)), 0), (((0,), (0,)), 0),
            (((3, 2), (3, 5)), 1), (((1, 5), (4, 5), (2, 5)), 0), (((2, 3, 5), (2, 1, 5)), 1),
            (((2, 1, 3, 5),) * 3, 3), (((1, 4990), (1, 9)), 1),
        ]  # fmt: skip
        samples = [
            Sample(tuple(Type(DType.F32, s) for s in shapes), {"axis": axis})
            for shapes, axis in cases
        ]
        return samples + [Sample((Type(d, (3, 5)), Type(d, (3, 2))), {"axis": 1}) for d in DType]
