"""Moves sums over ranks to where they take the least time: after operations that are linear in
them, so that several become one, or one of fewer elements; and out of loops and steps of several
micro-batches, where what is carried may stay a summand of each rank until the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xlac.ir.graph import Graph, Node, zeros
from xlac.ops import build
from xlac.ops.collective.group import MeshAxes
from xlac.ops.collective.ranks import AxisIndex
from xlac.ops.collective.sums import AllReduce, ReduceScatter
from xlac.ops.tensor.dynamic_slice import DynUpdate
from xlac.ops.walks import every_node
from xlac.spmd.cost import NetworkLink, seconds
from xlac.spmd.mesh import AxisNames
from xlac.spmd.same_ways import Axes
from xlac.spmd.sums.forms import SumForm, SumOp, is_sum, sum_forms, with_shape
from xlac.spmd.sums.min_cut import NEVER, min_cut
from xlac_sdk.dtypes import DType

PICOSECONDS = 1e12

Reasons = Mapping[Node, str]
Differing = Mapping[Node, Sequence[Axes]]


@dataclass(eq=False)
class SumFlow:
    """The sums of a graph, and who reads them. `kept` are outputs that may be summands, with the
    sum of which they are; `carried` parameters that are.
    """

    graph: Graph
    differs: Differing
    kept: Mapping[str, SumOp] = field(default_factory=dict)
    carried: Mapping[Node, SumOp] = field(default_factory=dict)
    link: NetworkLink = field(default_factory=NetworkLink)
    forms: dict[Node, SumForm] = field(init=False)
    after: dict[Node, list[Node]] = field(init=False)  # sums that are made of a sum's summand
    ends: set[Node] = field(init=False)  # sums that something else reads

    def __post_init__(self) -> None:
        forms = self.forms = sum_forms(self.graph, self.differs, self.carried)
        self.after = {node: [] for node in forms}
        self.ends = set()
        for node in self.graph.nodes():
            own = forms[node].operands if node in forms else ()
            for number, given in enumerate(node.inputs):
                if given in forms:
                    if number not in own:
                        self.ends.add(given)
                    elif node not in self.after[given]:
                        self.after[given].append(node)
        for name, node in self.graph.outputs.items():
            if node in forms and self.kept.get(name) != forms[node].op:
                self.ends.add(node)

    def parts(self) -> Iterator[list[Node]]:
        """The sums in groups that have nothing to do with one another."""
        near: dict[Node, list[Node]] = {node: list(nodes) for node, nodes in self.after.items()}
        for node, nodes in self.after.items():
            for one in nodes:
                near[one].append(node)
        seen: set[Node] = set()
        for first in self.forms:
            if first in seen:
                continue
            part, waiting = [first], [first]
            seen.add(first)
            while waiting:
                for one in near[waiting.pop()]:
                    if one not in seen:
                        seen.add(one)
                        part.append(one)
                        waiting.append(one)
            yield part

    def cost(self, node: Node) -> int:
        """The time of the sum of a node's summands, in picoseconds; NEVER for a parameter."""
        return NEVER if node in self.carried else self.sum_cost(node)

    def sum_cost(self, node: Node) -> int:
        """The time of the sum of a node's summands, in picoseconds."""
        form = self.forms[node]
        type = form.summand(node.type)
        made = Node.of(form.op, build.param("x", type.dtype, type.shape))
        return int(PICOSECONDS * seconds(made, self.link))

    def cut(self, part: Sequence[Node]) -> tuple[int, set[Node]]:
        """What the sums of a group cost where that is least, and the values before that."""
        costs = {node: self.cost(node) for node in part}
        sources = [node for node in part if not self.forms[node].operands]
        ends = [node for node in part if node in self.ends]
        return min_cut(self.after, costs, sources, ends)


def move_sums(flow: SumFlow, reasons: Reasons, mesh: MeshAxes) -> tuple[Graph, dict[Node, str]]:
    """The graph of a rank with its sums where they take the least time, and why each collective is
    there. The outputs `kept` are summands, whose sum over ranks is the value.
    """
    free = bool(flow.kept or flow.carried)
    late: set[Node] = set()
    for part in flow.parts():
        if len(part) > 1 or free:
            _, before = flow.cut(part)
            if free or any(flow.forms[node].operands for node in before):
                late |= before
    if not late and not free:
        return flow.graph, dict(reasons)
    return _Mover(flow, late, reasons, mesh).moved()


def carried_sums(
    graph: Graph, differs: Differing, links: Mapping[Node, str], turns: int, link: NetworkLink
) -> dict[Node, AxisNames]:
    """The parameters that may be summands from one turn to the next, where `links` are parameters
    and the outputs that are their next values, and over which axes of the mesh: those that make the
    sums of so many turns cost less, with their own at the end.
    """
    found: dict[Node, AxisNames] = {}
    ops = dict.fromkeys(
        node.op for node in graph.nodes() if is_sum(node) and isinstance(node.op, AllReduce)
    )
    for op in ops:
        left = {n: o for n, o in links.items() if n not in found and _may_carry(n, op, differs)}
        carried = _carried(SumFlow(graph, differs, link=link), left, op, turns)
        found |= {node: op.axes for node in left if node in carried}
    return found


def _may_carry(node: Node, op: AllReduce, differs: Differing) -> bool:
    return not set(op.axes) & differs[node][0]


