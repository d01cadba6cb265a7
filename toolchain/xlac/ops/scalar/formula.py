"""Composites computed element by element: formulas of scalar operations that broadcast."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim
from xlac.ir.graph import Node, apply
from xlac.ir.op import Array, Sample
from xlac.ir.types import Type
from xlac.ops import build, numeric
from xlac.ops.checks import FLOATS, check_dtype, check_one_dtype
from xlac.ops.sampling import dtypes_and_shapes
from xlac_sdk.dtypes import DType

SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (3, 5), (2, 3, 5), (1001,))


class Formula(Composite):
    """Operands broadcast; halves are computed in f32 and rounded once. `formula` is the meaning."""

    accepts: ClassVar[frozenset[DType]] = FLOATS
    draws: ClassVar[tuple[str, ...]] = ("normal",)
    result: ClassVar[DType | None] = None  # None: that of the operands

    @classmethod
    def prepare(cls, inputs: Sequence[build.Value]) -> tuple[Node, ...]:
        """Operands as users write them, with numbers and of mixed types, made to fit."""
        dtype = build.promoted(inputs)
        nodes = tuple(build.as_node(i, dtype) for i in inputs)
        return tuple(map(build.floating, nodes)) if cls.accepts == FLOATS else nodes

    def infer(self, *types: Type) -> Type:
        for number, x in enumerate(types):
            check_dtype(self.mnemonic, x, self.accepts, number)
        check_one_dtype(self.mnemonic, types)
        return Type(self.result or types[0].dtype, build.broadcast_shapes([x.shape for x in types]))

    def expand(self, *inputs: Node) -> Node:
        shape = build.broadcast_shapes([x.shape for x in inputs])
        wide = [build.broadcast_to(build.compute(x), shape) for x in inputs]
        return build.cast(self.formula(*wide), self.result or inputs[0].type.dtype)

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node]:
        """Operands broadcast from their last axes: lower ranks have 1s behind the new axis."""
        rank = max(i.type.rank for i in node.inputs)
        aligned = [
            apply("reshape", i, shape=(size, *(1,) * (rank + 1 - i.type.rank), *i.shape[1:]))
            if on and i.type.rank <= rank
            else i
            for i, on in zip(inputs, mapped, strict=True)
        ]
        return [Node.of(self, *aligned)]

    @abstractmethod
    def formula(self, *xs: Node) -> Node:
        """The result from operands of one shape and compute type."""

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return dtypes_and_shapes(len(cls.operands), cls.accepts, cls.draws, shapes=SHAPES)


class Direct(Formula):
    """A formula that NumPy states in one line, too: `meaning`, for arrays of a compute type."""

    @abstractmethod
    def meaning(self, *arrays: Array) -> Array:
        """The result in NumPy, for arrays of a compute dtype."""

    def evaluate(self, *arrays: Array) -> Array:
        wide = [numeric.widen(a) for a in arrays]
        with np.errstate(all="ignore"):
            value = np.asarray(self.meaning(*wide))
        return numeric.narrow(value, self.result.numpy if self.result else arrays[0].dtype)


def cases(cls: type[Formula], *attributes: dict[str, object], draw: str = "normal") -> list[Sample]:
    """A case for each set of attributes, beside the usual ones."""
    return [
        Sample((Type(DType.F32, (3, 17)),) * len(cls.operands), given, (draw,))
        for given in attributes
    ]
