"""A rank's place in the mesh, and values that differ between ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.graph import Node, apply
from xlac.ir.op import Array, Sample, declare
from xlac.ir.types import Type
from xlac.ops.collective.exchanges import ABOUT
from xlac.ops.collective.group import Collective, selected
from xlac_sdk.dtypes import DType


@declare
class AxisIndex(Collective):
    """The number of this rank in its group: along one axis, its coordinate. Known when the program
    runs, as all ranks run the same one.
    """

    mnemonic = "axis_index"
    kind = "axis_index"
    operands = ()

    def infer(self, *types: Type) -> Type:
        self.check_mesh()
        return Type(DType.I32)

    def among(self, *xs: Array) -> Array:
        return np.arange(self.group, dtype=np.int32)

    def expand(self, *inputs: Node) -> Node:
        if self.group > 1:
            raise self.alone()
        return apply("const", value=np.zeros((), np.int32))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [Sample((), ABOUT)]


@declare
class Varying(Collective):
    """x, a value that the ranks of a group share, as one value a rank: x itself, whose derivative
    is the sum of theirs.

    Where values that are shared meet values that differ, this is the first step; `vary` of
    `spmd/varying.py` inserts it.
    """

    mnemonic = "varying"
    kind = "identity"
    leading = {}

    def infer(self, *types: Type) -> Type:
        (x,) = types
        self.check_mesh()
        return x

    def is_step(self, *types: Type) -> bool:
        return False

    def among(self, *xs: Array) -> Array:
        return xs[0]

    def expand(self, *inputs: Node) -> Node:
        return inputs[0]

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x",),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        return [apply("all_reduce", selected(cotangents), mesh=self.mesh, axes=self.axes)]

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [Sample((Type(d, (3, 5)),), ABOUT) for d in (DType.F32, DType.I32, DType.BOOL)]
