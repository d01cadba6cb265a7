"""Computations that a program writes for one rank of a mesh, inside of a program for all of them.

JAX's `shard_map` is one, `sdy.manual_computation` where JAX has lowered it.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from math import prod
from typing import Any

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.graph import Graph, Node, apply
from xlac.ir.op import Array, Sample, ShapeError, declare
from xlac.ir.ranks import interpret_ranks
from xlac.ir.types import Type, Types
from xlac.ops.checks import several
from xlac.ops.collective.group import MeshAxes
from xlac.ops.control import bodies
from xlac.ops.control.control import alone
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType

Division = tuple[tuple[str, ...], ...]
"""For each axis of a value the mesh axes among which it is divided, the first outermost."""


@declare
class ManualComputation(Composite):
    """What the ranks of a mesh compute of their parts of some values, each by `body`.

    Along the mesh axes in `manual`, operands are divided among ranks as `takes` says: for each
    operand, for each of its axes, the mesh axes that divide it. `body` computes on the parts, with
    collectives over axes in `manual`. The results are put together from what it gives, as `gives`
    says; of a result that is not divided along an axis of `manual`, every rank has the same. In one
    process all ranks are computed together, along a new axis of every value in `body`.
    """

    mnemonic = "manual_computation"
    operands = ("*args",)
    body: Graph | None = None
    mesh: MeshAxes = ()
    manual: tuple[str, ...] = ()
    takes: tuple[Division, ...] = ()
    gives: tuple[Division, ...] = ()

    def infer(self, *types: Type) -> Types:
        if self.body is None:
            raise ShapeError("manual_computation needs a body", attribute="body")
        sizes = dict(self.mesh)
        if len(sizes) != len(self.mesh) or any(size < 1 for size in sizes.values()):
            raise ShapeError(
                f"a mesh has distinct axes with sizes from 1, got {self.mesh}", attribute="mesh"
            )
        if len({*self.manual}) != len(self.manual) or not {*self.manual} <= {*sizes}:
            raise ShapeError(
                f"manual_computation is over distinct axes of the mesh {', '.join(sizes)}, got "
                f"{', '.join(self.manual)}",
                attribute="manual",
            )
        for name, values in (("takes", types), ("gives", bodies.outputs(self.body))):
            self._check(name, values)
        parts = [part_type(x, self.takes[n], self.mesh, n) for n, x in enumerate(types)]
        bodies.check(self.mnemonic, self.body, parts)
        results = zip(bodies.outputs(self.body), self.gives, strict=True)
        return several([self._whole(x, division) for x, division in results])

    def _check(self, name: str, values: Sequence[Type]) -> None:
        """Raises ShapeError unless an attribute has a division for each of some values."""
        divisions = getattr(self, name)
        if len(divisions) != len(values):
            raise ShapeError(
                f"'{name}' says how each of {len(values)} values is divided, and has "
                f"{len(divisions)}",
                attribute=name,
            )
        for x, division in zip(values, divisions, strict=True):
            every = [axis for axes in division for axis in axes]
            if len(division) != x.rank or len({*every}) != len(every):
                raise ShapeError(f"'{name}' does not fit {x}: {division}", attribute=name)
            strange = [axis for axis in every if axis not in self.manual]
            if strange:
                raise ShapeError(
                    f"'{name}' divides a value along '{strange[0]}', which is not in 'manual'",
                    attribute=name,
                )

    def parts(self, axes: Sequence[str]) -> int:
        """Into how many parts some axes of the mesh divide something."""
        sizes = dict(self.mesh)
        return prod(sizes[axis] for axis in axes)

    def _whole(self, part: Type, division: Division) -> Type:
        sizes = zip(part.shape, division, strict=True)
        return part.with_shape(tuple(size * self.parts(axes) for size, axes in sizes))

    def evaluate(self, *arrays: Array) -> Array | tuple[Array, ...]:
        sizes = tuple(size for _, size in self.mesh)
        everywhere = [np.broadcast_to(x, (*sizes, *x.shape)) for x in arrays]
        return alone([result[(0,) * len(sizes)] for result in self._evaluated(everywhere)])

    def across(self, *arrays: Array) -> Array | tuple[Array, ...]:
        """The meaning where it is itself computed by ranks: arrays have the mesh's axes first."""
        return alone(self._evaluated(arrays))

    def _evaluated(self, arrays: Sequence[Array]) -> list[Array]:
        assert self.body is not None
        given = {
            param_name(inner): self._split(x, division)
            for inner, x, division in zip(self.body.inputs, arrays, self.takes, strict=True)
        }
        wide = any(
            x.dtype == np.float64 and inner.type.dtype is not DType.F64
            for inner, x in zip(self.body.inputs, arrays, strict=True)
        )
        found = interpret_ranks(self.body, self.mesh, given, float64=wide)
        return [
            self._joined(x, division)
            for x, division in zip(found.values(), self.gives, strict=True)
        ]

    def _split(self, x: Array, division: Division) -> Array:
        """Each rank's part of what it has, for all ranks."""
        rank = len(self.mesh)
        places = np.indices(x.shape[:rank])
        shape = [
            size // self.parts(axes) for size, axes in zip(x.shape[rank:], division, strict=True)
        ]
        parts = np.empty((*x.shape[:rank], *shape), x.dtype)
        for at in np.ndindex(*x.shape[:rank]):
            starts = [self._number(places[(slice(None), *at)], axes) for axes in division]
            cut = (slice(n * size, (n + 1) * size) for n, size in zip(starts, shape, strict=True))
            parts[at] = x[(*at, *cut)]
        return parts

    def _joined(self, parts: Array, division: Division) -> Array:
        """What each rank has of a result: its group's parts, put together."""
        rank, names = len(self.mesh), [name for name, _ in self.mesh]
        for axis, axes in enumerate(division):
            for name in reversed(axes):
                at = names.index(name)
                rows = list(np.moveaxis(parts, at, 0))
                joined = np.concatenate(rows, axis=rank - 1 + axis)
                shape = (*joined.shape[:at], self.mesh[at][1], *joined.shape[at:])
                parts = np.broadcast_to(np.expand_dims(joined, at), shape)
        free = [n for n, name in enumerate(names) if name in self.manual]
        used = {names.index(name) for axes in division for name in axes}
        for at in free:
            if at not in used:  # all have the same, so it is the first one's
                first = np.take(parts, [0], axis=at)
                shape = (*parts.shape[:at], self.mesh[at][1], *parts.shape[at + 1 :])
                parts = np.broadcast_to(first, shape)
        return parts

    def _number(self, place: Array, axes: Sequence[str]) -> int:
        """Which of the parts along some axes a rank at a place has."""
        names, number = [name for name, _ in self.mesh], 0
        for axis in axes:
            number = number * dict(self.mesh)[axis] + int(place[names.index(axis)])
        return number

    def expand(self, *inputs: Node) -> Node | tuple[Node, ...]:
        # by name, as batching builds on operations
        vectorized: Any = import_module("xlac.batching.ranks").vectorized
        results: tuple[Node, ...] = vectorized(self, inputs)
        return results[0] if len(results) == 1 else results

    def bodies(self) -> Sequence[Any]:
        return () if self.body is None else (self.body,)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample(
                (Type(dtype, (4, 6)), Type(dtype, (6, 3))),
                {
                    "body": _layer(dtype, mesh),
                    "mesh": mesh,
                    "manual": ("data", "model"),
                    "takes": ((("data",), ("model",)), (("model",), ())),
                    "gives": ((("data",), ()), (("model", "data"),)),
                },
                ("small",),
            )
            for dtype in (DType.F64, DType.I32)
            for mesh in ((("data", 2), ("model", 3)), (("data", 1), ("model", 1)))
        ]


