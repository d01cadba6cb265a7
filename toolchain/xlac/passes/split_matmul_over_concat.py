"""Products of few rows with a concatenation: each part is multiplied where it lies, without writing
the concatenation.

A decoder appends the keys and values of a new token to its cache, and multiplies one row of queries
by all of them: writing the concatenation would take longer than the product. So each part gets a
product of its own. Their results are concatenated where the parts were columns, and added where the
parts were summed over.
"""

from __future__ import annotations

from functools import reduce
from itertools import accumulate, pairwise

from xlac.ir.dims import Shape
from xlac.ir.graph import Graph, Node
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac.ops.tensor.extend import Concat
from xlac.ops.tensor.view import Reshape, Transpose
from xlac.passes.merge_dots_sharing_rhs import few
from xlac.passes.registry import Pass, at_least, register
from xlac.passes.rewrite.choices import RewriteChoices
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.rewriter import everywhere, readers, rebuild
from xlac.passes.rewrite.trace import Trace


@register("split-matmul-over-concat")
class SplitMatmulOverConcatPass(Pass):
    """Multiplies by the parts of a concatenation separately.

    A product of more than `rows` rows takes longer than writing its operand; concatenations of more
    than `parts` parts are unchanged.
    """

    rows: int = at_least(0, 8)
    parts: int = at_least(0, 4)

    def run(self, graph: Graph, trace: Trace, context: PassContext) -> Graph:
        near = context.target.shipped.l1_bytes
        return everywhere(graph, lambda g: divided(g, self, trace, context.choices, near))


def divided(
    graph: Graph,
    limits: SplitMatmulOverConcatPass,
    trace: Trace,
    choices: RewriteChoices,
    near: int,
) -> Graph:
    """A graph, whose bodies are done, with products of concatenations of more than `near` bytes
    split.
    """
    if not any(isinstance(node.op, Concat) for node in graph.nodes()):
        return graph
    count, what = readers(graph), "products of a concatenation's parts"

    def visit(old: Node, node: Node) -> Node:
        if not isinstance(node.op, Dot):
            return node
        usual = (
            node.inputs[1].type.nbytes > near
            and few(node, limits.rows)
            and all(count[n] <= 1 for n in chain(old.inputs[1]))
        )
        if not usual and not choices.every:
            return node
        better = by_parts(node, limits.parts)
        if better is None or not choices.applies(what, node, usual):
            return node
        return better if trace.permits(what, node) else node

    return rebuild(graph, visit)


def chain(node: Node) -> list[Node]:
    """The concatenation beneath a chain of views, and the views; None where there is none."""
    views = [node]
    while isinstance(views[-1].op, Reshape | Transpose):
        views += views[-1].inputs
    return views[::-1] if isinstance(views[-1].op, Concat) else []


def by_parts(node: Node, most: int) -> Node | None:
    """A product whose right operand is a view of a concatenation, computed from products of the
    parts.
    """
    op, (left, right) = node.op, node.inputs
    assert isinstance(op, Dot)
    whole, *views = chain(right) or (right,)
    if not isinstance(whole.op, Concat) or len(whole.inputs) > most:
        return None
    sizes = [part.shape[whole.op.axis] for part in whole.inputs]
    parts, axis = list(whole.inputs), whole.op.axis
    for view in views:
        if isinstance(view.op, Transpose):
            axis, parts = view.op.perm.index(axis), [Node.of(view.op, part) for part in parts]
            continue
        place = same_axis(view.inputs[0].shape, axis, view.shape)
        if place is None:
            return None
        axis = place
        parts = [
            build.reshape(part, (*view.shape[:axis], n, *view.shape[axis + 1 :]))
            for part, n in zip(parts, sizes, strict=True)
        ]
    if axis in op.batch_rhs:
        return None
    if axis not in op.contract_rhs:
        free = op.free(left.type.rank, right.type.rank)[1]
        products = [Node.of(op, left, part, origin=node.origin) for part in parts]
        return build.concat(products, node.type.rank - len(free) + free.index(axis))
    if node.type.dtype.is_half:
        return None  # each part would be rounded
    along, ends = op.contract_lhs[op.contract_rhs.index(axis)], list(accumulate(sizes, initial=0))
    rows = [build.cut(left, along, start, stop) for start, stop in pairwise(ends)]
    return reduce(
        build.add,
        (Node.of(op, row, part, origin=node.origin) for row, part in zip(rows, parts, strict=True)),
    )


def same_axis(old: Shape, axis: int, new: Shape) -> int | None:
    """The position of an axis after a reshape that only adds or removes units."""
    before, after = ([a for a, n in enumerate(shape) if n != 1] for shape in (old, new))
    same = [old[a] for a in before] == [new[a] for a in after]
    return after[before.index(axis)] if same and axis in before else None
