"""How a value is divided among the ranks of a mesh, said by the user."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim
from xlac.ir.graph import Node, apply
from xlac.ir.op import Array, Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops.checks import ANY
from xlac.ops.sampling import dtypes_and_shapes

AxisNames = tuple[str, ...]
AxesLike = None | str | AxisNames


def named(entry: AxesLike) -> AxisNames:
    """The mesh axes of one entry of a list of axes."""
    return () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)


@declare
class Shard(Composite):
    """x itself, divided among the ranks of a mesh as `axes` says.

    `axes` names, for each axis of x, the mesh axis along which ranks hold parts of it, several such
    axes, or null where every rank has the whole.
    """

    mnemonic = "shard"
    axes: tuple[AxesLike, ...] = ()

    def infer(self, *types: Type) -> Type:
        (x,) = types
        if len(self.axes) != x.rank:
            raise ShapeError(
                f"shard names mesh axes or null for each axis of x: {len(self.axes)} do not fit "
                f"{x}",
                attribute="axes",
            )
        every = [name for entry in self.axes for name in named(entry)]
        if len(set(every)) != len(every):
            twice = next(name for name in every if every.count(name) > 1)
            raise ShapeError(f"shard uses mesh axis '{twice}' twice", attribute="axes")
        return x

    def evaluate(self, *arrays: Array) -> Array:
        return arrays[0]

    def expand(self, *inputs: Node) -> Node:
        return inputs[0]

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node]:
        return [apply("shard", *inputs, axes=(None, *self.axes))]

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x",),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (ct,) = cotangents
        assert ct is not None
        return [apply("shard", ct, axes=self.axes)]

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample(s.inputs, {"axes": (None,) * s.inputs[0].rank}, s.draw)
            for s in dtypes_and_shapes(1, ANY)
        ]
