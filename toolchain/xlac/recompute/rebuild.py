"""Rebuilds a partition whose groups run in another order, some of them more than once.

A recomputed group has nodes of its own, since later stages identify a value by its node. It shares
the kernels of the first run, so its results are equal to the bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xlac.fusion.group import Group, Partition
from xlac.ir.graph import Graph, Node
from xlac.recompute.measure import Measured

AGAIN = "computed again, to keep less in memory"


def rebuilt(partition: Partition, measured: Measured, sequence: Sequence[int]) -> Partition:
    """The partition whose groups are those of a sequence of tasks, in that order."""
    rescheduled = _Rescheduled(measured)
    for number in sequence:
        rescheduled.run(number)
    graph = partition.graph
    outputs = {name: rescheduled.output(node) for name, node in graph.outputs.items()}
    return Partition(
        Graph(graph.name, graph.inputs, outputs), tuple(rescheduled.groups), partition.inner
    )


class _Rescheduled:
    """Groups so far, and the node of each old value in the new partition: of its first and its
    latest computation.
    """

    def __init__(self, measured: Measured) -> None:
        self.measured = measured
        self.groups: list[Group] = []
        self.done: set[int] = set()
        self.first: dict[Node, Node] = {}
        self.last: dict[Node, Node] = {}
        self.views: dict[tuple[Node, Node], Node] = {}  # by the old alias and what it is a view of
        self.viewed: set[Node] = set()
        nbytes = measured.problem.nbytes
        self.elsewhere = {node for node, n in zip(measured.buffers, nbytes, strict=True) if not n}

    def run(self, number: int) -> None:
        """Adds the group of a task."""
        group = self.measured.groups[number]
        given = {i: self.value(i, self.last) for i in group.inputs}
        again = number in self.done or number >= self.measured.problem.required
        self.done.add(number)
        replacements = self.add(group, given, again)
        for old in group.outputs:
            if not again:
                self.first[old] = replacements[old]
            if not again or old not in self.elsewhere:
                self.last[old] = replacements[old]

    def value(self, node: Node, values: Mapping[Node, Node]) -> Node:
        """The new node of an old value. An alias is rebuilt when it is read, for the newest
        operand.
        """
        alias = self.measured.aliases.get(node)
        if alias is None:
            return values.get(node, node)
        source = self.value(alias.inputs[0], values)
        if (node, source) not in self.views:
            copied = node in self.viewed
            self.viewed.add(node)
            self.views[node, source] = self.add(alias, {alias.inputs[0]: source}, copied)[node]
        return self.views[node, source]

    def add(self, group: Group, given: Mapping[Node, Node], again: bool) -> dict[Node, Node]:
        """Adds a group with the nodes `given` for its inputs; returns the new nodes by the old."""
        replacements: dict[Node, Node] = dict(given)
        for node in group.nodes:
            inputs = tuple(replacements.get(i, i) for i in node.inputs)
            same = inputs == node.inputs and not (again and (inputs or node in group.outputs))
            replacements[node] = node if same else node.with_inputs(inputs)
        if not again and all(old is new for old, new in replacements.items()):
            self.groups.append(group)
            return replacements
        reason = f"{group.reason}; {AGAIN}" if again and group.reason else group.reason
        self.groups.append(
            replace(
                group,
                anchor=replacements[group.anchor],
                nodes=tuple(replacements[node] for node in group.nodes),
                inputs=tuple(given[i] for i in group.inputs),
                outputs=tuple(replacements[node] for node in group.outputs),
                reason=reason,
                barriers={
                    replacements.get(node, node): why for node, why in group.barriers.items()
                },
            )
        )
        return replacements

    def output(self, node: Node) -> Node:
        """The node of a graph output: the first computation of the value."""
        return self.value(node, self.first)
