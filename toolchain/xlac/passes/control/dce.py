"""Removes unused results, carried values and operands of branches and loops.

Other dead nodes need no pass: a graph consists of what its outputs reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from xlac.ir.graph import Graph, Node, walk
from xlac.ir.op import Op
from xlac.ops.control.control import Call, Cond, Pick, Scan, While
from xlac.passes.registry import Pass, register
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.rewriter import everywhere, rebuild
from xlac.passes.rewrite.trace import Trace


@register("dce")
class DcePass(Pass):
    """Removes unused results, carried values and operands of branches and loops."""

    def run(self, graph: Graph, trace: Trace, context: PassContext) -> Graph:
        return everywhere(graph, lambda g: Cleaner(g, trace).run())


class Cleaner:
    """Rewrites one graph that has a control operation."""

    def __init__(self, graph: Graph, trace: Trace) -> None:
        self.graph, self.trace = graph, trace
        self.needed: dict[Node, set[int]] = {}  # results that are picked
        # of a rewritten node: the new number of each result
        self.places: dict[Node, dict[int, int]] = {}

    def run(self) -> Graph:
        """The graph without dead results and operands."""
        for node in self.graph.nodes():
            if isinstance(node.op, Pick):
                self.needed.setdefault(node.inputs[0], set()).add(node.op.index)
        if not self.graph.nested:
            return self.graph
        return rebuild(self.graph, self.visit)

    def visit(self, old: Node, node: Node) -> Node:
        """The rewritten node: a control operation without results that nothing reads."""
        if isinstance(node.op, Pick) and node.inputs[0] in self.places:
            (source,) = node.inputs
            if len(source.results) == 1:
                return source
            index = self.places[source][node.op.index]
            return Node(Pick(index), (source,), source.results[index], node.origin)
        if not isinstance(node.op, Cond | While | Scan | Call):
            return node
        results = self.needed.get(old, set(range(len(old.results))))
        alive = live(node.op, len(node.inputs), results)
        outputs, inputs = alive
        if (len(outputs) == len(node.results) and len(inputs) == len(node.inputs)) or not outputs:
            return node
        if not self.trace.permits("dce", node):
            return node
        new = Node.of(
            pruned(node.op, outputs, inputs), *(node.inputs[i] for i in inputs), origin=node.origin
        )
        self.places[new] = {old_place: place for place, old_place in enumerate(outputs)}
        return new


def live(op: Op, count: int, results: set[int]) -> tuple[list[int], list[int]]:
    """The results and operands of an operation that are needed for the results `wanted`."""
    match op:
        case Cond(branches=branches):
            used = {0}.union(*({1 + i for i in reached(b, results)} for b in branches))
            return sorted(results), sorted(used)
        case Call(body=body) if body is not None:
            return sorted(results), sorted(reached(body, results))
        case While(cond=cond, body=body) if cond is not None and body is not None:
            kept = results | reached(cond, {0})
            while not (more := reached(body, kept)) <= kept:
                kept = kept | more
            return sorted(kept), sorted(kept)
        case Scan(body=body, carries=carries) if body is not None:
            kept = set(results)
            while not (more := {i for i in reached(body, kept) if i < carries}) <= kept:
                kept = kept | more
            steady = {i for i in kept if i < carries}
            return sorted(kept), sorted(steady | reached(body, kept))
    return sorted(results), list(range(count))


def reached(body: Graph, results: Iterable[int]) -> set[int]:
    """The inputs of a body that some of its outputs depend on."""
    outputs = list(body.outputs.values())
    seen = set(walk([outputs[i] for i in sorted(results)]))
    return {place for place, node in enumerate(body.inputs) if node in seen}


def pruned(op: Op, outputs: Sequence[int], inputs: Sequence[int]) -> Op:
    """The operation with those results and operands only."""
    match op:
        case Cond(branches=branches):
            return replace(
                op,
                branches=tuple(_body(b, outputs, [i - 1 for i in inputs if i]) for b in branches),
            )
        case Call(body=body) if body is not None:
            return replace(op, body=_body(body, outputs, inputs))
        case While(cond=cond, body=body) if cond is not None and body is not None:
            return replace(op, cond=_body(cond, [0], inputs), body=_body(body, outputs, inputs))
        case Scan(body=body) if body is not None:
            end = op.carries + op.scanned
            carries, scanned = (
                sum(i < op.carries for i in inputs),
                sum(op.carries <= i < end for i in inputs),
            )
            return replace(op, body=_body(body, outputs, inputs), carries=carries, scanned=scanned)
    raise TypeError(f"{op.mnemonic} has no body")


def _body(body: Graph, outputs: Sequence[int], inputs: Sequence[int]) -> Graph:
    names = list(body.outputs)
    return Graph(
        body.name,
        tuple(body.inputs[i] for i in inputs),
        {names[i]: body.outputs[names[i]] for i in outputs},
    )
