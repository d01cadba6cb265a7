"""Checked programs: the same model with added nodes that detect faulty values.

Every check is a few ordinary nodes that reduce to the first position at fault, so passes, schedules
and backends need no support for them. The results of all checks of a graph form one record (see
`records`), the last output of the graph. In a loop the record is one more carried value, in a
branch one more result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from xlac.ir.faults import INFINITY, NAN
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Elementwise
from xlac.model import Model
from xlac.ops import build
from xlac.ops.control.bounded import BoundedWhile, CountedScan
from xlac.ops.control.control import Call, Cond, Pick, Scan, While
from xlac.ops.control.custom_gradient import CustomGradient
from xlac.ops.scalar.convert import Cast
from xlac.ops.scalar.formula import Formula
from xlac.ops.scalar.primitive import Scalar
from xlac.ops.tensor.leaf import Const, Iota, Param
from xlac.passes.checks.conditions import Condition, both, conditions
from xlac.passes.checks.nodes import WIDE, empty_record, has, no_position, zero
from xlac.passes.checks.records import Records
from xlac.support.failures import FACT, WORDS, Check

LEAVES = (Param, Const, Iota)


def watched(model: Model, kinds: Sequence[str]) -> Model:
    """The model with checks of these kinds; the same model where there is nothing to check."""
    if not kinds:
        return model
    checked = _CheckedModel(frozenset(kinds))
    graph = checked.graph(model.graph)
    if graph is None:
        return model
    return replace(model, graph=graph, checks=tuple(checked.checks), checkpointed=None)


def watched_together(models: Mapping[str, Model], kinds: Sequence[str]) -> dict[str, Model]:
    """The models of one program with checks of these kinds, numbered across all of them. Each has a
    record; none has where there is nothing to check in any.
    """
    checked = _CheckedModel(frozenset(kinds))
    graphs = {name: checked.graph(model.graph) for name, model in models.items()}
    if not any(graphs.values()):
        return dict(models)
    all_checks, watched = tuple(checked.checks), dict[str, Model]()
    for name, one in models.items():
        graph = graphs[name] or _with_record(one.graph, one.graph.outputs, empty_record())
        watched[name] = replace(one, graph=graph, checks=all_checks, checkpointed=None)
    return watched


def _with_record(graph: Graph, outputs: Mapping[str, Node], record: Node) -> Graph:
    """A graph with these outputs, and a record as the last one."""
    name = "$checks"
    while name in outputs:
        name += "$"
    return Graph(graph.name, graph.inputs, {**outputs, name: record})


def facts(model: Model) -> dict[str, str]:
    """The checks of a model as a JSON value, for the facts of its program."""
    return {FACT: json.dumps(model.checks)} if model.checks else {}


class _CheckedModel:
    """The checks added so far, in order of their numbers, and the bodies that contain them."""

    def __init__(self, kinds: frozenset[str]) -> None:
        self.kinds = kinds
        self.checks: list[Check] = []
        self.done: dict[Graph, Graph | None] = {}

    def graph(self, graph: Graph) -> Graph | None:
        """The graph with its record as the last output; None where it has nothing to check."""
        checked = _CheckedGraph(self)
        new = checked.rebuilt(graph)
        record = checked.records.result()
        if record is None:
            return None
        outputs = {name: new[node] for name, node in graph.outputs.items()}
        inputs = tuple(new.get(node, node) for node in graph.inputs)
        return _with_record(Graph(graph.name, inputs, outputs), outputs, record)

    def body(self, body: Graph) -> Graph | None:
        """A branch or function that returns its record too; None where it has nothing to check."""
        if body not in self.done:
            self.done[body] = self.graph(body)
        return self.done[body]


class _CheckedGraph:
    """One graph being rebuilt, and the records of its checks."""

    def __init__(self, model: _CheckedModel, record: Node | None = None) -> None:
        self.model = model
        self.records = Records(model.checks, record)

    # ---- nodes -------------------------------------------------------------------------------

    def rebuilt(self, graph: Graph) -> dict[Node, Node]:
        """Rebuilds every node of the graph, adding checks on the way."""
        new: dict[Node, Node] = {}
        # the results of control operations that were rebuilt
        parts: dict[Node, tuple[Node, ...]] = {}
        for node in graph.order:
            inputs = tuple(new[i] for i in node.inputs)
            if isinstance(node.op, Pick) and node.inputs[0] in parts:
                new[node] = parts[node.inputs[0]][node.op.index]
                continue
            rebuilt_node = node if inputs == node.inputs else node.with_inputs(inputs)
            if not isinstance(node.op, Elementwise | Formula | Pick | Param):
                # its operands are in memory from here on, so pointwise checks end here
                self.records.reduce_pointwise()
            self.check_declared(rebuilt_node)
            results = self.control(rebuilt_node)
            if results is None:
                new[node] = rebuilt_node
                self.check_appearing(rebuilt_node)
                continue
            parts[node] = results
            new[node] = results[0]
        return new

    def check_declared(self, node: Node) -> None:
        """Checks the faults that the operation itself declares."""
        for declared in node.op.faults(*node.inputs):
            for condition in conditions(declared):
                if condition.kind in self.model.kinds and condition.bad.type.size != 0:
                    self.records.add(condition, node)

    def check_appearing(self, node: Node) -> None:
        """Checks for NaN and infinity in results where no operand has any."""
        if (
            isinstance(node.types, tuple)
            or not node.type.dtype.is_float
            or isinstance(node.op, LEAVES)
            or node.type.size == 0
        ):
            return
        maker = node.inputs[0] if isinstance(node.op, Pick) else node
        if isinstance(maker.op, Call | Cond | Scan | While | BoundedWhile | CountedScan):
            return  # their bodies are checked
        given = [i for i in maker.inputs if i.type.dtype.is_float and i.type.size != 0]
        for kind, name in ((NAN, "NaN"), (INFINITY, "infinity")):
            if kind not in self.model.kinds or kind not in maker.op.creates:
                continue
            where = f"the result of {maker.op.mnemonic}"
            message = f"{name} appears in {where}, and no operand holds any"
            if isinstance(maker.op, Scalar | Cast | Formula):
                condition = Condition(kind, has(node, kind), message)
                self.records.add_pointwise(condition, given, node)
                continue
            first = self.records.first(node, kind)
            for i in given:
                none = build.compare(self.records.first(i, kind), "eq", no_position(i))
                first = build.select(none, first, no_position(node))
            self.records.add(Condition(kind, node, message), node, first)

    # ---- control -----------------------------------------------------------------------------

    def control(self, node: Node) -> tuple[Node, ...] | None:
        """The results of a control operation with checked bodies; None for any other, and where
        there is nothing to check.
        """
        match node.op:
            case Scan() as scan:
                return self.scan(node, scan)
            case While() as loop:
                return self.loop(node, loop)
            case BoundedWhile() as loop:
                return self.bounded(node, loop)
            case CountedScan() as scan if scan.length != 0:
                checked_loop = scan.loop(*node.inputs)
                assert isinstance(checked_loop.op, While)
                results = self.loop(checked_loop, checked_loop.op) or build.results(checked_loop)
                return (*results[: scan.carries], *results[scan.carries + 1 :][: scan.yields()])
            case Cond(branches=branches):
                return self.branches(node, branches)
            case (
                Call(body=Graph() as body, name=name)
                | CustomGradient(body=Graph() as body, name=name)
            ):
                checked = self.model.body(body)
                if checked is None:
                    return None
                op = Call(checked, name)
                return self.without_record(op, node, node.inputs, len(node.results))
        return None

    def branches(self, node: Node, branches: Sequence[Graph]) -> tuple[Node, ...] | None:
        checked = [self.model.body(branch) for branch in branches]
        if not any(checked):
            return None
        alike = tuple(
            one or Graph(b.name, b.inputs, {**b.outputs, "$checks": empty_record()})
            for one, b in zip(checked, branches, strict=True)
        )
        return self.without_record(Cond(alike), node, node.inputs, len(node.results))

    def scan(self, node: Node, scan: Scan) -> tuple[Node, ...] | None:
        assert scan.body is not None
        body = self.loop_body(scan.body, scan.carries)
        if body is None:
            return None
        before, after = node.inputs[: scan.carries], node.inputs[scan.carries :]
        op = replace(scan, body=body, carries=scan.carries + 2)
        inputs = (*before, empty_record(), zero(), *after)
        return self.without_record(op, node, inputs, scan.carries)

    def loop(self, node: Node, loop: While) -> tuple[Node, ...] | None:
        assert loop.cond is not None and loop.body is not None
        count = len(node.inputs)
        checked = self.model.body(loop.cond)
        body = self.loop_body(loop.body, count, loop.cond if checked is not None else None)
        if body is None:
            return None
        record, iteration = build.param("$checks", WIDE, (WORDS,)), build.param("$turn", WIDE)
        (goes,) = loop.cond.outputs.values()
        fine = build.compare(build.reshape(build.cut(record, 0, 0, 1), ()), "eq", 0)
        inputs = (*loop.cond.inputs, record, iteration)
        cond = Graph(loop.cond.name, inputs, {"more": both(goes, fine)})
        inputs = (*node.inputs, empty_record(), zero())
        results = self.without_record(While(cond, body), node, inputs, count)
        if checked is not None:  # for the values that ended the loop
            call = Node.of(Call(checked, loop.cond.name), *results, origin=node.origin)
            self.records.add_record(build.results(call)[1])
        return results

    def bounded(self, node: Node, loop: BoundedWhile) -> tuple[Node, ...] | None:
        """Checks that a loop did not end by its `max` while its condition still held."""
        if loop.max == 0:
            return None
        loop_now = replace(loop.loop(*node.inputs), origin=node.origin)
        assert isinstance(loop_now.op, While) and loop.cond is not None
        results = self.loop(loop_now, loop_now.op) or build.results(loop_now)
        if "bounds" in self.model.kinds:
            (goes,) = build.results(
                Node.of(Call(loop.cond, loop.cond.name), *results[: len(node.inputs)])
            )
            message = f"the loop would go on after {loop.max} steps, its max"
            self.records.add(Condition("bounds", goes, message), node)
        return results

    def without_record(
        self, op: Call | Cond | Scan | While, node: Node, inputs: Sequence[Node], at: int
    ) -> tuple[Node, ...]:
        """The original results of `node`, which also returns a record (and, for loops, the number
        of iterations) from result `at` on. The record joins those of this graph.
        """
        results = build.results(Node.of(op, *inputs, origin=node.origin))
        extra = len(results) - len(node.results)
        self.records.add_record(results[at])
        return (*results[:at], *results[at + extra :])

    def loop_body(self, body: Graph, carries: int, cond: Graph | None = None) -> Graph | None:
        """The body of a loop that carries, after `carries` values, the record and the number of
        iterations; None where there is nothing to check.

        The condition `cond` is checked as well, before each iteration.
        """
        record, iteration = build.param("$checks", WIDE, (WORDS,)), build.param("$turn", WIDE)
        inside = _CheckedGraph(self.model, record)
        if cond is not None:
            checked = self.model.body(cond)
            assert checked is not None
            call = Node.of(Call(checked, cond.name), *body.inputs)
            inside.records.add_record(build.results(call)[1])
        new = inside.rebuilt(body)
        recorded = inside.records.result()
        if recorded is None:
            return None
        number, last = (partial(build.cut, axis=0, start=n, stop=n + 1) for n in (0, WORDS - 1))
        now = build.add(iteration, 1)
        fresh = both(build.compare(number(record), "eq", 0), build.compare(last(recorded), "eq", 0))
        fresh = both(fresh, build.compare(number(recorded), "ne", 0))
        counted = build.select(fresh, build.reshape(now, (1,)), last(recorded))
        kept = build.concat([build.cut(recorded, 0, 0, WORDS - 1), counted])
        results = [new[node] for node in body.outputs.values()]
        outputs = [*results[:carries], kept, now, *results[carries:]]
        inputs = tuple(new.get(node, node) for node in body.inputs)
        return Graph(
            body.name,
            (*inputs[:carries], record, iteration, *inputs[carries:]),
            {f"y{n}": node for n, node in enumerate(outputs)},
        )
