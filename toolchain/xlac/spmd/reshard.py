"""Moves a value of a rank-local graph from one sharding to another."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from xlac.ir.graph import Node, apply
from xlac.ops.collective.exchanges import AllGather, AllToAll
from xlac.ops.collective.group import Collective
from xlac.ops.collective.ranks import AxisIndex
from xlac.ops.collective.sums import AllReduce, ReduceScatter
from xlac.spmd.mesh import AxisNames, Mesh, Sharding
from xlac_sdk.source import Origin


@dataclass(frozen=True, slots=True)
class Local:
    """A rank's part of a value, and how the value is divided."""

    node: Node
    sharding: Sharding


@dataclass(eq=False)
class Resharder:
    """Makes collectives and notes why each is there."""

    mesh: Mesh
    reasons: dict[Node, str] = field(default_factory=dict)
    _moved: dict[tuple[Node, Sharding], Node] = field(default_factory=dict)
    _numbers: dict[AxisNames, Node] = field(default_factory=dict)

    def to(self, value: Local, wanted: Sharding, reason: str) -> Node:
        """The part that a rank holds under another sharding.

        An axis of the mesh that leaves one axis of the value for another is an `all_to_all`; one
        that leaves it otherwise is gathered; one that comes to it takes a part of what is there.
        """
        if value.sharding == wanted:
            return value.node
        key = (value.node, wanted)
        if key not in self._moved:
            self._moved[key] = self._to(value, wanted, reason)
        return self._moved[key]

    def _to(self, value: Local, wanted: Sharding, reason: str) -> Node:
        node, now = value.node, list(value.sharding)
        for source in range(len(now)):
            for target in range(len(now)):
                if source == target or not now[source]:
                    continue
                names = now[source][-1:]
                if (
                    wanted[target] == (*now[target], *names)
                    and names[0] not in wanted[source]
                    and self._divides(node, target, names)
                ):
                    exchange = AllToAll(self.mesh.axes, names, target, source)
                    node = self.collective(exchange, node, reason)
                    now[source], now[target] = now[source][:-1], wanted[target]
        for axis, names in enumerate(now):
            kept = _common(names, wanted[axis])
            gone = names[len(kept) :]
            if gone:
                node = self.collective(AllGather(self.mesh.axes, gone, axis), node, reason)
                now[axis] = kept
        coming = [
            (axis, names[len(now[axis]) :])
            for axis, names in enumerate(wanted)
            if len(names) > len(now[axis])
        ]
        return self.part(node, coming) if coming else node

    def _divides(self, node: Node, axis: int, names: AxisNames) -> bool:
        size = node.shape[axis]
        return isinstance(size, int) and size % self.mesh.parts(names) == 0

    def part(self, node: Node, along: list[tuple[int, AxisNames]]) -> Node:
        """This rank's part of a value that it has whole, along some axes."""
        zero = apply("const", value=np.zeros((), np.int32))
        starts, sizes = [zero] * node.type.rank, list(node.shape)
        for axis, names in along:
            size = sizes[axis]
            assert isinstance(size, int)
            sizes[axis] = size // self.mesh.parts(names)
            starts[axis] = self.start(names, sizes[axis])
        return apply("dyn_slice", node, *starts, sizes=tuple(sizes))

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
        node, sharding = value.node, value.sharding
        if combine == "add":
            for axis, (now, then) in enumerate(zip(sharding, wanted, strict=True)):
                if then == (*now, *names) and self._divides(node, axis, names):
                    part = ReduceScatter(self.mesh.axes, names, axis)
                    after = (*sharding[:axis], then, *sharding[axis + 1 :])
                    return Local(self.collective(part, node, reason), after)
        whole = AllReduce(self.mesh.axes, names, combine)
        return Local(self.collective(whole, node, reason), sharding)


def _common(one: AxisNames, other: AxisNames) -> AxisNames:
    """The axes with which both begin."""
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return one[:count]


def describe(origin: Origin | None, mnemonic: str) -> str:
    """An operation in a reason."""
    return f"{mnemonic} '{origin.name}'" if origin and origin.name else mnemonic
