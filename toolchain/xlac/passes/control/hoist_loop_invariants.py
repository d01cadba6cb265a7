"""Hoists loop-invariant work: computes it once, before the loop.

* a carried value that no iteration changes becomes an operand that all iterations share (scan), or
  an invariant carry (while);
* an expression over such values moves out of the loop, and its value becomes one of them;
* a product of a slice of a scanned tensor with an invariant, `x[t] @ w`, becomes one product of the
  whole tensor before the scan, whose slices enter: one large product runs many times faster than
  many small ones.
"""

from __future__ import annotations

from dataclasses import replace

from xlac.ir.graph import Graph, Node
from xlac.ops.control.control import Pick, Scan, While
from xlac.ops.reduction.contraction import Dot
from xlac.ops.tensor.leaf import Param
from xlac.ops.values import results
from xlac.passes.control.loop_values import movable, outside, product, stacked, substituted
from xlac.passes.registry import Pass, register
from xlac.passes.rewrite.choices import RewriteChoices
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.rewriter import everywhere, rebuild
from xlac.passes.rewrite.trace import Trace


@register("hoist-loop-invariants")
class HoistLoopInvariantsPass(Pass):
    """Hoists work that is the same in every iteration, and products of all iterations, out of
    loops.
    """

    def run(self, graph: Graph, trace: Trace, context: PassContext) -> Graph:
        return everywhere(graph, lambda g: Hoister(trace, context.choices).run(g))


class Hoister:
    """Rewrites the loops of one graph."""

    def __init__(self, trace: Trace, choices: RewriteChoices) -> None:
        self.trace, self.choices = trace, choices
        self.parts: dict[Node, tuple[Node, ...]] = {}  # of a rewritten loop: its results

    def run(self, graph: Graph) -> Graph:
        """The graph with invariant work hoisted out of its loops."""
        if not any(isinstance(node.op, Scan | While) for node in graph.nodes()):
            return graph
        return rebuild(graph, self.visit)

    def visit(self, old: Node, node: Node) -> Node:
        """The rewritten node."""
        if isinstance(node.op, Pick) and node.inputs[0] in self.parts:
            return self.parts[node.inputs[0]][node.op.index]
        if isinstance(node.op, Scan):
            hoisted = self.scan(node)
        elif isinstance(node.op, While):
            hoisted = self.loop(node)
        else:
            return node
        if hoisted is None:
            return node
        if len(hoisted) == 1:
            return hoisted[0]
        self.parts[node] = hoisted
        return node

    # ---- scan ----------------------------------------------------------------------------

    def scan(self, node: Node) -> tuple[Node, ...] | None:
        """The results of an improved scan, or None."""
        changed = False
        state = LoopParts.of_scan(node)
        for step in (self.settle_carries, self.hoist_shared, self.hoist_products):
            changed |= step(state)
        return state.scan_results(node) if changed else None

    def settle_carries(self, loop: LoopParts) -> bool:
        """Turns carried values that no iteration changes into shared operands."""
        still = [
            i
            for i, (given, param) in enumerate(zip(loop.next, loop.carried, strict=True))
            if given is param
        ]
        still = [i for i in still if self.trace.permits("loops: unchanged carry", loop.first[i])]
        for i in reversed(still):
            loop.fixed[loop.numbers[i]] = loop.first[i]
            loop.shared.append(loop.carried.pop(i))
            loop.outer.append(loop.first.pop(i))
            loop.next.pop(i)
            loop.numbers.pop(i)
        return bool(still)

    def hoist_products(self, loop: LoopParts) -> bool:
        """Hoists products of slices with shared operands, as one product of all slices."""
        if not isinstance(loop.length, int) or loop.length < 2:
            return False
        sliced = dict(zip(loop.slices, loop.scanned, strict=True))
        shared = dict(zip(loop.shared, loop.outer, strict=True))
        new: dict[Node, Node] = {}
        for node in loop.nodes():
            if not isinstance(node.op, Dot) or node.op.batch_lhs:
                continue
            sides = [(stacked(i, sliced), outside(i, shared)) for i in node.inputs]
            whole = product(node, sides)
            what = "loops: product of all slices"
            if whole is None or not self.choices.applies(what, node):
                continue
            if not self.trace.permits(what, node):
                continue
            slice_ = Node.of(
                Param(f"slice{len(loop.slices)}_{node.op.mnemonic}", node.type), origin=node.origin
            )
            new[node] = slice_
            loop.slices.append(slice_)
            loop.scanned.append(whole)
        loop.replace(new)
        return bool(new)

    def hoist_shared(self, loop: LoopParts) -> bool:
        """Hoists expressions over shared operands."""
        shared = dict(zip(loop.shared, loop.outer, strict=True))
        new: dict[Node, Node] = {}
        for node, value in movable(loop.nodes(), loop.next + loop.yields, shared).items():
            if not self.trace.permits("loops: invariant", node):
                continue
            new[node] = Node.of(
                Param(f"shared{len(loop.shared)}_{node.op.mnemonic}", node.type), origin=node.origin
            )
            loop.shared.append(new[node])
            loop.outer.append(value)
        loop.replace(new)
        return bool(new)

    # ---- while ---------------------------------------------------------------------------

    def loop(self, node: Node) -> tuple[Node, ...] | None:
        """The results of an improved while loop, whose invariants are further carried values that
        no iteration changes; or None.
        """
        op = node.op
        assert isinstance(op, While) and op.body is not None and op.cond is not None
        outputs = list(op.body.outputs.values())
        shared = {
            p: given
            for p, given, out in zip(op.body.inputs, node.inputs, outputs, strict=True)
            if out is p
        }
        new: dict[Node, Node] = {}
        more: list[Node] = []
        for inner, value in movable(list(op.body.nodes()), outputs, shared).items():
            if not self.trace.permits("loops: invariant", inner):
                continue
            new[inner] = Node.of(
                Param(f"shared{len(more)}_{inner.op.mnemonic}", inner.type), origin=inner.origin
            )
            more.append(value)
        if not new:
            return None
        changed = substituted(outputs, new)
        params = tuple(new.values())
        extra = {
            f"shared{n}_{p.op.name}": p for n, p in enumerate(params) if isinstance(p.op, Param)
        }
        body = Graph(
            op.body.name,
            (*op.body.inputs, *params),
            dict(zip(op.body.outputs, changed, strict=True)) | extra,
        )
        unused = tuple(Node.of(p.op) for p in params)
        cond = Graph(op.cond.name, (*op.cond.inputs, *unused), op.cond.outputs)
        longer = replace(op, cond=cond, body=body)
        loop_node = Node.of(longer, *node.inputs, *more, origin=node.origin)
        return results(loop_node)[: len(node.results)]


