"""Checked programs: the same model with nodes that find values it should not have met.

Every check is a few ordinary nodes that reduce to the first position at fault, so passes, schedules
and backends need know nothing of it. What all checks of a graph find becomes one record, i64[4]:
which check failed first, counted from 1 (0: none), the position, the value there, and the turn of
the loop. It is the last output of the graph. Inside a loop the record is one more carried value, of
a branch one more result.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from xlac.ir.dims import Shape
from xlac.ir.faults import INFINITY, NAN
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Elementwise
from xlac.model import Model
from xlac.ops import build
from xlac.ops.control.control import Call, Cond, Pick, Scan, While
from xlac.ops.scalar.arithmetic import Scalar
from xlac.ops.scalar.convert import Cast
from xlac.ops.scalar.formula import Formula
from xlac.ops.tensor.leaf import Const, Iota, Param
from xlac.passes.checks.conditions import Condition, both, conditions
from xlac.passes.checks.nodes import (
    WIDE,
    as_row,
    element_at,
    empty_record,
    first_failure,
    first_of,
    first_position,
    has,
    no_position,
    zero,
)
from xlac.support.failures import FACT, WORDS, Check

TOGETHER = 16  # records that are made by one operation
MOST = 100  # checks that one reduction looks for
LEAVES = (Param, Const, Iota)


def watched(model: Model, kinds: Sequence[str]) -> Model:
    """The model with checks of these kinds, or itself where there is nothing to check."""
    if not kinds:
        return model
    watch = _Watch(frozenset(kinds))
    graph = watch.graph(model.graph)
    if graph is None:
        return model
    return replace(model, graph=graph, checks=tuple(watch.checks))


def facts(model: Model) -> dict[str, str]:
    """What the program of a checked model says of its checks, as JSON has it."""
    return {FACT: json.dumps(model.checks)} if model.checks else {}


class _Watch:
    """The checks made so far, in order of their numbers."""

    def __init__(self, kinds: frozenset[str]) -> None:
        self.kinds = kinds
        self.checks: list[Check] = []
        self.done: dict[Graph, Graph | None] = {}

    def graph(self, graph: Graph) -> Graph | None:
        """The graph with its record as the last output; None where it has nothing to check."""
        sheet = _Sheet(self)
        new = sheet.filled(graph)
        made = sheet.record()
        if made is None:
            return None
        outputs = {name: new[node] for name, node in graph.outputs.items()}
        name = "$checks"
        while name in outputs:
            name += "$"
        return Graph(
            graph.name, tuple(new.get(node, node) for node in graph.inputs), {**outputs, name: made}
        )

    def body(self, body: Graph) -> Graph | None:
        """A branch or a function that gives its record too; None where it has nothing to check."""
        if body not in self.done:
            self.done[body] = self.graph(body)
        return self.done[body]


class _Sheet:
    """The records of one graph, in the order of its nodes."""

    def __init__(self, watch: _Watch, record: Node | None = None) -> None:
        self.watch = watch
        self.rows: list[Node] = [] if record is None else [as_row(record)]
        self.began = len(self.rows)
        # number (0: fine), position, value there
        self.open: list[tuple[Node, Node, Node | None]] = []
        # what is looked for in one pass over values of a shape
        self.groups: dict[Shape, list[tuple[Condition, Node]]] = {}
        self.firsts: dict[tuple[Node, str], Node] = {}

    # ---- nodes -------------------------------------------------------------------------------

    def filled(self, graph: Graph) -> dict[Node, Node]:
        """Every node of the graph as it is in the checked one; what there is to check is noted
        meanwhile.
        """
        new: dict[Node, Node] = {}
        # the results of control operations that were made anew
        parts: dict[Node, tuple[Node, ...]] = {}
        for node in graph.order:
            inputs = tuple(new[i] for i in node.inputs)
            if isinstance(node.op, Pick) and node.inputs[0] in parts:
                new[node] = parts[node.inputs[0]][node.op.index]
                continue
            made = node if inputs == node.inputs else node.with_inputs(inputs)
            if not isinstance(node.op, Elementwise | Formula | Pick | Param):
                self.together()  # what is read here is in memory by now
            self.faults(made)
            results = self.control(made)
            if results is None:
                new[node] = made
                self.appearing(made)
                continue
            parts[node] = results
            new[node] = results[0]
        return new

    def faults(self, node: Node) -> None:
        """What the operation itself declares."""
        for declared in node.op.faults(*node.inputs):
            for fault in conditions(declared):
                if fault.kind in self.watch.kinds and fault.bad.type.size != 0:
                    self.note(fault, node)

    def appearing(self, node: Node) -> None:
        """NaN and infinity where no operand has any."""
        if (
            isinstance(node.types, tuple)
            or not node.type.dtype.is_float
            or isinstance(node.op, LEAVES)
            or node.type.size == 0
        ):
            return
        maker = node.inputs[0] if isinstance(node.op, Pick) else node
        if isinstance(maker.op, Call | Cond | Scan | While):
            return  # their bodies are looked into
        for kind in (NAN, INFINITY):
            if kind in self.watch.kinds and kind in maker.op.creates:
                given = [i for i in maker.inputs if i.type.dtype.is_float and i.type.size != 0]
                told = f"{'NaN' if kind == NAN else 'infinity'} appears in the result of {maker.op.mnemonic}, and no operand holds any"
                if isinstance(maker.op, Scalar | Cast | Formula):
                    self.pointwise(Condition(kind, has(node, kind), told), given, node)
                    continue
                first = self.first(node, kind)
                for i in given:
                    first = build.select(
                        build.compare(self.first(i, kind), "eq", no_position(i)),
                        first,
                        no_position(node),
                    )
                self.add(Condition(kind, node, told), node, first)

    def pointwise(self, fault: Condition, given: Sequence[Node], node: Node) -> None:
        """Elements of a kind where no element that they are computed from is of that kind; looked
        for with others.
        """
        bad = fault.bad
        for i in given:
            bad = both(
                bad, build.broadcast_to(build.compare(has(i, fault.kind), "eq", False), node.shape)
            )
        group = self.groups.setdefault(node.shape, [])
        group.append((fault._replace(bad=bad), node))
        if len(group) == MOST:
            self.together()

    def together(self) -> None:
        """Makes of every group one reduction, to the least of (check, position)."""
        groups, self.groups = self.groups, {}
        for group in groups.values():
            before = len(self.watch.checks)
            for fault, node in group:
                self.watch.checks.append(
                    Check.of(fault.kind, fault.told, node.origin, fault.bad.shape, None)
                )
            code, position = first_of([fault.bad for fault, _ in group])
            self.note_found(
                build.select(
                    build.compare(code, "eq", len(group)), zero(), build.add(code, before + 1)
                ),
                position,
            )

    def first(self, node: Node, kind: str) -> Node:
        """The first position of NaN or infinity in a value."""
        key = (node, kind)
        if key not in self.firsts:
            self.firsts[key] = first_position(has(node, kind))
        return self.firsts[key]

    def note(self, fault: Condition, node: Node) -> None:
        self.add(fault, node, first_position(fault.bad))

    def add(self, fault: Condition, node: Node, first: Node) -> None:
        """Notes a check whose first position at fault is known."""
        value = fault.value
        shown = None if value is None else element_at(value, first)
        self.watch.checks.append(
            Check.of(
                fault.kind,
                fault.told,
                node.origin,
                fault.bad.shape,
                value.type.dtype if value is not None else None,
            )
        )
        number = build.constant(len(self.watch.checks), WIDE)
        self.note_found(
            build.select(build.compare(first, "eq", no_position(fault.bad)), zero(), number),
            build.cast(first, WIDE),
            shown,
        )

    def note_found(self, number: Node, position: Node, value: Node | None = None) -> None:
        self.open.append((number, position, value))
        if len(self.open) == TOGETHER:
            self.close()

    # ---- records -----------------------------------------------------------------------------

    def close(self) -> None:
        """Makes rows of what was noted since the last time: number, position, value, turn."""
        if not self.open:
            return
        zeros = build.constant(np.zeros(1, np.int64))
        wanted = [(number, position, value, None) for number, position, value in self.open]
        columns = [
            build.concat([zeros if one is None else build.reshape(one, (1,)) for one in column])
            for column in zip(*wanted, strict=True)
        ]
        self.rows.append(
            build.concat([build.reshape(column, (len(self.open), 1)) for column in columns], 1)
        )
        self.open = []

    def record(self) -> Node | None:
        """The row of the first check that failed; None where there is nothing to check."""
        self.together()
        self.close()
        return None if len(self.rows) == self.began else first_failure(self.rows)

    def took(self, record: Node) -> None:
        """Notes what a loop or branch found."""
        self.together()
        self.close()
        self.rows.append(as_row(record))

    # ---- control -----------------------------------------------------------------------------

    def control(self, node: Node) -> tuple[Node, ...] | None:
        """The results of a control operation whose bodies are checked; None for any other, and
        where there is nothing to check.
        """
        match node.op:
            case Scan() as scan:
                return self.scan(node, scan)
            case While() as loop:
                return self.loop(node, loop)
            case Cond(branches=branches):
                return self.branches(node, branches)
            case Call(body=Graph() as body):
                made = self.watch.body(body)
                return (
                    None
                    if made is None
                    else self.split(
                        replace(node.op, body=made), node, node.inputs, len(node.results)
                    )
                )
        return None

    def branches(self, node: Node, branches: Sequence[Graph]) -> tuple[Node, ...] | None:
        made = [self.watch.body(branch) for branch in branches]
        if not any(made):
            return None
        nothing = [
            one or Graph(b.name, b.inputs, {**b.outputs, "$checks": empty_record()})
            for one, b in zip(made, branches, strict=True)
        ]
        return self.split(Cond(tuple(nothing)), node, node.inputs, len(node.results))

    def scan(self, node: Node, scan: Scan) -> tuple[Node, ...] | None:
        assert scan.body is not None
        body = self.turning(scan.body, scan.carries)
        if body is None:
            return None
        before, after = node.inputs[: scan.carries], node.inputs[scan.carries :]
        op = replace(scan, body=body, carries=scan.carries + 2)
        return self.split(op, node, (*before, empty_record(), zero(), *after), scan.carries)

    def loop(self, node: Node, loop: While) -> tuple[Node, ...] | None:
        assert loop.cond is not None and loop.body is not None
        count = len(node.inputs)
        asked = self.watch.body(loop.cond)
        body = self.turning(loop.body, count, loop.cond if asked is not None else None)
        if body is None:
            return None
        record, turn = build.param("$checks", WIDE, (WORDS,)), build.param("$turn", WIDE)
        (goes,) = loop.cond.outputs.values()
        fine = build.compare(build.reshape(build.cut(record, 0, 0, 1), ()), "eq", 0)
        cond = Graph(loop.cond.name, (*loop.cond.inputs, record, turn), {"more": both(goes, fine)})
        results = self.split(While(cond, body), node, (*node.inputs, empty_record(), zero()), count)
        if asked is not None:  # of the values that ended the loop
            self.took(
                build.results(Node.of(Call(asked, loop.cond.name), *results, origin=node.origin))[1]
            )
        return results

    def split(
        self, op: Call | Cond | Scan | While, node: Node, inputs: Sequence[Node], at: int
    ) -> tuple[Node, ...]:
        """The results of the node as it was, of one that gives a record (and of a loop a turn) from
        result `at` on.
        """
        made = build.results(Node.of(op, *inputs, origin=node.origin))
        extra = len(made) - len(node.results)
        self.took(made[at])
        return (*made[:at], *made[at + extra :])

    def turning(self, body: Graph, carries: int, asked: Graph | None = None) -> Graph | None:
        """The body of a loop that carries, after `carries` values, the record and the number of
        turns begun; None for nothing to check.

        The condition `asked` is checked as well, before each turn.
        """
        record, turn = build.param("$checks", WIDE, (WORDS,)), build.param("$turn", WIDE)
        sheet = _Sheet(self.watch, record)
        if asked is not None:
            checked = self.watch.body(asked)
            assert checked is not None
            sheet.took(build.results(Node.of(Call(checked, asked.name), *body.inputs))[1])
        new = sheet.filled(body)
        found = sheet.record()
        if found is None:
            return None
        number, last = (partial(build.cut, axis=0, start=n, stop=n + 1) for n in (0, WORDS - 1))
        now = build.add(turn, 1)
        fresh = both(build.compare(number(record), "eq", 0), build.compare(last(found), "eq", 0))
        fresh = both(fresh, build.compare(number(found), "ne", 0))
        turned = build.concat(
            [
                build.cut(found, 0, 0, WORDS - 1),
                build.select(fresh, build.reshape(now, (1,)), last(found)),
            ]
        )
        results = [new[node] for node in body.outputs.values()]
        outputs = [*results[:carries], turned, now, *results[carries:]]
        inputs = tuple(new.get(node, node) for node in body.inputs)
        return Graph(
            body.name,
            (*inputs[:carries], record, turn, *inputs[carries:]),
            {f"y{n}": node for n, node in enumerate(outputs)},
        )
