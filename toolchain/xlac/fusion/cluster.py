"""A group while fusion builds it: which nodes may join, and which of its intermediate values it
could also write to memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from xlac.fusion.group import Kind
from xlac.ir.dims import Shape, size_hint
from xlac.ir.graph import Node
from xlac.ir.op import Elementwise
from xlac.ops.control.control import Pick
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.scalar.comparison import Compare, Select
from xlac.ops.scalar.convert import Bitcast, Cast
from xlac.ops.scalar.primitive import Scalar
from xlac.ops.tensor import view
from xlac.ops.tensor.gather import is_lookup

MAX_NODES = 400  # of one kernel: beyond, compiling costs more than another launch
COLUMNS = 32  # adjacent results that one block of a GPU computes
BLOCK_ELEMENTS = 1 << 17  # elements that a block of a GPU reduces in the time of a few launches


class Label(Enum):
    """How the shape of a node relates to the iteration space of a cluster: the loops reach its
    element at their own index.
    """

    FULL = "full"  # one value for every element that a reduction reads
    KEPT = "kept"  # one value for each result of the reduction
    # a value for every element of the result: epilogues, and the outputs of elementwise groups
    SAME = "same"


Key = tuple[int, int]
"""The position of a cluster in the order of all. Operands come from smaller keys only, so clusters
cannot form a cycle.
"""


@dataclass(eq=False, slots=True)
class Cluster:
    """Nodes that will share a kernel. `labels` has those whose elements the loops reach at their
    own index.
    """

    kind: Kind
    anchor: Node
    key: Key
    processors: int = 0  # multiprocessors of a GPU
    members: dict[Node, None] = field(default_factory=dict)
    labels: dict[Node, Label] = field(default_factory=dict)
    outputs: dict[Node, None] = field(default_factory=dict)
    # views between a contraction's index and a node's
    paths: dict[Node, tuple[Node, ...]] = field(default_factory=dict)
    feeds: set[Node] = field(default_factory=set)  # views of a contraction's operands
    notes: dict[str, None] = field(default_factory=dict)

    @property
    def space(self) -> Shape:
        """The shape of the iteration space."""
        return self.anchor.inputs[0].shape

    @property
    def reduced(self) -> frozenset[int]:
        """Axes of the iteration space that are reduced."""
        assert isinstance(self.anchor.op, Reduce)
        return frozenset(self.anchor.op.axes)

    @property
    def reduces(self) -> bool:
        """Whether there is a reduction."""
        return self.kind in (Kind.ROWS, Kind.REDUCE)

    def add(self, node: Node, label: Label | None = None) -> None:
        """Adds a node; with a label, one that the loops reach at their own index."""
        self.members[node] = None
        if label is not None:
            self.labels[node] = label

    def remove(self, node: Node) -> None:
        """Removes a node that nothing inside reads."""
        del self.members[node]
        self.labels.pop(node, None)
        self.paths.pop(node, None)

    # ---- growing towards consumers -----------------------------------------------------------

    def label_for(self, node: Node) -> Label | None:
        """The label for a node that reads members of this cluster; None where the cluster cannot
        compute it.
        """
        if len(self.members) >= MAX_NODES:
            return None
        inside = {self.labels.get(i) for i in node.inputs if i in self.members}
        if None in inside or not inside:
            return None
        if self.kind in (Kind.DOT, Kind.CONV, Kind.ATTENTION, Kind.WINDOW):
            return self._epilogue(node)
        if not self.reduces:
            return None
        if is_pointwise(node):
            label = Label.FULL if Label.FULL in inside else Label.KEPT
            return label if label is Label.KEPT or not self._is_scarce() else None
        if isinstance(node.op, view.Reshape | view.Transpose | view.Broadcast):
            (operand_label,) = inside
            return self._view(node, operand_label) if operand_label else None
        return None

    def _epilogue(self, node: Node) -> Label | None:
        """The label for pointwise work on a contraction's result, through the cluster's views of
        it.
        """
        (path, *others) = {self.paths.get(i, ()) for i in node.inputs if i in self.members}
        if others:
            return None
        if isinstance(node.op, Scalar | Compare | Select | Cast) or is_lookup(node):
            self.paths[node] = path
            return Label.SAME
        if isinstance(node.op, view.Reshape | view.Transpose) and self.kind is not Kind.WINDOW:
            self.paths[node] = (*path, node)
            return Label.SAME
        return None

    def _is_scarce(self) -> bool:
        """Whether a reduction has few results of many elements each: threads share it, which a
        second pass over the elements would prevent.
        """
        results = elements(n for a, n in enumerate(self.space) if a not in self.reduced)
        if self.processors:
            blocks = results if self.kind is Kind.ROWS else -(-results // COLUMNS)
            return blocks < self.processors // 2 and elements(self.space) > blocks * BLOCK_ELEMENTS
        return results < 8 and elements(self.space) > 1 << 18

    def _view(self, node: Node, label: Label) -> Label | None:
        """The label of a view that only adds or drops axes of one element, or spreads results over
        the space.
        """
        (x,) = node.inputs
        kept = [a for a in range(len(self.space)) if a not in self.reduced and self.space[a] != 1]
        full = [a for a in range(len(self.space)) if self.space[a] != 1]
        moved = [a for a, n in enumerate(x.shape) if n != 1]
        if isinstance(node.op, view.Broadcast):
            goes = [node.op.axes[a] for a in moved]  # result axes, in the order of the operand's
        elif isinstance(node.op, view.Transpose):
            goes = [node.op.perm.index(a) for a in moved]
        else:
            return label if dense(node.shape) == dense(x.shape) else None
        if goes != sorted(goes):
            return None
        if dense(node.shape) == dense(x.shape):
            return label
        if label is Label.KEPT and dense(node.shape) == dense(self.space) and not self._is_scarce():
            # the result's axes, as axes of the space
            place = [a for a, n in enumerate(node.shape) if n != 1]
            return Label.FULL if [full[place.index(a)] for a in goes] == kept else None
        return None

    def accepts_reduction(self, node: Node) -> bool:
        """Whether a reduction of values inside, or of the same sources, runs in the same loops."""
        assert isinstance(node.op, Reduce)
        return (
            self.reduces
            and node.inputs[0].shape == self.space
            and frozenset(node.op.axes) == self.reduced
            and len(self.members) < MAX_NODES
        )

    # ---- writing intermediate values to memory -----------------------------------------------

    def can_host(self, node: Node) -> bool:
        """Whether the loops compute every element of a node inside exactly once, so that it can be
        an output too.
        """
        if len(self.outputs) >= 8 or node not in self.labels:
            return False
        if self.kind is Kind.ELEMENTWISE:
            return node.shape == self.anchor.shape
        if not self.reduces:
            return False
        if self._is_scarce():
            return False
        return self.labels[node] is not Label.FULL or dense(node.shape) == dense(self.space)


def label_of_operand(cluster: Cluster, user: Node, node: Node) -> Label | None:
    """The label, in the cluster's space, of an operand that is to be computed inside, from one user
    inside.
    """
    if isinstance(user.op, Reduce):
        crossed = user.inputs if user.op.body is None else user.inputs[: len(user.inputs) // 2]
        return Label.FULL if node in crossed else None
    if user is cluster.anchor and cluster.kind is not Kind.ELEMENTWISE:
        return None
    return cluster.labels.get(user) if is_pointwise(user) else None


def is_pointwise(node: Node) -> bool:
    """Whether each element comes from the elements of the operands at the same index."""
    if isinstance(node.op, Bitcast):
        return node.inputs[0].shape == node.shape
    return isinstance(node.op, Scalar | Compare | Select | Cast) or is_lookup(node)


def is_view(node: Node) -> bool:
    """Whether a node only moves elements, so that computing it again costs nothing."""
    return isinstance(node.op, view.Reshape | view.Broadcast | view.Transpose)


def is_fusible(node: Node) -> bool:
    """Whether a node's elements can be computed where they are read."""
    return isinstance(node.op, Elementwise) and not isinstance(node.op, Pick)


def dense(shape: Iterable[object]) -> tuple[object, ...]:
    """A shape without its axes of one element."""
    return tuple(n for n in shape if n != 1)


def elements(shape: Iterable[object]) -> int:
    """Elements of a shape, at the sizes to optimise for."""
    count = 1
    for n in shape:
        count *= size_hint(n)  # type: ignore[arg-type]
    return count
