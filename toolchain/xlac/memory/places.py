"""Shared by the planner and its control flow: places of values, and their remaining readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xlac.codegen.core.lowered_group import LoweredGroup
from xlac.fusion.group import Group, Partition
from xlac.fusion.partition import is_alias
from xlac.ir.graph import Node
from xlac_sdk.programs.program import Argument

Places = dict[Node, Argument]
Wanted = list[tuple[Node, Argument]]  # values, and the places they must end up in
Lowerings = Mapping[Group, LoweredGroup]  # of every group that is no host step


@dataclass
class Readers:
    """Facts of one partition: the value whose memory an alias shares, the last group that reads
    each value, and the group that computes it.
    """

    root: dict[Node, Node]
    last: dict[Node, int]
    maker: dict[Node, int]

    def value(self, node: Node) -> Node:
        """The value that owns a node's memory: the node itself, unless it is an alias."""
        return self.root.get(node, node)

    @staticmethod
    def of(partition: Partition) -> Readers:
        """The readers of a partition."""
        root: dict[Node, Node] = {}
        last: dict[Node, int] = {}
        maker: dict[Node, int] = {}
        for number, group in enumerate(partition.groups):
            maker.update(dict.fromkeys(group.outputs, number))
            for node in group.inputs:
                last[root.get(node, node)] = number
            if is_alias(group):
                root[group.outputs[0]] = root.get(group.inputs[0], group.inputs[0])
        for node in partition.graph.outputs.values():
            last[root.get(node, node)] = len(partition.groups)
        return Readers(root, last, maker)
