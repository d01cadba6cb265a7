"""What all collectives share: a mesh of ranks, and the groups of ranks that exchange values.

A rank runs the same graph as every other, on its own values. Its place in the mesh is a coordinate
on each named axis. A collective over some axes exchanges values within each group of ranks that
differ on these axes alone; a rank's number in its group counts in row-major order of `axes`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from math import prod
from typing import ClassVar

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.graph import Node, apply
from xlac.ir.op import Array, ShapeError, family
from xlac.ir.permutations import inverse
from xlac.ir.types import Type
from xlac.ops.checks import check_dtype
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, UnsupportedError

MeshAxes = tuple[tuple[str, int], ...]
"""The axes of a mesh, in order, with their sizes."""

ONE: MeshAxes = (("ranks", 1),)
"""The mesh of samples: a single rank."""

MOVED = frozenset(
    {
        DType.F64, DType.F32, DType.F16, DType.BF16, DType.I8, DType.I16, DType.I32, DType.I64,
        DType.U8, DType.U16, DType.U32, DType.U64, DType.BOOL,
    }
)  # fmt: skip
"""Element types of whole bytes, which libraries of messages carry."""


@family
class Collective(Composite):
    """An operation among ranks.

    In a group of a single rank it is defined by simpler operations. In a larger one it is a step
    of the program: of the forms that `is_step` names, into which all others are expanded.
    """

    kind: ClassVar[str]
    mesh: MeshAxes = ()
    axes: tuple[str, ...] = ()

    @property
    def group(self) -> int:
        """The number of ranks in a group."""
        sizes = dict(self.mesh)
        return prod(sizes[axis] for axis in self.axes)

    def check_mesh(self) -> None:
        """Raises ShapeError unless the mesh has distinct names and positive sizes, and `axes` are
        some of them.
        """
        names = [name for name, _ in self.mesh]
        if len(set(names)) != len(names) or any(size < 1 for _, size in self.mesh):
            raise ShapeError(
                f"a mesh has distinct axes with sizes from 1, got {self.mesh}", attribute="mesh"
            )
        chosen = set(self.axes)
        if not chosen or len(chosen) != len(self.axes) or not chosen <= set(names):
            raise ShapeError(
                f"{self.mnemonic} is over distinct axes of the mesh {', '.join(names)}, got "
                f"{', '.join(self.axes) or 'none'}",
                attribute="axes",
            )

    def check_operand(self, x: Type) -> None:
        """Raises ShapeError for a bad mesh or an element type of less than a byte."""
        self.check_mesh()
        check_dtype(self.mnemonic, x, MOVED)

    def is_step(self, *types: Type) -> bool:
        """Whether it is a step as it is, for operands of these types: not expanded any further."""
        return self.group > 1

    @abstractmethod
    def among(self, *xs: Array) -> Array:
        """The meaning for one group: operands and result have an axis of the group's ranks first,
        in the order of their numbers.
        """

    def across(self, *arrays: Array) -> Array:
        """The meaning for all ranks at once: operands and result have the mesh's axes first."""
        rank = len(self.mesh)
        if not arrays:
            shape = tuple(size for _, size in self.mesh)
            arrays = (np.zeros(shape, np.int32),)
        names = [name for name, _ in self.mesh]
        chosen = [names.index(axis) for axis in self.axes]
        others = [axis for axis in range(rank) if axis not in chosen]
        order = (*chosen, *others)
        sizes = tuple(self.mesh[axis][1] for axis in order)
        repeats = prod(size for _, size in self.mesh) // self.group
        grouped = []
        for array in arrays:
            local = array.shape[rank:]
            moved = array.transpose(*order, *range(rank, array.ndim))
            grouped.append(moved.reshape(self.group, repeats, *local))
        results = [self.among(*(g[:, k] for g in grouped)) for k in range(repeats)]
        result = np.stack(results, axis=1)
        local = result.shape[2:]
        result = result.reshape(*sizes, *local)
        return result.transpose(*inverse(order), *range(rank, rank + len(local)))

    def evaluate(self, *arrays: Array) -> Array:
        if self.group > 1:
            raise self.alone()
        result: Array = self.among(*(array[np.newaxis] for array in arrays))[0]
        return result

    def alone(self) -> UnsupportedError:
        """The error for computing it where the other ranks are not."""
        mesh = ",".join(f"{name}={size}" for name, size in self.mesh)
        return UnsupportedError(
            Diagnostic(
                "XL7801",
                f"{self.mnemonic} over {', '.join(self.axes)} needs the ranks of mesh {mesh}",
                hint="a single process has one of them: docs/DISTRIBUTED.md",
            )
        )


def leading_group(x: Node, axis: int, count: int) -> Node:
    """x with `axis` cut into `count` parts, which become a new leading axis."""
    shape = x.shape
    size = shape[axis]
    cut = apply("reshape", x, shape=(*shape[:axis], count, size // count, *shape[axis + 1 :]))
    order = (axis, *(a for a in range(cut.type.rank) if a != axis))
    return cut if axis == 0 else apply("transpose", cut, perm=order)


def merged_group(x: Node, axis: int) -> Node:
    """The inverse of `leading_group`: the leading axis goes before `axis` of the rest, and both
    become one.
    """
    rest = x.shape[1:]
    order = (*range(1, axis + 1), 0, *range(axis + 1, x.type.rank))
    moved = x if axis == 0 else apply("transpose", x, perm=order)
    shape = (*rest[:axis], x.shape[0] * rest[axis], *rest[axis + 1 :])
    return apply("reshape", moved, shape=shape)


def selected(values: Sequence[Node | None]) -> Node:
    """The only value of a list, which must have one."""
    (value,) = values
    assert value is not None
    return value
