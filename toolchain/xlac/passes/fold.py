"""Folds expressions of constants, and turns expressions of weights into derived weights.

Constants are folded where the result is small or no larger than its sources. A weight expression
becomes a derived weight, computed when it is first read: no weights file is read here.
"""

from __future__ import annotations

from xlac.ir.graph import Graph, Node, walk
from xlac.ir.interpret import evaluate
from xlac.ir.op import Array, frozen_array
from xlac.ir.types import Type
from xlac.ops.control import control, effect
from xlac.ops.cost import cost
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.leaf import Const, Iota, Param, RngBits
from xlac.ops.tensor.view import Broadcast, Reshape
from xlac.passes.expand import is_expanded
from xlac.passes.registry import Pass, at_least, register
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.rewriter import everywhere, rebuild
from xlac.passes.rewrite.trace import Trace
from xlac_sdk.dtypes import DType

OPAQUE = (
    control.While, control.Scan, control.Cond, control.Call, control.Pick, effect.CustomCall,
    effect.Barrier, RngBits,
)  # fmt: skip

WIDENED = (DType.I32, DType.I64)


@register("fold")
class FoldPass(Pass):
    """Folds constants, and derives weights.

    A constant of up to `small` bytes may be made from smaller ones; intermediate values of more
    than `work` bytes, or that take more than `operations`, are not computed at compile time.
    """

    small: int = at_least(0, 4096)
    work: int = at_least(0, 4 << 20)
    operations: int = at_least(0, 1 << 26)

    def run(self, graph: Graph, trace: Trace, context: PassContext) -> Graph:
        return everywhere(graph, lambda g: Folder(self, trace, context).run(g))


class Folder:
    """Finds the largest expressions whose leaves are constants (or weights) and replaces each by
    its value.
    """

    def __init__(self, limits: FoldPass, trace: Trace, context: PassContext) -> None:
        self.limits, self.trace, self.context = limits, trace, context
        self.sources: dict[Node, int] = {}  # bytes of the leaves under each foldable node
        self.weighted: set[Node] = set()  # foldable nodes with a weight among their leaves
        self.values: dict[Node, tuple[Array, ...]] = {}

    def run(self, graph: Graph) -> Graph:
        """The graph with constants folded and weights derived."""
        nodes = list(graph.nodes())
        for node in nodes:
            self.classify(node)
        needed = {node for node in graph.outputs.values() if node in self.sources}
        for node in reversed(nodes):
            if node not in self.sources or (node in needed and not self.whole(node)):
                needed.update(i for i in node.inputs if i in self.sources)
        if not any(self.whole(node) for node in needed):
            return graph
        return rebuild(
            graph,
            lambda old, new: self.value(old, new) if old in needed and self.whole(old) else new,
        )

    def classify(self, node: Node) -> None:
        """Records what a node depends on, where that is constants and weights only."""
        op = node.op
        if isinstance(op, Iota):
            if node.type.nbytes <= self.limits.work:
                self.sources[node] = 0
        elif isinstance(op, Const):
            self.sources[node] = node.type.nbytes
        elif isinstance(op, Param) and op.kind == "weight":
            self.sources[node] = node.type.nbytes
            self.weighted.add(node)
        elif (
            node.inputs
            and not isinstance(op, OPAQUE)
            and not is_expanded(op)
            and all(i in self.sources for i in node.inputs)
        ):
            if not isinstance(node.types, Type) or not all(
                isinstance(size, int) for size in node.shape
            ):
                return
            sources = sum(self.sources[i] for i in dict.fromkeys(node.inputs))
            weighted = any(i in self.weighted for i in node.inputs)
            most = max(self.limits.small, 4 * sources) if weighted else self.limits.work
            if not isinstance(op, Broadcast) and node.type.nbytes > most:
                return
            if not weighted and cost(node).flops > self.limits.operations:
                return
            self.sources[node] = sources
            if weighted:
                self.weighted.add(node)

    def whole(self, node: Node) -> bool:
        """Whether a foldable node is worth a stored value: broadcasts, reshapes and counters are
        free, and so are weights widened from half precision, which kernels convert as they read
        them and libraries take unconverted. Arrays widened from 32 to 64 bits stay narrow too:
        processors multiply numbers known to have 32 bits faster.
        """
        if not node.inputs or isinstance(node.op, Broadcast | Reshape):
            return False
        narrow = node.inputs[0].type.dtype
        if isinstance(node.op, Cast) and node.shape and (narrow, node.type.dtype) == WIDENED:
            return False
        if (
            node in self.weighted
            and isinstance(node.op, Cast)
            and narrow.is_half
            and node.type.dtype is narrow.compute
        ):
            return False
        return node.type.nbytes <= max(self.limits.small, self.sources[node])

    def value(self, old: Node, new: Node) -> Node:
        """A node as a constant or a derived weight."""
        if not self.trace.permits("fold", old):
            return new
        if old in self.weighted:
            return self.context.weights.derive(new)
        for node in walk([old]):
            if node not in self.values:
                self.values[node] = evaluate(node, [self.values[i] for i in node.inputs])
        return Node.of(Const(frozen_array(self.values[old][0])), origin=old.origin)
