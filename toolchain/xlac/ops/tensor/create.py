"""Tensors made from nothing but attributes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim, Shape
from xlac.ir.graph import Node
from xlac.ir.op import Array, Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops import build, numeric
from xlac.ops.checks import NUMBERS
from xlac_sdk.dtypes import DType


class Filled(Composite):
    """One number in every element."""

    operands = ()
    shape: Shape
    dtype: DType

    @property
    @abstractmethod
    def number(self) -> int | float:
        """The number."""

    def infer(self, *types: Type) -> Type:
        if any(isinstance(d, int) and d < 0 for d in self.shape):
            raise ShapeError(f"a negative extent in {list(self.shape)}", attribute="shape")
        return Type(self.dtype, self.shape)

    def expand(self, *inputs: Node) -> Node:
        return build.full(self.number, self.shape, self.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        samples = [Sample((), {"shape": s}) for s in ((), (3,), (0, 3), (2, 3, 5))]
        return samples + [Sample((), {"shape": (3,), "dtype": d}) for d in DType]


@declare
class Zeros(Filled):
    """0 in every element."""

    mnemonic, number = "zeros", 0
    shape: Shape = ()
    dtype: DType = DType.F32


@declare
class Ones(Filled):
    """1 in every element."""

    mnemonic, number = "ones", 1
    shape: Shape = ()
    dtype: DType = DType.F32


@declare
class Full(Filled):
    """`value` in every element."""

    mnemonic = "full"
    shape: Shape = ()
    value: float | int = 0
    dtype: DType = DType.F32

    @property
    def number(self) -> int | float:
        return self.value

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [Sample((), dict(s.attributes) | {"value": 3}) for s in super().samples()] + [
            Sample((), {"shape": (3,), "value": 2.5})
        ]


@declare
class ZerosLike(Composite):
    """0 in every element, with the type of x."""

    mnemonic = "zeros_like"

    def infer(self, *types: Type) -> Type:
        (x,) = types
        return x

    def expand(self, *inputs: Node) -> Node:
        return build.like(0, inputs[0])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [Sample((Type(d, (3, 2)),), {}) for d in DType]


@declare
class OnesLike(Composite):
    """1 in every element, with the type of x."""

    mnemonic = "ones_like"

    def infer(self, *types: Type) -> Type:
        (x,) = types
        return x

    def expand(self, *inputs: Node) -> Node:
        return build.like(1, inputs[0])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [Sample((Type(d, (3, 2)),), {}) for d in DType]


@declare
class Arange(Composite):
    """Numbers from `start` up to, not including, `stop`, `step` apart. With only `stop` it counts
    from 0.
    """

    mnemonic = "arange"
    operands = ()
    stop: Dim | float = 0
    start: Dim | float = 0
    step: int | float = 1
    dtype: DType = DType.I64

    def count(self) -> Dim:
        """The number of elements. Raises ShapeError where it is not known."""
        if self.step == 0:
            raise ShapeError("the step of arange is 0", attribute="step")
        if isinstance(self.start, int | float) and isinstance(self.stop, int | float):
            return max(0, int(np.ceil((self.stop - self.start) / self.step)))
        if (
            isinstance(self.step, float)
            or isinstance(self.start, float)
            or isinstance(self.stop, float)
            or self.step < 0
        ):
            raise ShapeError(
                "arange over a symbolic size counts up in whole steps", attribute="step"
            )
        return (self.stop - self.start + self.step - 1) // self.step

    def infer(self, *types: Type) -> Type:
        if self.dtype not in NUMBERS:
            raise ShapeError(f"arange counts in numbers, not {self.dtype}", attribute="dtype")
        if not isinstance(self.start, int | float):
            raise ShapeError("arange starts at a number", attribute="start")
        if self.dtype.is_integer and (
            isinstance(self.start, float) or isinstance(self.step, float)
        ):
            raise ShapeError(
                f"arange of {self.dtype} needs a whole start and step", attribute="dtype"
            )
        return Type(self.dtype, (self.count(),))

    def expand(self, *inputs: Node) -> Node:
        assert isinstance(self.start, int | float)
        values = build.iota((self.count(),), 0, self.dtype.compute)
        if self.step != 1:
            values = build.mul(values, self.step)
        if self.start != 0:
            values = build.add(values, self.start)
        return build.cast(values, self.dtype)

    def evaluate(self, *arrays: Array) -> Array:
        count = self.count()
        assert isinstance(count, int) and isinstance(self.start, int | float)
        whole = np.arange(count).astype(self.dtype.compute.numpy)
        kind = whole.dtype.type
        return numeric.narrow(whole * kind(self.step) + kind(self.start), self.dtype.numpy)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[dict[str, object]] = [
            {"stop": 7},
            {"stop": 0},
            {"start": 2, "stop": 9, "step": 3},
            {"start": 9, "stop": 2, "step": -2},
            {"stop": 2.0, "step": 0.25, "dtype": DType.F32},
        ]
        return [Sample((), c) for c in cases] + [
            Sample((), {"stop": 5, "dtype": d}) for d in DType if d in NUMBERS
        ]


@declare
class Eye(Composite):
    """1 on diagonal `k` of a matrix, 0 elsewhere; square without `columns`."""

    mnemonic = "eye"
    operands = ()
    rows: Dim = 0
    columns: Dim | None = None
    k: int = 0
    dtype: DType = DType.F32

    def infer(self, *types: Type) -> Type:
        return Type(self.dtype, (self.rows, self.rows if self.columns is None else self.columns))

    def expand(self, *inputs: Node) -> Node:
        shape = self.infer().shape
        here = build.compare(build.iota(shape, 1), "eq", build.add(build.iota(shape, 0), self.k))
        return build.cast(here, self.dtype)

    def evaluate(self, *arrays: Array) -> Array:
        rows, columns = self.infer().shape
        assert isinstance(rows, int) and isinstance(columns, int)
        return np.eye(rows, columns, self.k).astype(self.dtype.numpy)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[dict[str, object]] = [
            {"rows": 3},
            {"rows": 3, "columns": 5, "k": 1},
            {"rows": 4, "k": -1},
            {"rows": 0},
            {"rows": 2, "columns": 0},
        ]
        return [Sample((), c) for c in cases] + [Sample((), {"rows": 3, "dtype": d}) for d in DType]
