"""Merges products of several values with one matrix into one product, which reads the matrix once.

The steps of an unrolled recurrence multiply their inputs, or the outputs of the layer below, by the
same weights. None of these products depends on another, so they can be computed together. This pays
where each has a few rows only, and the matrix is too large to stay in the first-level cache between
products; a user may ask for others, of up to MOST rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlac.ir.graph import Graph, Node
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac.passes.registry import Pass, at_least, register
from xlac.passes.rewrite.choices import RewriteChoices
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.rewriter import everywhere, rebuild
from xlac.passes.rewrite.trace import Trace

MOST = 64  # rows of a product that a user may ask to be merged


@register("merge-dots-sharing-rhs")
class MergeDotsSharingRhsPass(Pass):
    """Merges products of several values with one matrix.

    Products of more than `rows` rows are not merged, since reading the matrix again does not matter
    there; at most `rounds` merges are made per graph.
    """

    rows: int = at_least(0, 8)
    rounds: int = at_least(0, 64)

    def run(self, graph: Graph, trace: Trace, context: PassContext) -> Graph:
        near = context.target.shipped.l1_bytes // 2
        return everywhere(graph, lambda g: joined(g, self, trace, context.choices, near))


def joined(
    graph: Graph, limits: MergeDotsSharingRhsPass, trace: Trace, choices: RewriteChoices, near: int
) -> Graph:
    """A graph, whose bodies are done, with products by matrices of more than `near` bytes
    merged.
    """
    what = "products by one matrix"

    def chosen(level: list[Node]) -> bool:
        usual = few(level[0], limits.rows) and level[0].inputs[1].type.nbytes > near
        return len(level) > 1 and choices.applies(what, level[0], usual)

    most, least = (MOST, 0) if choices.every else (limits.rows, near)
    for _ in range(limits.rounds):
        alike = (
            level for products in by_matrix(graph, most, least) for level in levels(graph, products)
        )
        products = next(filter(chosen, alike), None)
        if products is None or not trace.permits(what, products[0]):
            break
        graph = together(graph, products)
    return graph


def by_matrix(graph: Graph, most: int, near: int) -> list[list[Node]]:
    """Products of at most `most` rows that read the same matrix, of more than `near` bytes, and
    differ only in the other operand.
    """
    products_by_matrix: dict[object, list[Node]] = {}
    for node in graph.nodes():
        if not isinstance(node.op, Dot) or node.op.batch_lhs:
            continue
        left, right = node.inputs
        if few(node, most) and right.type.nbytes > near:
            products_by_matrix.setdefault((node.op, left.types, right), []).append(node)
    return [products for products in products_by_matrix.values() if len(products) > 1]


def few(node: Node, most: int) -> bool:
    """Whether a product has at most `most` rows per batch element."""
    assert isinstance(node.op, Dot)
    rows = node.op.rows(*(i.type for i in node.inputs))
    return isinstance(rows, int) and rows <= most


def levels(graph: Graph, products: Sequence[Node]) -> list[list[Node]]:
    """The products in levels, such that those of one level do not depend on each other."""
    wanted, depth = set(products), dict[Node, int]()
    products_by_depth: dict[int, list[Node]] = {}
    for node in graph.nodes():
        depth[node] = max((depth[i] for i in node.inputs), default=0) + (node in wanted)
        if node in wanted:
            products_by_depth.setdefault(depth[node], []).append(node)
    return list(products_by_depth.values())


def together(graph: Graph, products: Sequence[Node]) -> Graph:
    """The graph with one product in place of several independent ones."""
    first = products[0]
    op, (left, right) = first.op, first.inputs
    assert isinstance(op, Dot)
    rows = build.concat([build.reshape(node.inputs[0], (1, *left.shape)) for node in products], 0)
    whole = Node.of(
        replace(op, contract_lhs=tuple(axis + 1 for axis in op.contract_lhs)),
        rows,
        right,
        origin=first.origin,
    )
    parts = {
        node: build.reshape(build.cut(whole, 0, n, n + 1), node.shape)
        for n, node in enumerate(products)
    }
    return rebuild(graph, lambda old, node: parts.get(old, node))
