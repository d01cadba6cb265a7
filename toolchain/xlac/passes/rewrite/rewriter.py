"""Applies rules to a graph and to the graphs inside it, bottom-up, in time linear in the nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from xlac.ir.graph import Graph, Node, map_bodies
from xlac.ir.op import Op
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.rule import Rule
from xlac.passes.rewrite.trace import Trace
from xlac_sdk.source import Origin

DEPTH = 64  # nesting depth of rewrites
# rewrites that one node may set off, since rules that undo each other would never end
MOST = 400
ROUNDS = 8  # walks over a graph; each may remove readers that prevented rules in the walk before

Index = dict[type[Op], list[Rule]]


def index(rules: Iterable[Rule], context: PassContext) -> Index:
    """The rules that the precision permits, by the outermost operation of their left sides."""
    by_operation: Index = {}
    for rule in rules:
        if context.fast or not rule.rounding:
            for head in rule.heads:
                by_operation.setdefault(head, []).append(rule)
    return by_operation


class Rewriter:
    """One walk over a graph; also the `Site` of the rules that it tries."""

    def __init__(
        self,
        rules: Index,
        trace: Trace,
        context: PassContext,
        limit: int = MOST,
        settled: set[Node] | None = None,
    ) -> None:
        """`settled` has nodes to which no rule applies; those of this walk are added."""
        self.rules, self.trace, self.context, self.limit = rules, trace, context, limit
        self.settled: set[Node] = set() if settled is None else settled
        # whether a rule, tried again on the same node, could have another result
        self.varies = False
        self.readers: dict[Node, int] = {}
        # nodes that were reached through a node with several readers
        self.shared: set[Node] = set()
        self.refused: set[Node] = set()  # nodes that had several readers when a rule required one
        self.origin: Origin | None = None
        # `make`'s results by operation and inputs, so that equal nodes are made once
        self.interned: dict[object, Node] = {}
        self.visited: set[object] = set()  # operations and inputs of nodes of the graph
        self.depth = self.spent = 0

    def run(self, graph: Graph) -> Graph:
        """The graph with rules applied until none applies."""
        self.readers = readers(graph)

        def visit(old: Node, node: Node) -> Node:
            self.origin, self.spent = node.origin, 0
            with suppress(TypeError):  # an attribute that cannot be hashed
                self.visited.add((node.op, node.inputs))
            if node in self.settled:
                self._look_through(node)
                return node
            self.varies = False
            result = self.settle(node)
            if not self.varies:
                self.settled.add(result)
            if result is not old:
                self.readers[result] = self.readers[old] + self.readers.get(result, 0)
            return result

        return rebuild(graph, visit)

    def make(self, op: Op, *inputs: Node) -> Node:
        """A node to which no more rule applies; equal ones are made once."""
        try:
            known = self.interned.get((op, inputs))
        except TypeError:  # an attribute that cannot be hashed
            return self._made(Node.of(op, *inputs, origin=self.origin))
        if known is None:
            known = self.interned[op, inputs] = self._made(Node.of(op, *inputs, origin=self.origin))
        self.varies = True
        return known

    def with_inputs(self, node: Node, *inputs: Node) -> Node:
        """A node on other inputs, simplified, with the origin that it had."""
        here, self.origin = self.origin, node.origin
        try:
            return self._made(Node.of(node.op, *inputs, origin=node.origin))
        finally:
            self.origin = here

    def _made(self, node: Node) -> Node:
        """What a rule made, simplified; other rules may have decided about it by who reads what."""
        result = self.settle(node)
        self.varies = True
        return result

    def has(self, op: Op, *inputs: Node) -> bool:
        """Whether a rule made this node, or the graph had it, before the one being rewritten."""
        self.varies = True
        return (op, inputs) in self.interned or (op, inputs) in self.visited

    def single(self, node: Node) -> bool:
        """Whether at most one node reads a value."""
        only_reader = self._single(node)
        self.varies = True
        if not only_reader:
            self.refused.add(node)
        return only_reader

    def _single(self, node: Node) -> bool:
        return self.readers.get(node, 1) <= 1 and node not in self.shared

    def unfinished(self, graph: Graph) -> bool:
        """Whether a value that had several readers when a rule required one has only one in the
        rewritten graph.
        """
        if self.refused.isdisjoint(graph.order):
            return False
        left = readers(graph)
        shared = {i for node in graph.order if left[node] > 1 for i in node.inputs}
        return any(left.get(node, 2) <= 1 and node not in shared for node in self.refused)

    def settle(self, node: Node) -> Node:
        """The node rewritten until no rule applies."""
        self._look_through(node)
        if self.depth >= DEPTH or self.spent >= self.limit:
            self.trace.gave_up = self.varies = True
            return node
        self.depth += 1
        try:
            for rule in self.rules.get(type(node.op), ()):
                better = rule.rewrite(node, self)
                if better is None or better is node:
                    continue
                if self.trace.permits(rule, node):
                    self.spent += 1
                    assert better.types == node.types, (
                        f"{rule.name} turns {node.types} into {better.types}"
                    )
                    self.varies = False  # what was tried before is replaced
                    return self.settle(better)
                self.varies = True
            return node
        finally:
            self.depth -= 1

    def _look_through(self, node: Node) -> None:
        """A rule may look through an input to that one's inputs. If the input has other readers it
        remains, so its own inputs then have one more reader than was counted.
        """
        for i in node.inputs:
            if not self._single(i):
                self.shared.update(i.inputs)


def rebuild(graph: Graph, visit: Callable[[Node, Node], Node]) -> Graph:
    """As `Graph.rewrite`, but `visit` also gets the node before its inputs were rewritten."""
    new: dict[Node, Node] = {}
    for node in graph.nodes():
        inputs = tuple(new[i] for i in node.inputs)
        new[node] = visit(node, node if inputs == node.inputs else node.with_inputs(inputs))
    outputs = {name: new[node] for name, node in graph.outputs.items()}
    if outputs == graph.outputs:
        return graph
    return Graph(graph.name, graph.inputs, outputs)


def readers(graph: Graph) -> dict[Node, int]:
    """The number of readers of each node; being an output counts as one."""
    counts: dict[Node, int] = dict.fromkeys(graph.inputs, 0)
    for node in graph.nodes():
        counts.setdefault(node, 0)
        for i in dict.fromkeys(node.inputs):
            counts[i] += 1
    for node in dict.fromkeys(graph.outputs.values()):
        counts[node] += 1
    return counts


def rewrite(
    graph: Graph, rules: Sequence[Rule], trace: Trace, context: PassContext, limit: int = MOST
) -> Graph:
    """The graph with rules applied everywhere, in bodies too; the same object when none applies.

    A node of the graph sets off no more than `limit` rewrites. Nodes to which no rule applied in
    the last walk with these rules are not tried again, but for rules that ask who reads them.
    """
    known = index(rules, context)
    _, settled = context.settled.get(id(rules), (rules, set()))
    context.settled[id(rules)] = rules, settled

    def run(g: Graph) -> Graph:
        for _ in range(ROUNDS):
            walk = Rewriter(known, trace, context, limit, settled)
            before, g = g, walk.run(g)
            if g is before or not walk.unfinished(g):
                break
        return g

    result = everywhere(graph, run)
    if not result.nested:  # nodes that are gone are not kept in memory
        settled.intersection_update(result.order)
    return result


def everywhere(graph: Graph, run: Callable[[Graph], Graph]) -> Graph:
    """Applies a transformation to every graph inside a graph, innermost first, and then to it."""
    done: dict[Graph, Graph] = {}

    def inside(g: Graph) -> Graph:
        if g not in done:
            done[g] = run(bodies_first(g))
        return done[g]

    def bodies_first(g: Graph) -> Graph:
        if not g.nested:
            return g
        return g.rewrite(lambda node: map_bodies(node, inside) if node.op.bodies() else node)

    return inside(graph)
