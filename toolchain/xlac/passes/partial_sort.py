"""Sorts whose first or last elements alone are read: only those are put in order.

`sort(x)[:, :k]`, or the first entries of an argsort, become a sort that keeps k. The last k of a
stable ascending sort are the first k of a descending sort of the reversed line, reversed: this
keeps the order of equal elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xlac.ir.graph import Graph, Node
from xlac.ir.op import Op
from xlac.ops import build
from xlac.ops.control.control import Pick
from xlac.ops.reduction.order import Sort
from xlac.ops.tensor.view import Slice
from xlac.passes.registry import Pass, at_least, register
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.rewriter import everywhere, rebuild
from xlac.passes.rewrite.trace import Trace


@register("partial-sort")
class PartialSortPass(Pass):
    """Sorts keep only the elements that are read. `last` is the least ratio of the line's length to
    the number of last elements read for which those are sorted in reverse.
    """

    last: int = at_least(0, 2)

    def run(self, graph: Graph, trace: Trace, context: PassContext) -> Graph:
        return everywhere(graph, lambda g: _Cutter(g, self.last, trace).run())


class _Cutter:
    """Rewrites one graph. The original sorts become dead."""

    def __init__(self, graph: Graph, last: int, trace: Trace) -> None:
        self.graph, self.last, self.trace = graph, last, trace
        self.sorts: dict[Node, _PartialSort] = {}

    def run(self) -> Graph:
        """The graph with partial sorts."""
        sorts = [n for n in self.graph.nodes() if isinstance(n.op, Sort) and n.op.kept is None]
        if not sorts:
            return self.graph
        self.read = _read(self.graph, sorts)
        return rebuild(self.graph, self.visit)

    def visit(self, old: Node, node: Node) -> Node:
        """Replaces a slice of a sort by one of a partial sort."""
        if old in self.read:
            partial = self._partial(node, *self.read[old])
            if partial is not None and self.trace.permits("partial sort", node):
                self.sorts[old] = partial
        if isinstance(old.op, Slice):
            sort, number = _result(old.inputs[0])
            if sort in self.sorts:
                return self.sorts[sort].cut(old.op, number)
        return node

    def _partial(self, node: Node, first: int, stop: int) -> _PartialSort | None:
        op = node.op
        assert isinstance(op, Sort)
        count = node.inputs[0].shape[op.axis]
        if count != stop:
            sorted_values = build.results(Node.of(replace(op, kept=stop), *node.inputs))
            return _PartialSort(sorted_values, op.axis, stop, None)
        if not isinstance(count, int) or op.body is not None or (count - first) * self.last > count:
            return None
        backwards = [build.cut(x, op.axis, count - 1, -1, -1) for x in node.inputs]
        other = replace(op, descending=not op.descending, kept=count - first)
        return _PartialSort(
            build.results(Node.of(other, *backwards)), op.axis, count - first, count
        )


@dataclass(frozen=True, slots=True)
class _PartialSort:
    """The results of a partial sort that keeps `kept` elements along an axis; sorted in reverse for
    lines of `mirrored` elements.
    """

    results: Sequence[Node]
    axis: int
    kept: int
    mirrored: int | None

    def cut(self, op: Slice, number: int) -> Node:
        """The slice of a partial sort's result that equals a slice of the full one."""
        a, x = self.axis, self.results[number]
        start, stop, step = op.starts[a], op.stops[a], op.steps[a]
        if self.mirrored is not None:
            start, stop, step = self.mirrored - 1 - start, self.mirrored - 1 - stop, -step
        if step > 0:
            assert isinstance(stop, int)
            stop = min(stop, self.kept)
        starts, stops, steps = list(op.starts), list(op.stops), list(op.steps)
        starts[a], stops[a], steps[a] = start, stop, step
        cut = replace(op, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps))
        return Node.of(cut, x)


def _read(graph: Graph, sorts: Sequence[Node]) -> dict[Node, tuple[int, int]]:
    """The range of elements that slices read of each sort; sorts with other readers are absent."""
    wanted, spans = set(sorts), dict[Node, tuple[int, int]]()
    whole = {_result(node)[0] for node in graph.outputs.values()}
    for node in graph.nodes():
        if isinstance(node.op, Pick) and node.inputs[0] in wanted:
            continue
        for sort in wanted.intersection(_result(i)[0] for i in node.inputs):
            span = _span(node.op, sort)
            if span is None:
                whole.add(sort)
            else:
                first, stop = spans.get(sort, span)
                spans[sort] = min(first, span[0]), max(stop, span[1])
    return {sort: span for sort, span in spans.items() if sort not in whole}


def _result(node: Node) -> tuple[Node, int]:
    """The sort that has a value as its result, and the result's number."""
    return (node.inputs[0], node.op.index) if isinstance(node.op, Pick) else (node, 0)


def _span(op: Op, sort: Node) -> tuple[int, int] | None:
    """The range of a sorted line that a slice reads, where it is one and known."""
    assert isinstance(sort.op, Sort)
    if not isinstance(op, Slice):
        return None
    start, stop = op.starts[sort.op.axis], op.stops[sort.op.axis]
    if not isinstance(start, int) or not isinstance(stop, int):
        return None
    places = range(start, stop, op.steps[sort.op.axis])
    return (min(places), max(places) + 1) if places else None
