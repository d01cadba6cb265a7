"""A group as a program of its own."""

from __future__ import annotations

from dataclasses import replace

from xlac.fusion.group import Group, Partition
from xlac.ir.graph import Graph, Node
from xlac.ops.tensor.leaf import Param
from xlac.passes.capture import is_constant


def group_alone(group: Group, constants: bool = False) -> tuple[Partition, dict[str, Node]]:
    """A partition of this one group, whose inputs are the values that it reads, and which value
    each input is; with `constants`, weights are inputs too.
    """
    new: dict[Node, Node] = {}
    read: dict[str, Node] = {}
    for number, node in enumerate(
        dict.fromkeys(i for i in group.inputs if (constants and i.type.rank) or not is_constant(i))
    ):
        name = f"v{number}"
        new[node] = Node.of(Param(name, node.type))
        read[name] = node
    params = tuple(new.values())
    for node in group.nodes:
        new[node] = replace(node, inputs=tuple(new.get(i, i) for i in node.inputs))
    outputs = tuple(new[n] for n in group.outputs)
    graph = Graph("alone", params, {f"out{i}": n for i, n in enumerate(outputs)})
    inputs = tuple(new.get(i, i) for i in group.inputs)
    alone = Group(
        group.kind,
        new[group.anchor],
        tuple(new[n] for n in group.nodes),
        inputs,
        outputs,
        group.reason,
    )
    return Partition(graph, (alone,)), read
