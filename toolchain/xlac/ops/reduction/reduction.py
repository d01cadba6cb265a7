"""Operations that combine many elements into one: reductions, windows and running combinations."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from xlac.ir.dims import Dim, bounds, volume
from xlac.ir.faults import APPEARING, INFINITY
from xlac.ir.graph import Graph, Node, apply
from xlac.ir.leading import AXES, with_initial_scalars
from xlac.ir.op import Array, Op, Sample, ShapeError, declare
from xlac.ir.types import Type, Types
from xlac.ops import numeric
from xlac.ops.checks import check_axes, check_scalar, extent, several
from xlac.ops.control import bodies
from xlac.ops.numeric import COMBINE
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]


def check_combine(
    mnemonic: str, combine: str, x: Type, allowed: Sequence[str] = tuple(COMBINE)
) -> None:
    """A named combination, of an element type that it takes."""
    if combine not in allowed:
        raise ShapeError(
            f"{mnemonic} cannot combine by {combine!r}; there are {', '.join(allowed)}",
            attribute="combine",
        )
    if x.dtype is DType.BOOL and combine not in ("and", "or", "xor"):
        raise ShapeError(
            f"bool has no {combine}, got {x}",
            operand=0,
            hint="combine by and or or, or cast to i32 first",
        )
    if x.dtype.is_float and combine in ("and", "or", "xor"):
        raise ShapeError(f"{combine} takes integers or bool, got {x}", operand=0)


def check_reduced(
    mnemonic: str, combine: str, body: Graph | None, types: Sequence[Type]
) -> tuple[Type, ...]:
    """The operands that are reduced, of a node that has them, and with a body as many scalars to
    begin with.
    """
    if combine != "body":
        if len(types) != 1:
            raise ShapeError(f"{mnemonic} by {combine} takes one tensor, got {len(types)}")
        check_combine(mnemonic, combine, types[0], (*COMBINE, "body"))
        return (types[0],)
    if body is None or len(types) % 2 or not types:
        raise ShapeError(
            f"{mnemonic} by body takes a body, and as many initial values as tensors",
            attribute="body",
        )
    half = len(types) // 2
    xs, inits = types[:half], types[half:]
    for number, (x, init) in enumerate(zip(xs, inits, strict=True)):
        check_scalar(mnemonic, init, half + number)
        if x.shape != xs[0].shape or x.dtype is not init.dtype:
            raise ShapeError(
                f"{mnemonic} needs tensors of one shape and their types' initial values, got {x} "
                f"and {init}",
                operand=number,
            )
    scalars = [x.with_shape(()) for x in xs]
    bodies.check(mnemonic, body, [*scalars, *scalars], scalars)
    return tuple(xs)


def created(combine: str) -> frozenset[str]:
    """What combining may create: of nothing, the largest is an infinity."""
    return frozenset({INFINITY}) if combine in ("max", "min") else APPEARING


@declare
class Reduce(Op):
    """Combines all elements along `axes`, which the result lacks.

    Combining nothing gives the identity. Halves accumulate in f32 and are rounded once. With
    `combine: body` the body takes the values so far, then the new ones, and gives the new values;
    the order in which elements meet is not fixed, so it must be associative.
    """

    mnemonic = "reduce"
    operands = ("*xs",)
    leading = {"axes": AXES}
    axes: tuple[int, ...] = ()
    combine: str = "add"
    body: Graph | None = None

    def infer(self, *types: Type) -> Types:
        xs = check_reduced(self.mnemonic, self.combine, self.body, types)
        check_axes(self.axes, xs[0].rank)
        kept = tuple(size for axis, size in enumerate(xs[0].shape) if axis not in self.axes)
        return several([x.with_shape(kept) for x in xs])

    @property
    def creates(self) -> frozenset[str]:
        return created(self.combine)

    def linear(self) -> Sequence[Sequence[str]]:
        return (("xs",),) if self.combine == "add" else ()

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (ct,) = cotangents
        assert ct is not None
        return [apply("broadcast", ct, shape=node.inputs[0].shape, axes=self._kept(node))]

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None] | None:
        """Of a product: the change of each factor times all others. Of a maximum: the change of the
        largest element, the mean of them where several are equal; NaN where it is NaN.
        """
        (x, *_), (t, *_) = node.inputs, tangents
        if self.body is not None or self.combine not in ("mul", "max", "min"):
            return None
        assert t is not None
        if self.combine == "mul":
            order = (*self._kept(node), *self.axes)
            kept = tuple(x.shape[axis] for axis in self._kept(node))
            line = (*kept, volume(tuple(x.shape[axis] for axis in self.axes)))
            x, t = (apply("reshape", apply("transpose", n, perm=order), shape=line) for n in (x, t))
            others = [
                apply("cumulative", x, axis=len(kept), combine="mul", exclusive=True, reverse=r)
                for r in (False, True)
            ]
            change = apply("mul", t, apply("mul", *others))
            return [apply("reduce", change, axes=(len(kept),), combine="add")]
        best = apply("broadcast", node, shape=x.shape, axes=self._kept(node))
        wide = t.type.dtype.compute
        # a factor, and no selection: with NaN nothing is chosen, and a cotangent over 0 times 0
        # is NaN
        chosen = apply("cast", apply("compare", x, best, direction="eq"), dtype=wide)
        change = apply("mul", apply("cast", t, dtype=wide), chosen)
        count = apply("reduce", chosen, axes=self.axes, combine="add")
        total = apply("reduce", change, axes=self.axes, combine="add")
        return [apply("cast", apply("div", total, count), dtype=t.type.dtype)]

    def _kept(self, node: Node) -> Ints:
        return tuple(axis for axis in range(node.inputs[0].type.rank) if axis not in self.axes)

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node] | None:
        return None if self.body is None else with_initial_scalars(node, inputs, mapped, size)

    def evaluate(self, *arrays: Array) -> Array | tuple[Array, ...]:
        if self.body is None:
            return numeric.reduce(self.combine, arrays[0], self.axes)
        half = len(arrays) // 2
        xs = arrays[:half]
        kept = tuple(a for a in range(xs[0].ndim) if a not in self.axes)
        shape = tuple(xs[0].shape[a] for a in kept)
        count = prod(xs[0].shape[a] for a in self.axes)
        rows = [x.transpose(*self.axes, *kept).reshape(count, *shape) for x in xs]
        state = [
            np.broadcast_to(init, shape).astype(x.dtype)
            for x, init in zip(xs, arrays[half:], strict=True)
        ]
        for step in range(count):
            state = bodies.elementwise(self.body, [*state, *(row[step] for row in rows)])
        return state[0] if half == 1 else tuple(state)

    def bodies(self) -> Sequence[Any]:
        return () if self.body is None else (self.body,)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, Ints]] = [
            ((), ()), ((7,), (0,)), ((0,), (0,)), ((3, 0), (1,)), ((0, 3), (1,)), ((3, 5), (0,)),
            ((3, 5), (1,)), ((3, 5), ()), ((2, 3, 5), (0, 2)), ((2, 3, 5), (1,)),
            ((2, 3, 5, 7), (2, 3)), ((4999,), (0,)), ((71, 73), (0,)),
        ]  # fmt: skip
        samples = [Sample((Type(DType.F32, s),), {"axes": a, "combine": "add"}) for s, a in cases]
        for combine in ("mul", "max", "min"):
            samples.append(
                Sample((Type(DType.F32, (5, 17)),), {"axes": (1,), "combine": combine}, ("unit",))
            )
        for dtype in DType:
            combine = "and" if dtype is DType.BOOL else "max" if dtype.is_signed else "add"
            samples.append(Sample((Type(dtype, (3, 37)),), {"axes": (1,), "combine": combine}))
        for combine in ("and", "or", "xor"):
            samples.append(
                Sample((Type(DType.I32, (3, 5)),), {"axes": (0,), "combine": combine}, ("special",))
            )
        samples.append(
            Sample((Type(DType.F32, (5, 9)),), {"axes": (1,), "combine": "max"}, ("special",))
        )
        return [*samples, Sample((Type(DType.BOOL, (4, 0)),), {"axes": (1,), "combine": "and"})]


def moves(
    size: Dim,
    window: int,
    stride: int,
    low: Dim,
    high: Dim,
    base_dilation: int = 1,
    dilation: int = 1,
) -> Dim:
    """How many places a window takes along an axis: none when it does not fit."""
    for value, name in (
        (stride, "strides"),
        (base_dilation, "base_dilation"),
        (dilation, "window_dilation"),
    ):
        if value < 1:
            raise ShapeError(f"{name} must be at least 1, got {value}", attribute=name)
    if window < 0:
        raise ShapeError(f"a window of {window} elements", attribute="window")
    spread = size + extent(size - 1) * (base_dilation - 1) + low + high
    covered = (window - 1) * dilation + 1 if window else 0
    if bounds(spread - covered)[1] < 0 or spread == 0:
        return 0
    return (spread - covered) // stride + 1
