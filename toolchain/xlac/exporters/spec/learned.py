"""Finds weights that an operation learns under its own name, so that the spec need not mention
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xlac.exporters.spec.names import clean
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Op
from xlac.ops.control.bounded import BoundedWhile
from xlac.ops.control.control import Cond, Pick, Scan, While
from xlac.ops.tensor.leaf import Param


@dataclass(frozen=True, eq=False)
class Region:
    """A body of a control operation: its graph, and the operand for each of its last inputs."""

    graph: Graph
    outside: dict[Node, Node]


def kept(op: While | BoundedWhile, read: int) -> int:
    """The number of a loop's carried values that are used, given that the first `read` are; later
    ones only pass through.
    """
    assert isinstance(op.body, Graph)
    pairs = list(zip(op.body.inputs, op.body.outputs.values(), strict=True))
    while len(pairs) > max(1, read) and pairs[-1][0] is pairs[-1][1]:
        pairs.pop()
    return len(pairs)


def regions(node: Node, read: int) -> list[Region]:
    """The bodies of a control operation, with their captured operands. Its first `read` results are
    used.
    """
    match node.op:
        case Scan(body=Graph() as body, carries=carries, scanned=scanned):
            first = carries + scanned
            return [Region(body, dict(zip(body.inputs[first:], node.inputs[first:], strict=True)))]
        case (While() | BoundedWhile()) as op if op.cond is not None and op.body is not None:
            cond, body = op.cond, op.body
            first = kept(op, read)
            return [
                Region(g, dict(zip(g.inputs[first:], node.inputs[first:], strict=True)))
                for g in (cond, body)
            ]
        case Cond(branches=branches):
            return [Region(b, dict(zip(b.inputs, node.inputs[1:], strict=True))) for b in branches]
    return []


def results(node: Node, read: int) -> list[Node]:
    """The results of the bodies of a node, without those that only pass through."""
    outputs = [output for body in node.op.bodies() for output in body.outputs.values()]
    return (
        outputs[: len(outputs) - len(node.inputs) + kept(node.op, read)]
        if isinstance(node.op, While | BoundedWhile)
        else outputs
    )


def parameters(node: Node) -> dict[str, Node]:
    """The learned operands of a node by name."""
    if type(node.op).parameters is Op.parameters:
        return {}
    for count in range(len(node.inputs), -1, -1):
        try:
            names = node.op.parameters(*(i.type for i in node.inputs[:count]))
        except (ValueError, IndexError, TypeError):
            continue
        if len(names) == len(node.inputs) - count:
            return dict(zip(names, node.inputs[count:], strict=True))
    return {}


class Learned:
    """The weights of a model that their only user declares itself when the spec is read."""

    def __init__(self, graph: Graph) -> None:
        self.roots: dict[Node, Node] = {}  # input of a body -> its value outside
        self.weights: set[Node] = set()
        # for nodes with several results, how many of the first are used
        self.read: dict[Node, int] = {}
        for node in everything(graph):
            if isinstance(node.op, Pick):
                self.read[node.inputs[0]] = max(self.read.get(node.inputs[0], 0), node.op.index + 1)
        uses: dict[Node, int] = {}
        users: dict[Node, tuple[Node, str]] = {}
        for node in everything(graph):
            handed = {outer for region in self.regions(node) for outer in region.outside.values()}
            for region in self.regions(node):
                self.roots.update(region.outside)
            for output in results(node, self.read.get(node, 0)):
                uses[self.root(output)] = uses.get(self.root(output), 0) + 1
            learned = parameters(node)
            for given in set(node.inputs):
                root = self.root(given)
                if given not in handed or given in learned.values():
                    uses[root] = uses.get(root, 0) + node.inputs.count(given)
            users.update({self.root(given): (node, name) for name, given in learned.items()})
        for output in graph.outputs.values():
            uses[output] = uses.get(output, 0) + 1
        for weight, (user, name) in users.items():
            if (
                uses[weight] == 1
                and is_weight(weight)
                and weight.op.name == f"{user.name}.{name}"  # type: ignore[attr-defined]
                and clean(user.name) == user.name
            ):
                self.weights.add(weight)
        while any(self._out_of_order(node) for node in everything(graph)):
            pass

    def regions(self, node: Node) -> list[Region]:
        """The bodies of a control operation, with what each is handed from around it."""
        return regions(node, self.read.get(node, 0))

    def root(self, node: Node) -> Node:
        """The value of a node outside of all bodies."""
        while node in self.roots:
            node = self.roots[node]
        return node

    def __contains__(self, node: Node) -> bool:
        return self.root(node) in self.weights

    def _out_of_order(self, node: Node) -> bool:
        """Excludes weights that a body would receive in another order than it does; returns whether
        there were any.

        Learned tensors of a body follow its explicit operands, in the order in which its operations
        learn them.
        """
        regions = self.regions(node)
        if not regions:
            return False
        actual = [self.root(outer) for outer in regions[0].outside.values()]
        mine = [root for root in actual if root in self.weights]
        met: dict[Node, None] = {}
        for region in regions:
            met.update(
                dict.fromkeys(root for root in self._met(region.graph) if root in self.weights)
            )
        if actual[len(actual) - len(mine) :] == mine == list(met):
            return False
        self.weights.difference_update(mine, met)
        return bool(mine or met)

    def _met(self, graph: Graph) -> Iterator[Node]:
        for node in graph.nodes():
            yield from map(self.root, parameters(node).values())
            for region in self.regions(node):
                yield from self._met(region.graph)


def is_weight(node: Node) -> bool:
    """Whether a node is a weight."""
    return isinstance(node.op, Param) and node.op.kind == "weight"


def everything(graph: Graph) -> Iterator[Node]:
    """The nodes of a graph and of its nested graphs."""
    for node in graph.nodes():
        yield node
        for body in node.op.bodies():
            yield from everything(body)
