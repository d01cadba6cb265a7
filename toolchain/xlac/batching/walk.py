"""Vectorization over a batch axis (`xlac.vmap`): each node by the rule of its operation
(`ir/op.py`: `leading`, `batched`), a composite without one through its expansion.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from xlac.batching import control
from xlac.batching.along import Along
from xlac.ir.composite import Composite
from xlac.ir.dims import Dim
from xlac.ir.graph import Node, zeros
from xlac.ir.leading import all_mapped, results, widened
from xlac.ops.control.control import Pick
from xlac.ops.walks import dependents


class Batch:
    """Batches nodes over an axis of `size`, given the batched counterparts of some."""

    def __init__(self, given: Mapping[Node, Along], size: Dim) -> None:
        self.size = size
        self._sources = list(given)
        self._results = {node: [new] for node, new in given.items()}

    def run(self, roots: Iterable[Node]) -> list[Along]:
        """The batched counterparts of roots with one result each. A node that depends on no given
        one is unchanged.
        """
        roots = list(roots)
        for node in self.dependents(roots, self._sources):
            if node not in self._results:
                self._results[node] = self.visited(node)
        return [self._of(root) for root in roots]

    def dependents(self, roots: list[Node], sources: list[Node]) -> Iterable[Node]:
        """The nodes up to roots that differ between examples, in order."""
        return dependents(roots, sources)

    def differs(self, node: Node) -> bool:
        """Whether results differ between examples though no operand does."""
        return False

    def now(self, node: Node) -> list[Along]:
        """The batched inputs of a node."""
        return [self._of(i) for i in node.inputs]

    def _of(self, node: Node) -> Along:
        results = self._results.get(node)
        return Along(node, False) if results is None else results[0]

    def visited(self, node: Node) -> list[Along]:
        """The batched results of a node."""
        if isinstance(node.op, Pick):
            return [self._results[node.inputs[0]][node.op.index]]
        now = self.now(node)
        inputs, mapped = tuple(n.node for n in now), [n.mapped for n in now]
        if not any(mapped) and not self.differs(node):
            own = node if inputs == node.inputs else node.with_inputs(inputs)
            return [Along(each, False) for each in results(own)]
        if self.size == 0:
            return [Along(zeros(t.with_shape((0, *t.shape))), True) for t in node.results]
        if control.is_control(node.op):
            return control.batched(node, now, self.size, type(self))
        by_rule = node.op.batched(node, inputs, mapped, self.size)
        if by_rule is None and node.op.leading is not None:
            op = widened(node.op, self.size)
            by_rule = results(Node.of(op, *all_mapped(inputs, mapped, self.size)))
        if by_rule is not None:
            return [Along(_placed(each, node), True) for each in by_rule]
        assert isinstance(node.op, Composite), f"{node.op.mnemonic} says nothing of a leading axis"
        inner = type(self)(dict(zip(node.inputs, now, strict=True)), self.size)
        return inner.run(node.op.expanded(*node.inputs))


def _placed(new: Node, node: Node) -> Node:
    """A new node with the origin of the one that it replaces, unless it has one."""
    bare = new.origin is None and node.origin is not None and new.inputs
    return replace(new, origin=node.origin) if bare else new
