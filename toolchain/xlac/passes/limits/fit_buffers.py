"""Operations within the buffers of a launch (`Target.most_buffers`): one with more operands and
results becomes several.

    concat(a, b, c, d, e)        >>  concat(concat(a, b, c), d, e)
    dyn_slice(x, i, j, k)        >>  dyn_slice(x, s[0], s[1], s[2]), where s = concat(i, j, k)
    sort(key, a, b, c)           >>  place = sort(key, iota), then a, b and c taken at place

It runs last, since simplification merges concatenations. Fusion computes what this pass took apart
in kernels of their own, where one would read too much (`fusion/buffers.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from xlac.ir.dims import size_hint, upper_bound
from xlac.ir.graph import Graph, Node, walk
from xlac.ops import build
from xlac.ops.control.control import Pick
from xlac.ops.reduction.order import Sort
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.reduction.window import Window
from xlac.ops.tensor.dynamic_slice import DynSlice, DynUpdate
from xlac.ops.tensor.extend import Concat
from xlac.ops.tensor.index import taken_along
from xlac.ops.tensor.leaf import Const, Param
from xlac.passes.registry import Pass, register
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.rewriter import everywhere, rebuild
from xlac.passes.rewrite.trace import Trace
from xlac_sdk.dtypes import DType

PAIR = 4  # buffers of a sort by one key that moves another tensor


@register("fit-buffers")
class FitBuffersPass(Pass):
    """Divides operations with more operands and results than a launch of the target takes."""

    def run(self, graph: Graph, trace: Trace, context: PassContext) -> Graph:
        most = context.target.most_buffers
        return everywhere(graph, lambda g: _Divider(most, trace).run(g)) if most else graph


class _Divider:
    """Rewrites one graph for launches of at most `most` buffers."""

    def __init__(self, most: int, trace: Trace) -> None:
        self.most, self.trace = most, trace
        self.results: dict[Node, Sequence[Node]] = {}  # of sorts that were divided

    def run(self, graph: Graph) -> Graph:
        """The graph with operations divided; what cannot be is as before, and refused later."""
        return rebuild(graph, self.visit)

    def visit(self, old: Node, node: Node) -> Node:
        """What replaces a node."""
        if isinstance(old.op, Pick) and old.inputs[0] in self.results:
            return self.results[old.inputs[0]][old.op.index]
        if not isinstance(node.op, Concat | DynSlice | DynUpdate | Reduce | Window | Sort):
            return node
        if buffers(node.inputs) + len(build.results(node)) <= self.most:
            return node
        if not self.trace.permits("within the buffers of a launch", node):
            return node
        op, xs = node.op, node.inputs
        match op:
            case Concat():
                return nested(node, self.most - 1)
            case DynSlice() | DynUpdate():
                first = 1 if isinstance(op, DynSlice) else 2
                return node.with_inputs((*xs[:first], *self.packed(xs[first:])))
            case Sort():
                if (results := self.sorted_apart(op, xs)) is not None:
                    self.results[old] = results
                return node
        return node.with_inputs(tuple(self.packed(xs)))

    def packed(self, xs: Sequence[Node]) -> list[Node]:
        """Tensors as parts of one tensor for each element type and shape."""
        made = dict[Node, Node]()
        for kind in dict.fromkeys(x.type for x in xs):
            alike = list(dict.fromkeys(x for x in xs if x.type == kind))
            if buffers(alike) < 2:
                continue
            rows = [build.reshape(x, (1, *x.shape)) for x in alike]
            whole = build.concat(rows, 0)
            if buffers(rows) > self.most - 1:
                whole = nested(whole, self.most - 1)
            for number, x in enumerate(alike):
                made[x] = build.reshape(build.cut(whole, 0, number, number + 1), x.shape)
        return [made.get(x, x) for x in xs]

    def sorted_apart(self, op: Sort, xs: Sequence[Node]) -> Sequence[Node] | None:
        """The results of a sort: the places of the elements in their order, and each tensor taken
        there. Without a body a sort is one by each key, the last first, as sorts are stable.
        """
        most = upper_bound(xs[0].shape[op.axis])
        dtype = DType.I32 if most < 1 << 31 else DType.I64
        line = build.apply1("iota", shape=xs[0].shape, axis=op.axis, dtype=dtype)
        if op.body is not None:
            keys = [n for n in range(len(xs)) if _reads(op.body, n)]
            if 2 * (len(keys) + 1) > self.most:
                return None
            body = op.body
            given = [body.inputs[2 * n + side] for n in keys for side in (0, 1)]
            extra = [Node.of(Param(f"line{n}", line.type.with_shape(()))) for n in range(2)]
            sort = replace(op, body=replace(body, inputs=(*given, *extra)))
            order = build.results(Node.of(sort, *(xs[n] for n in keys), line))[-1]
        elif self.most < PAIR:
            return None
        else:
            order = line
            for n in reversed(range(op.keys)):
                key = xs[n] if order is line else taken_along(xs[n], order, op.axis)
                sort = replace(op, keys=1, kept=op.kept if n == 0 else None)
                order = build.results(Node.of(sort, key, order))[-1]
        return [taken_along(x, order, op.axis) for x in xs]


def buffers(nodes: Iterable[Node]) -> int:
    """The tensors that a kernel reads from memory, each once; uniform constants are in its code."""
    found = dict.fromkeys(nodes)
    return sum(not isinstance(n.op, Const) or n.op.uniform is None for n in found)


def nested(node: Node, most: int) -> Node:
    """A concatenation as concatenations of at most `most` tensors each. Those that are written
    twice are the smallest that suffice.
    """
    op, xs = node.op, list(node.inputs)
    assert isinstance(op, Concat)
    while (count := buffers(xs)) > most > 1:
        width = min(most, count - most + 1)
        sizes = [size_hint(x.type.size) for x in xs]
        starts = range(len(xs) - width + 1)
        start = min(starts, key=lambda at: sum(sizes[at : at + width]))
        xs[start : start + width] = [Node.of(op, *xs[start : start + width], origin=node.origin)]
    return Node.of(op, *xs, origin=node.origin)


def _reads(body: Graph, number: int) -> bool:
    """Whether a sort's body compares its tensor of a number."""
    read = set(walk(body.outputs.values()))
    return not read.isdisjoint(body.inputs[2 * number : 2 * number + 2])
