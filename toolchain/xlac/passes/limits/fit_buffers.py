"""Operations within the buffers of a launch (`Target.most_buffers`): one with more operands and
results becomes several.

    concat(a, b, c, d, e)        >>  concat(concat(a, b, c), d, e)
    dyn_slice(x, i, j, k)        >>  dyn_slice(x, s[0], s[1], s[2]), where s = concat(i, j, k)
    sort(key, a, b, c)           >>  place = sort(key, iota), then a, b and c taken at place
    sort(a, b, c, d, body=f)     >>  place = scan(distances, iota): neighbours in a network compared

It runs last, since simplification merges concatenations. Fusion computes what this pass took apart
in kernels of their own, where one would read too much (`fusion/buffers.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from xlac.ir.dims import size_hint, upper_bound
from xlac.ir.graph import Graph, Node, walk
from xlac.ops import build
from xlac.ops.control.control import Pick, Scan
from xlac.ops.control.lifting import lifted
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
                if (order := self.order(op, xs)) is not None:
                    self.results[old] = [taken_along(x, order, op.axis) for x in xs]
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

    def order(self, op: Sort, xs: Sequence[Node]) -> Node | None:
        """The places of a sort's elements in their order. Without a body a sort is one by each key,
        the last first, as sorts are stable.
        """
        line = build.apply1("iota", shape=xs[0].shape, axis=op.axis, dtype=_counting(op, xs))
        if op.body is not None:
            keys = [n for n in range(len(xs)) if _reads(op.body, n)]
            compared = [xs[n] for n in keys]
            body = op.body
            given = tuple(body.inputs[2 * n + side] for n in keys for side in (0, 1))
            body = replace(body, inputs=given)
            if 2 * (len(keys) + 1) > self.most:
                return _by_network(op, body, compared, line)
            extra = [Node.of(Param(f"line{n}", line.type.with_shape(()))) for n in range(2)]
            sort = replace(op, body=replace(body, inputs=(*given, *extra)))
            return build.results(Node.of(sort, *compared, line))[-1]
        if self.most < PAIR:
            return None
        order = line
        for n in reversed(range(op.keys)):
            key = xs[n] if order is line else taken_along(xs[n], order, op.axis)
            sort = replace(op, keys=1, kept=op.kept if n == 0 else None)
            order = build.results(Node.of(sort, key, order))[-1]
        return order


def _counting(op: Sort, xs: Sequence[Node]) -> DType:
    """The type of places along a sort's axis."""
    return DType.I32 if upper_bound(xs[0].shape[op.axis]) < 1 << 31 else DType.I64


def _by_network(op: Sort, body: Graph, xs: Sequence[Node], line: Node) -> Node:
    """The order of elements by a body that compares any number of tensors, as a network of
    comparisons (bitonic, its first distances mirrored): n elements in lg n (lg n + 1) / 2 steps,
    each of which compares every element with its partner and keeps one of the two. A partner beyond
    the end would be the last of all, and stay there.
    """
    axis, dtype = op.axis, line.type.dtype
    size = build.apply1("dim_size", line, axis=axis)
    distances = []
    for k in range(1, max(upper_bound(line.shape[axis]) - 1, 0).bit_length() + 1):
        distances += [(1 << k) - 1, *(1 << j for j in reversed(range(k - 1)))]

    def step(order: Node, distance: Node, end: Node, *values: Node) -> Node:
        places = build.apply1("iota", shape=line.shape, axis=axis, dtype=dtype)
        partner = build.apply1("xor", places, build.spread(distance, line.shape, ()))
        inside = build.compare(partner, "lt", build.spread(end, line.shape, ()))
        partner = build.select(inside, partner, places)
        other = taken_along(order, partner, axis)
        pairs = [(taken_along(x, order, axis), taken_along(x, other, axis)) for x in values]
        (before,) = lifted(body, [value for pair in pairs for value in pair])
        (after,) = lifted(body, [value for pair in pairs for value in pair[::-1]])
        # equal elements keep their order
        earlier = build.select(after, before, build.compare(order, "lt", other))
        first = build.apply1("or", before, earlier)
        lower = build.compare(places, "le", partner)
        return build.select(build.compare(first, "eq", lower), order, other)

    kinds = [line.type, line.type.with_shape(()), line.type.with_shape(())]
    steps = build.graph("step", [*kinds, *(x.type for x in xs)], step)
    scan = Scan(steps, len(distances), 1, 1)
    end = build.cast(size, dtype)
    order = Node.of(scan, line, build.constant(distances, dtype), end, *xs)
    return order if op.kept is None else build.cut(order, axis, 0, op.kept)


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
