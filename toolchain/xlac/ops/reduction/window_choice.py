"""Elements that windows choose: what the derivatives of pooling by the largest are made of.

Both operations are linear in their second operand, and each is the other's transpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.graph import Node, apply, zeros
from xlac.ir.op import Sample, ShapeError, declare, family
from xlac.ir.types import Type
from xlac.ops.checks import FLOATS, check_dtype, dims
from xlac.ops.reduction.window import MOST_PLACES, Window
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]


class WindowChoice(Composite):
    """A window moves over x (as for `window`) and chooses the largest element that it sees, or the
    smallest, NaN before all: the first of equal ones, in row-major order. Padding is never chosen.
    """

    leading = {"window": 1, "strides": 1, "low": 0, "high": 0, "window_dilation": 1}
    combine: str
    window: Ints
    strides: Ints
    low: Ints
    high: Ints
    window_dilation: Ints

    @property
    def moving(self) -> Window:
        """The window that combines instead of choosing."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return Window(**given, base_dilation=(1,) * len(self.window))

    def choices(self, x: Type) -> Type:
        """What `window` gives of x. Raises ShapeError."""
        check_dtype(self.mnemonic, x, FLOATS)
        if self.combine not in ("max", "min"):
            raise ShapeError(
                f"{self.mnemonic}: combine is max or min, got {self.combine!r}", attribute="combine"
            )
        chosen_type = self.moving.infer(x)
        if prod(self.window) > MOST_PLACES:
            problem = (
                f"a window of {prod(self.window):,} places, and at most {MOST_PLACES:,} are "
                "chosen from"
            )
            raise ShapeError(f"{self.mnemonic}: {problem}", attribute="window")
        assert isinstance(chosen_type, Type)
        return chosen_type

    def checked(self, x: Type, given: Type, wanted: Type, result: Type) -> Type:
        """The result's type, of the second operand's dtype. Raises ShapeError."""
        check_dtype(self.mnemonic, given, FLOATS, 1)
        if given.shape != wanted.shape:
            raise ShapeError(
                f"{self.mnemonic}: x is {x}, so it takes a shape of {dims(wanted.shape)}, got "
                f"{given}",
                operand=1,
            )
        return Type(given.dtype, result.shape)

    def taken(self, x: Node) -> list[Node]:
        """For each place of the window, in row-major order: whether it is what is chosen."""
        op = self.moving
        node = Node.of(op, x)
        least = op.identity(x)
        true, false = (apply("const", value=np.full((), truth)) for truth in (True, False))
        hangs = any(n != 0 and n > 0 for n in (*self.low, *self.high))
        inside = apply("broadcast", true, shape=x.shape, axes=())
        left = apply("broadcast", true, shape=node.shape, axes=())
        choices = []
        for place in self.places():
            value = op.tap(x, least, place, node.shape)
            same = apply("compare", value, node, direction="eq")
            nan = apply("compare", value, value, direction="ne")
            chosen = apply("and", left, apply("or", same, nan))
            if hangs:
                chosen = apply("and", chosen, op.tap(inside, false, place, node.shape))
            left = apply("and", left, apply("not", chosen))
            choices.append(chosen)
        return choices

    def places(self) -> list[Ints]:
        """The window's places, in row-major order."""
        return list(product(*map(range, self.window)))

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None] | None:
        """Which element is chosen changes by jumps only: x contributes nothing."""
        change = tangents[1]
        return [None if change is None else Node.of(self, node.inputs[0], change)]

    def linear(self) -> Sequence[Sequence[str]]:
        return ((self.operands[1],),)

    @classmethod
    def geometries(cls) -> list[tuple[Ints, dict[str, Any]]]:
        """Shapes of x, with attributes."""
        image: dict[str, Any] = {
            "window": (1, 1, 3, 3), "strides": (1, 1, 2, 2), "low": (0, 0, 1, 1),
            "high": (0, 0, 1, 1),
        }  # fmt: skip
        last = {name: tuple(value[a] for a in (0, 2, 3, 1)) for name, value in image.items()}
        given: list[tuple[Ints, dict[str, Any]]] = [
            ((7,), {"window": (3,)}), ((7,), {"window": (3,), "low": (1,), "high": (1,),
                                              "combine": "min"}),
            ((9,), {"window": (2,), "strides": (3,), "window_dilation": (2,)}),
            ((0,), {"window": (3,), "low": (3,)}), ((2, 3, 9, 21), image), ((2, 8, 7, 5), last),
            ((1, 2, 8, 24), {"window": (1, 1, 2, 2), "strides": (1, 1, 2, 2)}),
            ((2, 6, 5, 7), {"window": (1, 2, 3, 2), "strides": (1, 1, 2, 3), "high": (0, 1, 0, 0)}),
        ]  # fmt: skip
        return given

    @classmethod
    def cases(cls) -> list[tuple[Type, Type, dict[str, Any], tuple[str, str]]]:
        """Types of x and of what windows choose of it, attributes, and how both are drawn."""
        listed = []
        drawn = [(F32, g, ("normal", "normal")) for g in cls.geometries()]
        drawn += [(F32, g, ("special", "normal")) for g in cls.geometries()[4:6]]
        for dtype in sorted(FLOATS, key=lambda d: d.value):
            drawn.append((dtype, cls.geometries()[5], ("small", "normal")))
        for dtype, (shape, given), how in drawn:
            rank = len(shape)
            whole = {
                "combine": "max",
                "strides": (1,) * rank,
                "low": (0,) * rank,
                "high": (0,) * rank,
                "window_dilation": (1,) * rank,
            } | given
            x = Type(dtype, shape)
            listed.append((x, SelectAndGather(**whole).choices(x), whole, how))
        return listed


