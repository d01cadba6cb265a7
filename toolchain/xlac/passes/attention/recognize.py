"""Replaces attention written as softmax(scale * q k' + mask) v by `attention`, for targets that
take that operation whole.

Axes may come in any order; heads share keys by repeated keys or by queries that have more axes.
Nothing else may read the scores or the weights. `attention` computes in f32 and rounds to half
precision at its end, so where the original rounds more often, precision has to be fast. A score
divided by a number is multiplied by its reciprocal.
"""

from __future__ import annotations

from dataclasses import replace

from xlac.ir.graph import Graph, Node, walk
from xlac.ops.checks import FLOATS
from xlac.ops.nn.probability import Softmax
from xlac.ops.reduction.contraction import Dot
from xlac.ops.scalar.convert import Cast
from xlac.ops.scalar.exponential import Exp
from xlac.passes.attention.axis_factors import VIEWS, Axes, Factors, Ints
from xlac.passes.attention.build import attention, operands
from xlac.passes.attention.scores import Scores, scores, softmax
from xlac.passes.registry import Pass, register
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.rewriter import everywhere, readers, rebuild
from xlac.passes.rewrite.trace import Trace
from xlac_sdk.dtypes import DType


@register("recognize-attention")
class RecognizeAttentionPass(Pass):
    """Replaces attention written as simpler operations, for targets that take it whole."""

    def run(self, graph: Graph, trace: Trace, context: PassContext) -> Graph:
        return everywhere(graph, lambda g: Finder(trace, context).run(g))


class Finder:
    """Rewrites one graph whose bodies are rewritten already."""

    def __init__(self, trace: Trace, context: PassContext) -> None:
        self.trace, self.context = trace, context
        self.readers: dict[Node, int] = {}

    def run(self, graph: Graph) -> Graph:
        """The graph with all attention replaced."""
        if not any(isinstance(node.op, Exp | Softmax) for node in graph.nodes()):
            return graph
        self.readers = readers(graph)

        def visit(old: Node, node: Node) -> Node:
            self.readers[node] = self.readers[old]
            replaced = self.attention_of(node)
            self.readers[replaced] = self.readers[old]
            return replaced

        return rebuild(graph, visit)

    def attention_of(self, node: Node) -> Node:
        """The attention that a node is the result of, or the node."""
        product = (
            node.inputs[0] if isinstance(node.op, Cast) and self.read(node.inputs[0]) == 1 else node
        )
        if isinstance(product.op, Dot):
            for side in range(2):
                better = self.attended(product, side, node.type.dtype)
                if (
                    better is not None
                    and self.context.choices.applies("attention", node)
                    and self.trace.permits("attention", node)
                ):
                    return self.blamed(better, node)
        return node

    def blamed(self, better: Node, node: Node) -> Node:
        """New nodes with the origin of the one that they replace."""
        new: dict[Node, Node] = {}
        for new_nodes in walk((better,), self.readers):
            new[new_nodes] = replace(
                new_nodes,
                inputs=tuple(new.get(i, i) for i in new_nodes.inputs),
                origin=new_nodes.origin or node.origin,
            )
        return new.get(better, better)

    def read(self, node: Node) -> int:
        """The number of nodes that read a value."""
        return self.readers.get(node, 1)

    def attended(self, product: Node, side: int, dtype: DType) -> Node | None:
        """The attention of type `dtype` for a product with weights over keys as the operand `side`;
        None where it is not one.
        """
        assert isinstance(product.op, Dot)
        values = product.inputs[1 - side]
        if values.type.dtype is not dtype or dtype not in FLOATS:
            return None
        factors = Factors()
        result = factors.of(product.shape)
        axes = operands(factors, product, result)
        keys = factors.flat(
            *(axes[side][a] for a in (product.op.contract_lhs, product.op.contract_rhs)[side])
        )
        known = self.scores(factors, product.inputs[side], axes[side], keys, dtype)
        if known is None or any(x.type.dtype is not dtype for x in known.dot.inputs):
            return None
        recognized = attention(factors, known, keys, (values, axes[1 - side]), result)
        return (
            recognized[1]
            if recognized is not None and self.context.is_kept(recognized[0], self.context.target)
            else None
        )

    def scores(
        self, factors: Factors, weights: Node, axes: Axes, keys: Ints, dtype: DType
    ) -> Scores | None:
        """The scores whose softmax over keys the weights are, if they are rounded as an attention
        of type `dtype` would; otherwise None.
        """
        node, rounded = weights, False
        while isinstance(node.op, (*VIEWS, Cast)) and self.read(node) == 1:
            below = axes if isinstance(node.op, Cast) else factors.below(node, axes)
            if below is None or len(factors.flat(*below)) != len(factors.flat(*axes)):
                return None
            rounded = rounded or (node.type.dtype.is_half and node.type.dtype is not dtype)
            (node,), axes = node.inputs, below
        if not keys or self.read(node) != 1 or (match := softmax(node, self.read)) is None:
            return None
        start, axis = match
        if factors.flat(axes[axis]) != factors.flat(keys):
            return None
        known = scores(start, axes, factors, self.read)
        rounded = rounded or node.type.dtype.is_half or (known is not None and known.rounded)
        return None if rounded and not self.context.fast else known
