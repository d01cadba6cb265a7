"""How every value of a graph is divided: what is said of some of them reaches the others through
the rules of operations, forwards and backwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xlac.ir.graph import Graph, Node
from xlac.ops.collective.manual import ManualComputation
from xlac.ops.collective.shard import Shard, named
from xlac.ops.control.control import Pick
from xlac.ops.tensor.leaf import Param
from xlac.spmd.assignment import without
from xlac.spmd.manual import sharding_of_division
from xlac.spmd.mesh import AxisNames, Mesh, Sharding
from xlac.spmd.rules.rule import Dims, Factor, ShardingRule
from xlac.spmd.rules.table import rule_of

Value = tuple[Node, int]
"""A result of a node, by its number."""

ROUNDS = 16  # sweeps over the graph; more have never changed anything


def value_of(node: Node) -> Value:
    """The result that a node stands for: a pick stands for that of another node."""
    return (node.inputs[0], node.op.index) if isinstance(node.op, Pick) else (node, 0)


class Shardings:
    """The sharding of every value, as far as it is known."""

    def __init__(
        self,
        graph: Graph,
        mesh: Mesh,
        given: Mapping[str, Sharding],
        links: Sequence[tuple[Node, Node]],
        hints: Mapping[Value, Sharding] | None = None,
        fixed: Iterable[Node] = (),
    ) -> None:
        """`given` has the shardings of parameters by name; they are fixed, as are those of `shard`
        nodes. `links` are pairs of nodes that are divided alike, as a state and its next value.
        `hints` are shardings to begin with; those of the nodes `fixed` stay.
        """
        self.mesh, self.links = mesh, links
        self.rules: dict[Node, ShardingRule] = {}
        self.fixed: set[Value] = {(node, 0) for node in fixed}
        self.known: dict[Value, list[AxisNames]] = {}
        self.order = [n for n in graph.nodes() if not isinstance(n.op, Pick)]
        self.order += [n for n in graph.inputs if n not in set(self.order)]
        for node in self.order:
            self.rules[node] = rule_of(node)
            for number, result in enumerate(node.results):
                self.known[node, number] = [()] * result.rank
        for value, sharding in (hints or {}).items():
            self._hint(value, sharding)
        for node in self.order:
            self._seed(node, given)
        for _ in range(ROUNDS):
            if not self._sweep():
                break

    def of(self, value: Value) -> Sharding:
        """The sharding of a value."""
        return tuple(self.known[value])

    def _hint(self, value: Value, sharding: Sharding) -> None:
        """Takes what is said of the axes that nothing else is said of."""
        self.known.setdefault(value, [()] * len(sharding))
        for axis, names in enumerate(sharding):
            taken = {name for used in self.known[value] for name in used}
            if names and not self.known[value][axis] and not taken & set(names):
                self.known[value][axis] = names

    def _seed(self, node: Node, given: Mapping[str, Sharding]) -> None:
        said: Sharding | None = None
        if isinstance(node.op, ManualComputation):
            self._seed_manual(node, node.op)
        elif isinstance(node.op, Shard):
            said = tuple(map(named, node.op.axes))
        elif isinstance(node.op, Param):
            said = given.get(node.op.name)
        if said is not None:
            sizes = self.mesh.sizes  # along an axis of one rank nothing is divided
            self.known[node, 0] = [tuple(n for n in names if sizes[n] > 1) for names in said]
            self.fixed.add((node, 0))

    def _seed_manual(self, node: Node, op: ManualComputation) -> None:
        """Results are divided as the computation says; operands, where nothing else is said."""
        for number, division in enumerate(op.gives):
            self.known[node, number] = list(sharding_of_division(division, self.mesh))
            self.fixed.add((node, number))
        for operand, division in zip(node.inputs, op.takes, strict=True):
            for axis, names in enumerate(sharding_of_division(division, self.mesh)):
                value = value_of(operand)
                if names and not self.known[value][axis]:
                    self._learn(value, axis, names)

    def _sweep(self) -> bool:
        """Goes over the graph forwards and backwards; whether anything became known."""
        changed = False
        for nodes in (self.order, self.order[::-1]):
            for node in nodes:
                changed |= self._meet(node)
            for one, other in self.links:
                a, b = value_of(one), value_of(other)
                changed |= self._copy(a, b) | self._copy(b, a)
        return changed

    def _copy(self, source: Value, target: Value) -> bool:
        changed = False
        pairs = zip(self.known[source], self.known[target], strict=True)
        for axis, (names, present) in enumerate(pairs):
            if names and not present:
                changed |= self._learn(target, axis, names)
        return changed

    def _meet(self, node: Node) -> bool:
        """Makes the axes of one factor alike, where what is known of them agrees: some may lack
        mesh axes that divide another axis there.
        """
        rule, changed = self.rules[node], False
        places: dict[Factor, list[tuple[Value, int]]] = {}
        for value, dims in self.values(node):
            for axis, factor in enumerate(dims):
                if factor is not None:
                    places.setdefault(factor, []).append((value, axis))
        for factor, where in places.items():
            said = {s for value, axis in where if (s := self.known[value][axis])}
            most = max(said, key=len, default=())
            alike = all(without(most, set(most) - set(names)) == names for names in said)
            if not most or not alike or not rule.fits(factor, self.mesh.parts(most)):
                continue
            for value, axis in where:
                if not self.known[value][axis]:
                    changed |= self._learn(value, axis, most)
        return changed

    def values(self, node: Node) -> list[tuple[Value, Dims]]:
        """The results and the operands of a node, each with its factors."""
        rule = self.rules[node]
        results = [((node, n), dims) for n, dims in enumerate(rule.results)]
        operands = [(value_of(i), dims) for i, dims in zip(node.inputs, rule.operands, strict=True)]
        return [*results, *operands]

    def _learn(self, value: Value, axis: int, names: AxisNames) -> bool:
        """Notes how an axis is divided, unless something else was said of the value: by the mesh
        axes that divide no other axis of it.
        """
        if value in self.fixed:
            return False
        others = {name for a, used in enumerate(self.known[value]) if a != axis for name in used}
        left = without(names, others)
        if not left or not isinstance(value[0].results[value[1]].shape[axis], int):
            return False
        self.known[value][axis] = left
        return True