F32 = DType.F32


@family
class _Geometry(WindowChoice):
    """The attributes."""

    combine: str = "max"
    window: Ints = ()
    strides: Ints = ()
    low: Ints = ()
    high: Ints = ()
    window_dilation: Ints = ()


@declare
class SelectAndGather(_Geometry):
    """The elements of t at the places that windows over x choose.

    The window moves over x as that of `window` does, and chooses the largest element that it sees
    (or the smallest): the first of equal ones in row-major order, the first NaN before all. Where
    it sees padding alone the result is 0.
    """

    mnemonic = "select_and_gather"
    operands = ("x", "t")

    def infer(self, *types: Type) -> Type:
        x, t = types
        return self.checked(x, t, x, self.choices(x))

    def expand(self, *inputs: Node) -> Node:
        x, t = inputs
        node = Node.of(self, x, t)
        total, nothing = zeros(node.type), zeros(Type(t.type.dtype, ()))
        for place, chosen in zip(self.places(), self.taken(x), strict=True):
            change = self.moving.tap(t, nothing, place, node.shape)
            total = apply("add", total, apply("select", chosen, change, zeros(node.type)))
        return total

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None] | None:
        (ct,) = cotangents
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return [None, ct and Node.of(SelectAndScatter(**given), node.inputs[0], ct)]

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample((x, replace(x, dtype=t.dtype)), given, how) for x, t, given, how in cls.cases()
        ]


@declare
class SelectAndScatter(_Geometry):
    """Each element of ct is sent to the element of x that its window chooses, where all are summed.

    The transpose of `select_and_gather`, which says what is chosen.
    """

    mnemonic = "select_and_scatter"
    operands = ("x", "ct")

    def infer(self, *types: Type) -> Type:
        x, ct = types
        return self.checked(x, ct, self.choices(x), x)

    def expand(self, *inputs: Node) -> Node:
        x, ct = inputs
        total = zeros(Type(ct.type.dtype, x.shape))
        for place, chosen in zip(self.places(), self.taken(x), strict=True):
            part = apply("select", chosen, ct, zeros(ct.type))
            for view in self._views(total, place, ct):
                back = view.op.transposed(view, (True, False), [part])
                assert back is not None and back[0] is not None
                part = back[0]
            total = apply("add", total, part)
        return total

    def _views(self, x: Node, place: Ints, ct: Node) -> tuple[Node, Node]:
        """The slice of padded x that one place of the window sees, and that padded x."""
        cut = self.moving.tap(x, zeros(Type(x.type.dtype, ())), place, ct.shape)
        return cut, cut.inputs[0]

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None] | None:
        (ct,) = cotangents
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return [None, ct and Node.of(SelectAndGather(**given), node.inputs[0], ct)]

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [Sample((x, t), given, how) for x, t, given, how in cls.cases()]
