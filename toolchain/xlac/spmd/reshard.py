"""Moves a value of a rank-local graph from one sharding to another."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from xlac.ir.dims import Dim
from xlac.ir.graph import Node, apply, zeros
from xlac.ops import build
from xlac.ops.collective.exchanges import AllGather, AllToAll
from xlac.ops.collective.group import Collective
from xlac.ops.collective.ranks import AxisIndex
from xlac.ops.collective.sums import AllReduce, ReduceScatter
from xlac.ops.numeric import identity
from xlac.spmd.mesh import AxisNames, Mesh, Sharding, part_size
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin


@dataclass(frozen=True, slots=True)
class Local:
    """A rank's part of a value of `shape`, and how the value is divided. Where an axis has no equal
    parts, the last ones end in padding: along the axes `dirty` it may hold anything, else zeros.
    """

    node: Node
    shape: tuple[Dim, ...]
    sharding: Sharding
    dirty: frozenset[int] = frozenset()


@dataclass(eq=False)
class Resharder:
    """Makes collectives and notes why each is there."""

    mesh: Mesh
    reasons: dict[Node, str] = field(default_factory=dict)
    _moved: dict[tuple[Node, Sharding], Local] = field(default_factory=dict)
    _numbers: dict[AxisNames, Node] = field(default_factory=dict)

    def to(self, value: Local, wanted: Sharding, reason: str) -> Local:
        """The part that a rank holds under another sharding.

        An axis of the mesh that leaves one axis of the value for another is an `all_to_all`; one
        that leaves it otherwise is gathered; one that comes to it takes a part of what is there.
        An axis of the value that has no equal parts is gathered whole before it is divided anew.
        """
        if value.sharding == wanted:
            return value
        key = (value.node, wanted)
        if key not in self._moved:
            self._moved[key] = self._to(value, wanted, reason)
        return self._moved[key]

    def _to(self, value: Local, wanted: Sharding, reason: str) -> Local:
        now = list(value.sharding)
        node = self._exchanged(value, now, wanted, reason)
        for axis, names in enumerate(now):
            kept = names
            if names != wanted[axis]:
                size = value.shape[axis]
                even = self.even(size, names) and self.even(size, wanted[axis])
                kept = _common(names, wanted[axis]) if even else ()
            gone = names[len(kept) :]
            if gone:
                node = self.collective(AllGather(self.mesh.axes, gone, axis), node, reason)
                now[axis] = kept
                if not kept:
                    node = resized(node, axis, value.shape[axis])
        coming = [
            (axis, names[len(now[axis]) :])
            for axis, names in enumerate(wanted)
            if len(names) > len(now[axis])
        ]
        same = {a for a, n in enumerate(wanted) if n == value.sharding[a]}
        node = self.part(node, coming) if coming else node
        return Local(node, value.shape, wanted, value.dirty & same)

    def _exchanged(self, value: Local, now: list[AxisNames], wanted: Sharding, reason: str) -> Node:
        """The value after every `all_to_all` that brings it nearer to what is wanted; `now` is how
        it is divided.
        """
        node = value.node
        for source in range(len(now)):
            for target in range(len(now)):
                if source == target or not now[source]:
                    continue
                names, then = now[source][-1:], wanted[target]
                if (
                    then == (*now[target], *names)
                    and names[0] not in wanted[source]
                    and (now[source] == names or self.even(value.shape[source], now[source]))
                    and (not now[target] or self.even(value.shape[target], then))
                ):
                    node = self.in_parts(node, target, names)
                    exchange = AllToAll(self.mesh.axes, names, target, source)
                    node = self.collective(exchange, node, reason)
                    now[source], now[target] = now[source][:-1], then
                    if not now[source]:
                        node = resized(node, source, value.shape[source])
        return node

    def even(self, size: Dim, names: AxisNames) -> bool:
        """Whether an axis has equal parts."""
        return isinstance(size, int) and size % self.mesh.parts(names) == 0

    def in_parts(self, node: Node, axis: int, names: AxisNames) -> Node:
        """A value with zeros at the end of an axis, so that it has equal parts."""
        size, parts = node.shape[axis], self.mesh.parts(names)
        assert isinstance(size, int)
        return resized(node, axis, part_size(size, parts) * parts)

    def part(self, node: Node, along: list[tuple[int, AxisNames]]) -> Node:
        """This rank's part of a value that it has whole, along some axes, padded with zeros."""
        for axis, names in along:
            node = self.in_parts(node, axis, names)
        zero = apply("const", value=np.zeros((), np.int32))
        starts, sizes = [zero] * node.type.rank, list(node.shape)
        for axis, names in along:
            size = sizes[axis]
            assert isinstance(size, int)
            sizes[axis] = size // self.mesh.parts(names)
            starts[axis] = self.start(names, sizes[axis])
        return apply("dyn_slice", node, *starts, sizes=tuple(sizes))

    def masked(self, value: Local, axis: int, combine: str) -> Node:
        """A rank's part with what its combination ignores in the padding of an axis."""
        node, size, names = value.node, value.shape[axis], value.sharding[axis]
        if self.even(size, names) or (combine == "add" and axis not in value.dirty):
            return node
        assert isinstance(size, int)
        count = apply("iota", shape=node.shape, axis=axis, dtype=DType.I32)
        place = build.add(count, self.start(names, node.shape[axis]))
        there = build.compare(place, "lt", build.as_node(size, DType.I32))
        nothing = build.as_node(identity(combine, node.type.dtype), node.type.dtype)
        return build.select(there, node, nothing)

    def start(self, names: AxisNames, size: object) -> Node:
        """Where this rank's part begins, of parts of a size."""
        if names not in self._numbers:
            self._numbers[names] = Node.of(AxisIndex(self.mesh.axes, names))
        return apply("mul", self._numbers[names], apply("const", value=np.asarray(size, np.int32)))

    def collective(self, op: Collective, node: Node, reason: str) -> Node:
        """A collective of a value, with its reason."""
        collective = Node.of(op, node, origin=node.origin)
        self.reasons[collective] = reason
        return collective

    def total(
        self, value: Local, names: AxisNames, combine: str, wanted: Sharding, reason: str
    ) -> Local:
        """The whole of partial results along mesh axes: combined on all ranks, or, where the value
        is wanted in parts along the same axes, a part of it on each.
        """
        shape, sharding = value.shape, value.sharding
        if combine == "add":
            for axis, (now, then) in enumerate(zip(sharding, wanted, strict=True)):
                if then == (*now, *names) and (not now or self.even(shape[axis], then)):
                    node = self.in_parts(value.node, axis, names)
                    part = ReduceScatter(self.mesh.axes, names, axis)
                    after = (*sharding[:axis], then, *sharding[axis + 1 :])
                    node = self.collective(part, node, reason)
                    return Local(node, shape, after, value.dirty)
        ordered = tuple(
            name for name, _ in self.mesh.axes if name in names
        )  # so that sums are alike
        whole = AllReduce(self.mesh.axes, ordered, combine)
        return Local(self.collective(whole, value.node, reason), shape, sharding, value.dirty)


def resized(node: Node, axis: int, size: Dim) -> Node:
    """A value with the end of an axis cut off, or with zeros after it."""
    now = node.shape[axis]
    assert isinstance(size, int) and isinstance(now, int)
    if size == now:
        return node
    if size < now:
        stops = (*node.shape[:axis], size, *node.shape[axis + 1 :])
        rank = node.type.rank
        return apply("slice", node, starts=(0,) * rank, stops=stops, steps=(1,) * rank)
    none = [0] * node.type.rank
    more = [*none[:axis], size - now, *none[axis + 1 :]]
    zero = zeros(node.type.with_shape(()))
    return apply("pad", node, zero, low=tuple(none), high=tuple(more), interior=tuple(none))


def _common(one: AxisNames, other: AxisNames) -> AxisNames:
    """The axes with which both begin."""
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return one[:count]


def describe(origin: Origin | None, mnemonic: str) -> str:
    """An operation in a reason."""
    return f"{mnemonic} '{origin.name}'" if origin and origin.name else mnemonic