def _carried(plain: SumFlow, links: Mapping[Node, str], op: SumOp, turns: int) -> set[Node]:
    """Those of `links` that may be summands of one kind of sum."""
    left, graph = dict(links), plain.graph
    while left:
        kept, carried = dict.fromkeys(left.values(), op), dict.fromkeys(left, op)
        flow = SumFlow(graph, plain.differs, kept, carried, plain.link)
        gone = {
            n
            for n, output in left.items()
            if n in flow.ends
            or (form := flow.forms.get(graph.outputs[output])) is None
            or form.op != op
        }
        if not gone:
            gone = _without_gain(flow, plain, left, turns)
        if not gone:
            return set(left)
        left = {n: o for n, o in left.items() if n not in gone}
    return set()


def _without_gain(
    flow: SumFlow, plain: SumFlow, links: Mapping[Node, str], turns: int
) -> set[Node]:
    """The parameters that make sums cost no less. `plain` is the flow without them."""
    gone: set[Node] = set()
    for part in flow.parts():
        own = {node for node in part if node in links}
        if not own:
            continue
        with_carries, _ = flow.cut(part)
        inside = [n for n in part if n in plain.forms]
        known = set(inside)
        costs = {n: plain.cost(n) for n in inside}
        sources = [n for n in inside if not plain.forms[n].operands]
        ends = [
            n for n in inside if n in plain.ends or any(one not in known for one in flow.after[n])
        ]
        after = {n: [one for one in plain.after[n] if one in known] for n in inside}
        without, _ = min_cut(after, costs, sources, ends)
        end = sum(flow.sum_cost(node) for node in own)
        if with_carries * turns + end >= without * turns:
            gone |= own
    return gone


def of_first_rank(node: Node, mesh: MeshAxes, axes: AxisNames) -> Node:
    """A value on the first rank along some axes of the mesh, and zeros on the others."""
    first = build.compare(Node.of(AxisIndex(mesh, axes)), "eq", 0)
    return build.select(build.broadcast_to(first, node.shape), node, zeros(node.type))


@dataclass(eq=False)
class _Mover:
    """Rewrites a graph with sums after the values `late`."""

    flow: SumFlow
    late: Collection[Node]
    reasons: Reasons
    mesh: MeshAxes
    totals: dict[Node, Node] = field(default_factory=dict)
    summands: dict[Node, Node] = field(default_factory=dict)
    why: dict[Node, str] = field(default_factory=dict)
    sources: dict[Node, dict[str, None]] = field(default_factory=dict)  # the reasons of a sum

    def moved(self) -> tuple[Graph, dict[Node, str]]:
        """The graph, and why each collective is there."""
        graph, flow = self.flow.graph, self.flow
        for node in (*graph.inputs, *graph.nodes()):
            if node in self.late:
                self._delay(node)
            elif node not in self.totals:
                inputs = tuple(map(self.total, node.inputs))
                made = node if inputs == node.inputs else node.with_inputs(inputs)
                self.totals[node] = made
                if node in self.reasons:
                    self.why[made] = self.reasons[node]
        outputs = {
            name: self._kept(node, flow.kept[name]) if name in flow.kept else self.total(node)
            for name, node in graph.outputs.items()
        }
        inputs = tuple(i if i in flow.carried else self.total(i) for i in graph.inputs)
        whole = Graph(graph.name, inputs, outputs)
        own = set(whole.nodes())
        inside = (node for node in every_node(whole) if node not in own and node in self.reasons)
        why = self.why | {node: self.reasons[node] for node in inside}
        there = set(every_node(whole))
        return whole, {node: reason for node, reason in why.items() if node in there}

    def total(self, node: Node) -> Node:
        """The value itself, on every rank; of a sum that comes late, summed here."""
        if node not in self.totals:
            op = self.flow.forms[node].op
            made = Node.of(op, self.summands[node], origin=node.origin)
            self.totals[node] = made
            self.why[made] = "; ".join(self.sources[node])
        return self.totals[node]

    def _delay(self, node: Node) -> None:
        """Makes the summand of a value."""
        form = self.flow.forms[node]
        if node in self.flow.carried:
            self.summands[node], self.sources[node] = node, {"what is carried": None}
            return
        if not form.operands:
            self.summands[node] = self.total(node.inputs[0])
            self.sources[node] = {self.reasons.get(node, ""): None}
            return
        type = form.summand(node.type)
        inputs = []
        told: dict[str, None] = {}
        for number, given in enumerate(node.inputs):
            if number in form.operands and given in self.summands:
                inputs.append(self.summands[given])
                told |= self.sources[given]
            elif number in form.operands or number in form.masked:
                inputs.append(self._masked(given, form.op))
            elif isinstance(form.op, ReduceScatter):
                inputs.append(with_shape(self.total(given), type.shape))
            else:
                inputs.append(self.total(given))
        self.sources[node] = told
        if type == node.type:
            self.summands[node] = node.with_inputs(tuple(inputs))
        else:
            self.summands[node] = Node.of(node.op, *inputs, origin=node.origin)

    def _masked(self, node: Node, op: SumOp) -> Node:
        """The summand of a value that all ranks have: the first one's is all of it, and that of a
        value in parts is each one's own, with zeros around it.
        """
        whole = self.total(node)
        if not isinstance(op, ReduceScatter):
            return of_first_rank(whole, self.mesh, op.axes)
        number = Node.of(AxisIndex(self.mesh, op.axes))
        around = zeros(SumForm(op, 0).summand(whole.type))
        starts = [build.as_node(0, DType.I32)] * whole.type.rank
        size = whole.shape[op.axis]
        assert isinstance(size, int)
        starts[op.axis] = build.mul(number, size)
        return Node.of(DynUpdate(), around, whole, *starts)

    def _kept(self, node: Node, op: SumOp) -> Node:
        form = self.flow.forms.get(node)
        if form is not None and form.op == op and node in self.summands:
            return self.summands[node]
        return self._masked(node, op)