def part_type(x: Type, division: Division, mesh: MeshAxes, operand: int = 0) -> Type:
    """The type of a rank's part of a value. Raises ShapeError where it has no equal parts."""
    shape, sizes = list(x.shape), dict(mesh)
    for axis, axes in enumerate(division):
        count, size = prod(sizes[name] for name in axes), shape[axis]
        if count > 1 and not isinstance(size, int):
            raise ShapeError(f"axis {axis} of {x} has no fixed size to be divided", operand=operand)
        if isinstance(size, int):
            if size % count:
                raise ShapeError(f"axis {axis} of {x} has no {count} equal parts", operand=operand)
            shape[axis] = size // count
    return x.with_shape(tuple(shape))


def param_name(node: Node) -> str:
    """The name of a parameter of a body."""
    assert isinstance(node.op, Param)
    return node.op.name


def _layer(dtype: DType, mesh: MeshAxes) -> Graph:
    """A product whose sum is divided along `model`, and a rank's number."""
    sizes = dict(mesh)
    types = (
        Type(dtype, (4 // sizes["data"], 6 // sizes["model"])),
        Type(dtype, (6 // sizes["model"], 3)),
    )
    x, w = (Node.of(Param(name, type)) for name, type in zip("xw", types, strict=True))
    part = apply("dot", x, w, contract_lhs=(1,), contract_rhs=(0,))
    total = apply("all_reduce", part, mesh=mesh, axes=("model",))
    number = apply("axis_index", mesh=mesh, axes=("model", "data"))
    line = apply("reshape", number, shape=(1,))
    return Graph("product", (x, w), {"total": total, "number": line})
