"""Converts counting while loops to scans, whose length is known and whose reads and writes by the
counter are slices.

A `while` with a carried value that counts from a constant to a constant, as other frameworks export
their scans, becomes a `scan` of that many steps:

* a carried value that no iteration changes becomes a shared operand, and a constant one a constant
  in the body;
* a shared operand that is only read at the counter's row is sliced, in order or in reverse;
* a carried value whose row at the counter is replaced by each iteration, without other uses,
  becomes a stacked result: no row of the initial value remains.

The rows are decided by evaluating the index for every iteration, not by its form.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array
from xlac.ops.control.control import Pick, Scan, While
from xlac.ops.scalar.arithmetic import Add, Max, Min, Mul, Sub
from xlac.ops.scalar.comparison import Compare, Select
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.dynamic_slice import DynSlice, DynUpdate
from xlac.ops.tensor.leaf import Const, Param
from xlac.ops.tensor.view import Reshape
from xlac.ops.values import results
from xlac.passes.control.counted_loops import length_of, limit_of, number, step_of
from xlac.passes.control.loop_values import substituted
from xlac.passes.registry import Pass, register
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.rewriter import everywhere, readers, rebuild
from xlac.passes.rewrite.trace import Trace

MOST_STEPS = {"cpu": 1 << 20, "gpu": 1 << 8}
"""The longest loop that is converted. The index is evaluated for each step; and a GPU unrolls scans
that it runs by itself.
"""
INDEX_OPERATIONS = (Add, Sub, Mul, Max, Min, Compare, Select, Cast)


@register("recognize-scans")
class RecognizeScansPass(Pass):
    """Converts while loops that count between constants to scans."""

    def run(self, graph: Graph, trace: Trace, context: PassContext) -> Graph:
        return everywhere(graph, lambda g: _Recognizer(trace, context).run(g))


class _Recognizer:
    """Rewrites the loops of one graph."""

    def __init__(self, trace: Trace, context: PassContext) -> None:
        self.trace, self.most = trace, MOST_STEPS[context.target.device]
        self.parts: dict[Node, tuple[Node, ...]] = {}  # of a rewritten loop: its results

    def run(self, graph: Graph) -> Graph:
        """The graph with scans in place of counting loops."""
        if not any(isinstance(node.op, While) for node in graph.nodes()):
            return graph
        return rebuild(graph, self.visit)

    def visit(self, old: Node, node: Node) -> Node:
        """The rewritten node."""
        if isinstance(node.op, Pick) and node.inputs[0] in self.parts:
            return self.parts[node.inputs[0]][node.op.index]
        if not isinstance(node.op, While):
            return node
        loop = _Loop.of(node, self.most)
        if loop is None or not self.trace.permits("loops: a counted loop is a scan", node):
            return node
        recognized = loop.scan()
        if len(recognized) == 1:
            return recognized[0]
        self.parts[node] = recognized
        return node


class _Loop:
    """A counting loop, and the role of each of its carried values."""

    def __init__(self, node: Node, counter: int, length: int, numbers: Array) -> None:
        op = node.op
        assert isinstance(op, While) and op.body is not None
        self.node, self.body, self.length = node, op.body, length
        self.next = list(op.body.outputs.values())
        self.fixed = {
            p: given
            for p, given, out in zip(op.body.inputs, node.inputs, self.next, strict=True)
            if out is p
        }
        constants = {p: c for p, c in self.fixed.items() if isinstance(c.op, Const)}
        self.next = substituted(self.next, constants)
        self.nodes = list(_graph(self.next).nodes())
        self.readers = readers(_graph(self.next))
        self.tables: dict[Node, Array | None] = {op.body.inputs[counter]: numbers}

    @staticmethod
    def of(node: Node, most: int) -> _Loop | None:
        """A loop of at most `most` iterations with a carried value that counts between constants;
        None for any other.
        """
        op = node.op
        assert isinstance(op, While) and op.body is not None and op.cond is not None
        known = {
            at: given
            for at, (p, given, out) in enumerate(
                zip(op.body.inputs, node.inputs, op.body.outputs.values(), strict=True)
            )
            if out is p
        }
        (test,) = op.cond.outputs.values()
        limit = limit_of(test, {op.cond.inputs[at]: given for at, given in known.items()})
        if limit is None or limit[0] not in op.cond.inputs:
            return None
        counter = op.cond.inputs.index(limit[0])
        inside = {op.body.inputs[at]: given for at, given in known.items()}
        step = step_of(list(op.body.outputs.values())[counter], op.body.inputs[counter], inside)
        start = number(node.inputs[counter], {})
        if step is None or start is None:
            return None
        length = length_of(start, step, *limit[1:])
        dtype = limit[0].type.dtype
        bounds = np.iinfo(dtype.numpy)
        if not length or length > most:
            return None
        if not bounds.min <= start + length * step <= bounds.max:
            return None
        numbers = (start + step * np.arange(length, dtype=np.int64)).astype(dtype.numpy)
        return _Loop(node, counter, length, numbers)

    def scan(self) -> tuple[Node, ...]:
        """The results of the loop, computed by a scan."""
        directions = [d for n in self.nodes if (d := self.direction(n)) is not None]
        reverse = sum(directions) * 2 > len(directions)
        stacked = {
            at: update
            for at in range(len(self.next))
            if (update := self.stacked(at, reverse)) is not None
        }
        reads = [n for n in self.nodes if self.sliced(n, reverse)]
        new: dict[Node, Node] = {}
        slices: list[Node] = []
        scanned: list[Node] = []
        for read in reads:
            shape = read.type.shape[1:]
            slice_ = Node.of(
                Param(f"slice{len(slices)}", read.type.with_shape(shape)), origin=read.origin
            )
            slices.append(slice_)
            scanned.append(self.fixed[read.inputs[0]])
            new[read] = Node.of(Reshape(read.type.shape), slice_, origin=read.origin)
        carried = [
            at for at, p in enumerate(self.body.inputs) if p not in self.fixed and at not in stacked
        ]
        rows = [Node.of(Reshape(u.type.shape[1:]), u, origin=u.origin) for u in stacked.values()]
        outputs = substituted([*(self.next[at] for at in carried), *rows], new)
        return self.results(reverse, carried, slices, scanned, list(stacked), outputs)

    def results(
        self,
        reverse: bool,
        carried: Sequence[int],
        slices: Sequence[Node],
        scanned: Sequence[Node],
        stacked: Sequence[int],
        outputs: Sequence[Node],
    ) -> tuple[Node, ...]:
        """The results of the loop in their order, from a scan of these parts."""
        shared = [p for p in self.body.inputs if p in self.fixed]
        parameters = (*(self.body.inputs[at] for at in carried), *slices, *shared)
        graph = Graph(self.body.name, parameters, {f"y{n}": y for n, y in enumerate(outputs)})
        op = Scan(
            body=graph,
            length=self.length,
            carries=len(carried),
            scanned=len(scanned),
            reverse=reverse,
        )
        first = [self.node.inputs[at] for at in carried]
        outer = [self.fixed[p] for p in shared]
        scan_results = results(Node.of(op, *first, *scanned, *outer, origin=self.node.origin))
        places = {at: number for number, at in enumerate([*carried, *stacked])}
        return tuple(
            scan_results[places[at]] if at in places else self.fixed[parameter]
            for at, parameter in enumerate(self.body.inputs)
        )

    def direction(self, node: Node) -> bool | None:
        """Whether a node reads or replaces the counter's rows in reverse order; None if it does
        neither.
        """
        match node.op:
            case DynSlice() | DynUpdate() if node.inputs[0].type.rank:
                rows = node.type if isinstance(node.op, DynSlice) else node.inputs[1].type
                start = node.inputs[1 if isinstance(node.op, DynSlice) else 2]
                whole = node.inputs[0].type.shape
                if whole[0] != self.length or rows.shape != (1, *whole[1:]):
                    return None
                table = self.table(start)
                if table is None:
                    return None
                order = np.arange(self.length)
                if np.array_equal(table, order):
                    return False
                return True if np.array_equal(table, order[::-1]) else None
        return None

    def sliced(self, node: Node, reverse: bool) -> bool:
        """Whether a node reads the counter's row of a shared operand."""
        return (
            isinstance(node.op, DynSlice)
            and node.inputs[0] in self.fixed
            and self.direction(node) is reverse
        )

    def stacked(self, at: int, reverse: bool) -> Node | None:
        """The row that each iteration writes, for a carried value without other uses; None
        otherwise.
        """
        node, parameter = self.next[at], self.body.inputs[at]
        if (
            not isinstance(node.op, DynUpdate)
            or node.inputs[0] is not parameter
            or self.readers[parameter] != 1
            or parameter in node.inputs[1:]
            or self.readers[node] != 1
            or sum(out is node for out in self.next) != 1
            or self.direction(node) is not reverse
        ):
            return None
        return node.inputs[1]

    def table(self, node: Node) -> Array | None:
        """The values of an index in all iterations, if it depends on the counter alone."""
        if node not in self.tables:
            self.tables[node] = self._table(node)
        return self.tables[node]

    def _table(self, node: Node) -> Array | None:
        if node.type.rank:
            return None
        if isinstance(node.op, Const):
            return np.broadcast_to(node.op.value, (self.length,))
        if not isinstance(node.op, INDEX_OPERATIONS):
            return None
        tables = [self.table(i) for i in node.inputs]
        known = [table for table in tables if table is not None]
        return np.asarray(node.op.evaluate(*known)) if len(known) == len(tables) else None


def _graph(outputs: Sequence[Node]) -> Graph:
    return Graph("", (), {str(n): node for n, node in enumerate(outputs)})
