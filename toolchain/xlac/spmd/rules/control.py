"""Rules of loops, branches and calls: the axes that no operation of a body mixes or needs whole.

A rank runs the whole loop on its part of these axes, and bodies hold no collectives. `bodies.py`
divides the other axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import gcd
from typing import Any

from xlac.ir.graph import Graph, Node
from xlac.ops.control.control import Call, Cond, Pick, Scan, While
from xlac.ops.tensor.leaf import Iota, Param
from xlac.ops.tensor.reorder import Roll
from xlac.spmd.rules.rule import Dims, Factor, Parts, ShardingRule, cut, whole

Place = tuple[object, int, int]
"""An axis of a value: of a node, by the number of the result and of the axis."""

RuleOf = Callable[[Node], ShardingRule]


class _Classes:
    """Axes that are divided alike, or not at all."""

    def __init__(self) -> None:
        self.parent: dict[Place, Place] = {}
        self.size: dict[Place, int] = {}  # of a class, in elements; 1: it is whole
        self.even: set[Place] = set()  # classes whose size numbers of parts must divide

    def of(self, place: Place) -> Place:
        """The class of an axis."""
        self.parent.setdefault(place, place)
        while self.parent[place] != place:
            self.parent[place] = place = self.parent[self.parent[place]]
        return place

    def join(self, one: Place, other: Place) -> None:
        """Makes two classes one."""
        a, b = self.of(one), self.of(other)
        if a != b:
            self.parent[b] = a
            if b in self.even:
                self.even.add(a)
            if b in self.size:
                self.limit(a, self.size.pop(b))

    def limit(self, place: Place, size: int, even: bool = False) -> None:
        """An axis of a class has `size` elements; where others have more or fewer, or `even` is
        said, numbers of parts divide all of them.
        """
        root = self.of(place)
        before = self.size.get(root, size)
        self.size[root] = gcd(before, size)
        if even or before != size:
            self.even.add(root)


class _Bodies:
    """The axes of all values inside the bodies of an operation."""

    def __init__(self, rule_of: RuleOf) -> None:
        self.classes, self.rule_of = _Classes(), rule_of
        self.rules: dict[Node, ShardingRule] = {}
        # the axis of a value inside that has each factor of a node
        self.places: dict[Node, dict[Factor, Place]] = {}
        self.read: set[Graph] = set()

    def axes(self, node: Node) -> list[Place]:
        """The axes of a value inside."""
        of, number = (node.inputs[0], node.op.index) if isinstance(node.op, Pick) else (node, 0)
        return [(of, number, axis) for axis in range(node.type.rank)]

    def add(self, body: Graph) -> None:
        """Reads the operations of a body."""
        if body in self.read:
            return
        self.read.add(body)
        for node in (*body.inputs, *body.nodes()):
            if not isinstance(node.op, Pick) and node not in self.rules:
                self.node(node)

    def node(self, node: Node) -> None:
        """Joins the axes that have one factor."""
        rule = self.rules[node] = self.rule_of(node)
        places = self.places[node] = {}
        if isinstance(node.op, Param):
            for place, size in zip(self.axes(node), node.shape, strict=True):
                self.classes.limit(place, size if isinstance(size, int) else 1)
            return
        values: list[tuple[list[Place], Dims]] = [
            ([(node, n, axis) for axis in range(len(dims))], dims)
            for n, dims in enumerate(rule.results)
        ]
        values += [(self.axes(i), dims) for i, dims in zip(node.inputs, rule.operands, strict=True)]
        for axes, dims in values:
            for place, factor in zip(axes, dims, strict=True):
                if factor is None:
                    self.classes.limit(place, 1)
                    continue
                self.classes.join(places.setdefault(factor, place), place)
                size = 1 if factor in rule.combine else rule.sizes[factor]
                self.classes.limit(place, size, factor in rule.even)
        for factor in (*rule.rows.values(), *rule.halos):
            self.classes.limit(places[factor], 1)
        if isinstance(node.op, Roll):
            self.classes.limit((node, 0, node.op.axis % node.type.rank), 1)
        if isinstance(node.op, Iota):  # where a part begins is not known inside
            self.classes.limit((node, 0, node.op.axis), 1)

    def local(self, body: Graph, parts: Callable[[Place], int]) -> Graph:
        """A body for one part of each class."""
        new: dict[Node, Node] = {}
        for node in (*body.inputs, *body.nodes()):
            if node not in new:
                new[node] = self._local(node, new, parts)
        outputs = {name: new[node] for name, node in body.outputs.items()}
        return Graph(body.name, tuple(new[i] for i in body.inputs), outputs)

    def _local(self, node: Node, new: dict[Node, Node], parts: Callable[[Place], int]) -> Node:
        inputs = tuple(new[i] for i in node.inputs)
        if isinstance(node.op, Pick):
            return Node(node.op, inputs, inputs[0].results[node.op.index], node.origin)
        if isinstance(node.op, Param):
            counts = [parts(place) for place in self.axes(node)]
            dims = tuple(range(len(counts)))
            shape = cut(node.shape, dims, lambda f: 1 if f is None else counts[f])
            op = replace(node.op, type=node.type.with_shape(shape))
            return Node.of(op, origin=node.origin) if shape != node.shape else node
        places = self.places[node]
        local = self.rules[node].local(lambda f: parts(places[f]) if f in places else 1)
        if local is node.op and inputs == node.inputs:
            return node
        return Node.of(local, *inputs, origin=node.origin)


def rule(node: Node, rule_of: RuleOf) -> ShardingRule:
    """The rule of a loop, a branch or a call; `rule_of` gives those of the operations inside."""
    bodies = _Bodies(rule_of)
    for body in node.op.bodies():
        bodies.add(body)
    if not all(isinstance(size, int) for b in bodies.rules for t in b.results for size in t.shape):
        return whole(node)
    classes = bodies.classes
    for inner, outer in _meetings(node):
        if inner is None:
            classes.limit(outer, 1)
            continue
        value, axis = inner
        classes.join(bodies.axes(value)[axis], outer)

    numbers: dict[Place, Factor] = {}

    def factor(place: Place) -> Factor | None:
        root = classes.of(place)
        if classes.size.get(root, 1) <= 1:
            return None
        return numbers.setdefault(root, len(numbers))

    operands = tuple(
        tuple(factor(("operand", n, axis)) for axis in range(i.type.rank))
        for n, i in enumerate(node.inputs)
    )
    results: tuple[Dims, ...] = tuple(
        tuple(factor(("result", n, axis)) for axis in range(t.rank))
        for n, t in enumerate(node.results)
    )
    sizes = {number: classes.size[root] for root, number in numbers.items()}
    even = {number for root, number in numbers.items() if root in classes.even}

    def local(parts: Parts) -> Any:
        if all(parts(number) == 1 for number in numbers.values()):
            return node.op

        def count(place: Place) -> int:
            return parts(numbers.get(classes.of(place)))

        changed = {
            name: bodies.local(value, count)
            if isinstance(value, Graph)
            else tuple(bodies.local(body, count) for body in value)
            for name in ("body", "cond", "branches")
            if (value := getattr(node.op, name, None))
        }
        return replace(node.op, **changed)

    return ShardingRule(operands, results, sizes, local, even=even)


def _meetings(node: Node) -> list[tuple[tuple[Node, int] | None, Place]]:
    """Each axis of operands and results, with the same axis inside; None where it is whole."""
    op = node.op
    pairs: list[tuple[tuple[Node, int] | None, Place]] = []

    def meet(kind: str, number: int, rank: int, inner: Node | None, skip: int = 0) -> None:
        for axis in range(rank):
            at = None if inner is None or axis < skip else (inner, axis - skip)
            pairs.append((at, (kind, number, axis)))

    ranks, result_ranks = [i.type.rank for i in node.inputs], [t.rank for t in node.results]
    match op:
        case Scan(body=Graph() as body, carries=carries, scanned=scanned):
            for n, inner in enumerate(body.inputs):
                meet("operand", n, ranks[n], inner, int(carries <= n < carries + scanned))
            for n, inner in enumerate(body.outputs.values()):
                meet("result", n, result_ranks[n], inner, int(n >= carries))
                if n < carries:
                    meet("operand", n, ranks[n], inner)
        case While(cond=Graph() as cond, body=Graph() as body):
            outputs = list(body.outputs.values())
            for n, rank in enumerate(ranks):
                for inner in (body.inputs[n], cond.inputs[n], outputs[n]):
                    meet("operand", n, rank, inner)
                    meet("result", n, rank, inner)
        case Cond(branches=branches):
            for branch in branches:
                _straight(branch, 1, ranks, result_ranks, meet)
        case Call(body=Graph() as body):
            _straight(body, 0, ranks, result_ranks, meet)
    return pairs


def _straight(
    body: Graph,
    first: int,
    ranks: Sequence[int],
    result_ranks: Sequence[int],
    meet: Callable[..., None],
) -> None:
    """A body whose inputs are the operands from `first` on, and whose outputs are the results."""
    for n, inner in enumerate(body.inputs, first):
        meet("operand", n, ranks[n], inner)
    for n, inner in enumerate(body.outputs.values()):
        meet("result", n, result_ranks[n], inner)
