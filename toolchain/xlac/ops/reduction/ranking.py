"""Order of elements, and running combinations of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.faults import INFINITY
from xlac.ir.graph import Node
from xlac.ir.leading import AXES
from xlac.ir.op import Array, Sample, ShapeError, declare, family, normal_axis
from xlac.ir.types import Type, Types
from xlac.ops import build, numeric
from xlac.ops.checks import NUMBERS, check_dtype, fits
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]
F = DType.F32


@declare
class Topk(Composite):
    """The `k` largest elements along `axis` in descending order, and their positions (i64);
    (values, indices).

    NaN counts as the largest. Of equals, the first comes first. `largest: false` gives the
    smallest, ascending.
    """

    mnemonic = "topk"
    creates = frozenset()
    leading = {"axis": AXES}
    k: int = 1
    axis: int = -1
    largest: bool = True

    def infer(self, *types: Type) -> Types:
        (x,) = types
        check_dtype(self.mnemonic, x, NUMBERS)
        axis = normal_axis(self.axis, x.rank)
        if self.k < 0 or not fits(self.k, x.shape[axis]):
            raise ShapeError(
                f"there are no {self.k} elements along axis {axis} of {x}", attribute="k"
            )
        kept = x.with_shape((*x.shape[:axis], self.k, *x.shape[axis + 1 :]))
        return kept, kept.with_dtype(DType.I64)

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        (x,) = inputs
        axis = normal_axis(self.axis, x.type.rank)
        return build.sort((x, build.iota(x.shape, axis)), axis, self.largest, kept=self.k)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, dict[str, object]]] = [
            ((7,), {"k": 3}), ((3, 9), {"k": 2}), ((9, 3), {"k": 2, "axis": 0}),
            ((3, 9), {"k": 9, "largest": False}), ((3, 9), {"k": 0}), ((0, 9), {"k": 2}),
        ]  # fmt: skip
        samples = [Sample((Type(F, s),), g) for s, g in cases] + [
            Sample((Type(F, (3, 13)),), {"k": 5}, ("special",))
        ]
        return samples + [
            Sample((Type(d, (3, 9)),), {"k": 4}, ("small",)) for d in DType if d in NUMBERS
        ]


@declare
class Argsort(Composite):
    """The positions (i64) that put x in order along `axis`; equal elements keep their order, NaN
    counts as the largest.
    """

    mnemonic = "argsort"
    creates = frozenset()
    leading = {"axis": AXES}
    axis: int = -1
    descending: bool = False

    def infer(self, *types: Type) -> Type:
        (x,) = types
        normal_axis(self.axis, x.rank)
        return x.with_dtype(DType.I64)

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        axis = normal_axis(self.axis, x.type.rank)
        return build.sort((x, build.iota(x.shape, axis)), axis, self.descending)[1]

    def evaluate(self, *arrays: Array) -> Array:
        x = numeric.widen(arrays[0])
        if not self.descending:
            return np.argsort(x, axis=self.axis, kind="stable")
        backwards = np.argsort(np.flip(x, self.axis), axis=self.axis, kind="stable")
        return np.asarray(x.shape[self.axis] - 1 - np.flip(backwards, self.axis))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, dict[str, object]]] = [
            ((7,), {}),
            ((3, 9), {}),
            ((9, 3), {"axis": 0}),
            ((3, 9), {"descending": True}),
            ((0, 9), {}),
            ((3, 0), {}),
        ]
        samples = [Sample((Type(F, s),), g) for s, g in cases] + [
            Sample((Type(F, (3, 13)),), {}, ("special",))
        ]
        return samples + [Sample((Type(d, (3, 9)),), {}, ("small",)) for d in DType]


@family
class Running(Composite):
    """A running combination along `axis`."""

    combine: ClassVar[str]
    leading = {"axis": AXES}
    axis: int = -1
    reverse: bool = False
    exclusive: bool = False

    def infer(self, *types: Type) -> Type:
        (x,) = types
        check_dtype(self.mnemonic, x, NUMBERS)
        normal_axis(self.axis, x.rank)
        return x

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        axis = normal_axis(self.axis, x.type.rank)
        return build.apply1(
            "cumulative",
            x,
            axis=axis,
            combine=self.combine,
            reverse=self.reverse,
            exclusive=self.exclusive,
        )

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        samples = [
            Sample((Type(F, s),), {"axis": a}, ("unit",))
            for s, a in (((7,), 0), ((3, 5), -1), ((0, 5), 0), ((3, 0), 1))
        ]
        samples += [
            Sample((Type(F, (3, 5)),), {"reverse": r, "exclusive": e}, ("unit",))
            for r, e in ((True, False), (False, True), (True, True))
        ]
        return samples + [Sample((Type(d, (3, 5)),), {}, ("small",)) for d in DType if d in NUMBERS]


@declare
class Cumsum(Running):
    """Running sums along `axis`; `exclusive` leaves each element itself out, `reverse` runs from
    the end.
    """

    mnemonic, combine = "cumsum", "add"


@declare
class Cumprod(Running):
    """Running products along `axis`; `exclusive` leaves each element itself out, `reverse` runs
    from the end.
    """

    mnemonic, combine = "cumprod", "mul"


@declare
class Cummax(Running):
    """Running maxima along `axis`; NaN stays once met."""

    mnemonic, combine = "cummax", "max"
    creates = frozenset({INFINITY})


@declare
class Cummin(Running):
    """Running minima along `axis`; NaN stays once met."""

    mnemonic, combine = "cummin", "min"
    creates = frozenset({INFINITY})
