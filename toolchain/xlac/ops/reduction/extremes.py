"""Where the largest and the smallest element is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import Array, Sample, ShapeError, declare, family, normal_axis
from xlac.ir.types import Type
from xlac.ops import build, numeric
from xlac.ops.checks import NUMBERS, check_dtype
from xlac.ops.reduction.named_reductions import reduced
from xlac_sdk.dtypes import DType


@family
class Extreme(Composite):
    """The position along `axis` of an extreme; the first of equals, and a NaN counts as the
    extreme.
    """

    largest: ClassVar[bool]
    axis: int | None = None
    keepdims: bool = False
    dtype: DType = DType.I64

    def infer(self, *types: Type) -> Type:
        (x,) = types
        check_dtype(self.mnemonic, x, NUMBERS)
        axis = None if self.axis is None else normal_axis(self.axis, x.rank)
        size = x.size if axis is None else x.shape[axis]
        if size == 0:
            raise ShapeError(f"{self.mnemonic} of no elements: {x}", operand=0)
        if not self.dtype.is_integer:
            raise ShapeError(f"positions are integers, not {self.dtype}", attribute="dtype")
        return Type(self.dtype, reduced(x, axis, self.keepdims))

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node] | None:
        if self.axis is None:
            return None
        axis = normal_axis(self.axis, node.inputs[0].type.rank)
        return [Node.of(replace(self, axis=axis + 1), *inputs)]

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        axis = 0 if self.axis is None else normal_axis(self.axis, x.type.rank)
        flat = build.reshape(x, (-1,)) if self.axis is None else x
        top = build.back(
            build.reduce(flat, "max" if self.largest else "min", axis), flat.shape, (axis,)
        )
        here = build.compare(flat, "eq", top)
        if x.type.dtype.is_float:
            here = build.apply1("or", here, build.compare(flat, "ne", flat))
        most = int(np.iinfo(self.dtype.numpy).max)
        place = build.select(here, build.iota(flat.shape, axis, self.dtype), most)
        first = build.reduce(place, "min", axis)
        if not self.keepdims:
            return first
        return build.reshape(first, reduced(x.type, self.axis, True))

    def evaluate(self, *arrays: Array) -> Array:
        x = numeric.widen(arrays[0])
        places = (np.argmax if self.largest else np.argmin)(
            x, axis=self.axis, keepdims=self.keepdims
        )
        return np.asarray(places).astype(self.dtype.numpy)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        shapes: list[tuple[tuple[int, ...], int | None, bool]] = [
            ((7,), 0, False), ((7,), None, False), ((3, 5), 1, False), ((3, 5), 0, True),
            ((3, 5), None, True), ((2, 3, 5), -2, False), ((0, 3), 1, False), ((4999,), 0, False),
            ((3, 1), 1, False),
        ]  # fmt: skip
        samples = [Sample((Type(DType.F32, s),), {"axis": a, "keepdims": k}) for s, a, k in shapes]
        samples += [
            Sample((Type(d, (3, 9)),), {"axis": 1}, ("small",)) for d in DType if d in NUMBERS
        ]
        return [
            *samples,
            Sample((Type(DType.F32, (5, 13)),), {"axis": 1, "dtype": DType.I32}, ("special",)),
        ]


@declare
class Argmax(Extreme):
    """The position of the largest element along `axis` (of all, row-major, when absent); the first
    of equals.
    """

    mnemonic, largest = "argmax", True


@declare
class Argmin(Extreme):
    """The position of the smallest element along `axis` (of all, row-major, when absent); the first
    of equals.
    """

    mnemonic, largest = "argmin", False
