"""Shared by the planner and its control flow: places of values, and their remaining readers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from xlac.codegen.core.lowered_group import LoweredGroup
from xlac.fusion.group import WITHOUT_KERNELS, Group, Partition, picked
from xlac.fusion.partition import is_alias
from xlac.ir.graph import Node
from xlac.ops.control.control import Scan, While
from xlac_sdk.programs.program import Argument

Places = dict[Node, Argument]
Wanted = list[tuple[Node, Argument]]  # values, and the places they must end up in
Lowerings = Mapping[Group, LoweredGroup]  # of every group that is no host step


@dataclass
class Readers:
    """Facts of one partition: the value whose memory an alias shares, the last group that reads
    each value, and the group that computes it.

    `replaced` has the places of a loop's carries (of a program's states), each with its next value.
    Once nothing reads what a carry was, its place is free until the next value is written.
    """

    groups: tuple[Group, ...]
    lowerings: Lowerings
    replaced: Mapping[Argument, Node]
    root: dict[Node, Node] = field(default_factory=dict)
    last: dict[Node, int] = field(default_factory=dict)
    maker: dict[Node, int] = field(default_factory=dict)

    def value(self, node: Node) -> Node:
        """The value that owns a node's memory: the node itself, unless it is an alias."""
        return self.root.get(node, node)

    def overwritable(self, value: Node, node: Node) -> bool:
        """Whether a node may be written over the memory of a value: nothing reads that
        afterwards.
        """
        root = self.value(node)
        maker = self.maker.get(root)
        if maker is None:
            return False
        last = self.last.get(value, -1)
        if last != maker:
            return last < maker
        group = self.groups[maker]
        aliases = [i for i in group.inputs if self.value(i) is value]
        return len(aliases) == 1 and (root, aliases[0]) in in_place(group, self.lowerings)

    @staticmethod
    def of(
        partition: Partition, lowerings: Lowerings, replaced: Mapping[Argument, Node] | None = None
    ) -> Readers:
        """The readers of a partition."""
        readers = Readers(partition.groups, lowerings, replaced or {})
        root, last = readers.root, readers.last
        for number, group in enumerate(partition.groups):
            readers.maker.update(dict.fromkeys(group.outputs, number))
            for node in group.inputs:
                last[root.get(node, node)] = number
            if is_alias(group):
                root[group.outputs[0]] = root.get(group.inputs[0], group.inputs[0])
        for node in partition.graph.outputs.values():
            last[root.get(node, node)] = len(partition.groups)
        return readers


def in_place(group: Group, lowerings: Lowerings) -> Iterable[tuple[Node, Node]]:
    """The results of a group that may lie where an operand does, each with that operand. A loop's
    carry begins as its operand, and is advanced in place.
    """
    if group.kind not in WITHOUT_KERNELS:
        return lowerings[group].in_place
    match group.anchor.op:
        case While():
            carries = len(group.anchor.inputs)
        case Scan(carries=carries):
            pass
        case _:
            return ()
    return [(n, group.anchor.inputs[at]) for n, at in picked(group) if at < carries]
