"""One collective in place of several whose results are added: sums over ranks are linear."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from xlac.ir.graph import Graph, Node
from xlac.ops.collective.sums import AllReduce

Reasons = Mapping[Node, str]


def merge_sums(graph: Graph, reasons: Reasons) -> tuple[Graph, dict[Node, str]]:
    """The graph with `all_reduce(a) + all_reduce(b)` as `all_reduce(a + b)`, where nothing else
    reads the two, and why each collective is there.
    """
    uses = Counter(i for node in graph.nodes() for i in node.inputs)
    uses.update(graph.outputs.values())
    new: dict[Node, Node] = {}
    why: dict[Node, str] = {}
    for node in (*graph.inputs, *graph.nodes()):
        if node in new:
            continue
        inputs = tuple(new[i] for i in node.inputs)
        if node.op.mnemonic == "add" and all(uses[i] == 1 for i in node.inputs):
            total = _merged(node, inputs)
            if total is not None:
                new[node] = total
                why[total] = f"{why[inputs[0]]}; {why[inputs[1]]}"
                continue
        new[node] = node if inputs == node.inputs else node.with_inputs(inputs)
        if node in reasons:
            why[new[node]] = reasons[node]
    outputs = {name: new[node] for name, node in graph.outputs.items()}
    whole = Graph(graph.name, tuple(new[i] for i in graph.inputs), outputs)
    there = set(whole.nodes())
    inside = {n for n in every_node(whole) if n in reasons and n not in there}
    why |= {n: reasons[n] for n in inside}
    there |= inside
    return whole, {node: reason for node, reason in why.items() if node in there}


def every_node(graph: Graph) -> Iterator[Node]:
    """The nodes of a graph, and of the bodies inside it."""
    for node in graph.nodes():
        yield node
        for body in node.op.bodies():
            yield from every_node(body)


def _merged(node: Node, inputs: tuple[Node, ...]) -> Node | None:
    """The sum of two sums over the same ranks; None where the operands are others."""
    one, other = inputs
    if not isinstance(one.op, AllReduce) or one.op.combine != "add":
        return None
    if one.op != other.op or one.type != other.type or one is other:
        return None
    parts = Node.of(node.op, one.inputs[0], other.inputs[0], origin=node.origin)
    return Node.of(one.op, parts, origin=node.origin)