class LoopParts:
    """The parts of a scan while it is being rewritten."""

    def __init__(self) -> None:
        self.length: object = 0
        # parameters of the body, and their operands
        self.carried: list[Node] = []
        self.first: list[Node] = []
        self.slices: list[Node] = []
        self.scanned: list[Node] = []
        self.shared: list[Node] = []
        self.outer: list[Node] = []
        self.next: list[Node] = []  # outputs of the body: next carried values, then stacked results
        self.yields: list[Node] = []
        # the number of the original scan's result for each carried value
        self.numbers: list[int] = []
        self.fixed: dict[int, Node] = {}  # results that are known without running the loop

    @staticmethod
    def of_scan(node: Node) -> LoopParts:
        """The parts of a scan's body."""
        op = node.op
        assert isinstance(op, Scan) and op.body is not None
        loop = LoopParts()
        loop.length = op.length
        inside, given = op.parts(op.body.inputs), op.parts(node.inputs)
        loop.carried, loop.slices, loop.shared = (list(part) for part in inside)
        loop.first, loop.scanned, loop.outer = (list(part) for part in given)
        outputs = list(op.body.outputs.values())
        loop.next, loop.yields = outputs[: op.carries], outputs[op.carries :]
        loop.numbers = list(range(op.carries))
        return loop

    def nodes(self) -> list[Node]:
        """The nodes of the body."""
        return list(
            Graph("", (), {str(n): node for n, node in enumerate(self.next + self.yields)}).nodes()
        )

    def replace(self, new: dict[Node, Node]) -> None:
        """Substitutes nodes of the body."""
        count = len(self.next)
        outputs = substituted(self.next + self.yields, new)
        self.next, self.yields = outputs[:count], outputs[count:]

    def scan_results(self, old: Node) -> tuple[Node, ...]:
        """The results of the original scan, from a new one with these parts."""
        op = old.op
        assert isinstance(op, Scan) and op.body is not None
        known = [None if i in self.fixed else i for i in range(len(old.results))]
        outputs = {f"y{n}": node for n, node in enumerate(self.next + self.yields)}
        if not outputs:
            return tuple(self.fixed[i] for i in range(len(old.results)))
        body = Graph(op.body.name, (*self.carried, *self.slices, *self.shared), outputs)
        new = replace(op, body=body, carries=len(self.carried), scanned=len(self.slices))
        scanned_results = results(
            Node.of(new, *self.first, *self.scanned, *self.outer, origin=old.origin)
        )
        places = {
            number: place
            for place, number in enumerate([*self.numbers, *range(op.carries, len(old.results))])
        }
        return tuple(
            self.fixed[n] if i is None else scanned_results[places[i]] for n, i in enumerate(known)
        )
