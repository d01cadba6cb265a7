"""The nodes that follow a contraction (bias, activation, residual, …), computed on its results
before they are stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xlac.codegen.core.addressing import linear, row_major
from xlac.codegen.core.elements import Elements
from xlac.fusion.cost import weight
from xlac.fusion.group import Group
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac.ops.scalar.comparison import Compare, Select
from xlac.ops.scalar.convert import Cast
from xlac.ops.scalar.primitive import Scalar
from xlac.ops.tensor import regroup, view
from xlac.ops.tensor.gather import is_lookup
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr, Ramp, Var

MOVING = (view.Reshape, view.Transpose)

Path = tuple[Node, ...]
"""The views between the contraction's index space and a node's, in order."""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """The computation on one result element. `paths` gives, for every node after the contraction,
    its views.
    """

    group: Group
    anchor: Node
    paths: dict[Node, Path] = field(default_factory=dict)

    @property
    def weight(self) -> int:
        """Operations for each element."""
        return sum(weight(n.op) for n in self.paths if n is not self.anchor)

    def store(self, elements: Elements, at: Index, value: Expr) -> None:
        """Stores the outputs for one element (or vector) of the contraction, given in the
        accumulator's type.
        """
        for node, place, computed in self.results(elements, at, value):
            elements.store(node, place, computed)

    def results(self, elements: Elements, at: Index, value: Expr) -> list[tuple[Node, Index, Expr]]:
        """The outputs for one element (or vector) of the contraction, each with its index."""
        dtype = self.anchor.type.dtype
        result = build.cast(build.cast(value, dtype), dtype.compute)
        result = elements.builder.let("r", result)
        elements.bind_value(self.anchor, lambda _: result)
        places = [(node, self.forward(node, at)) for node in self.group.outputs]
        return [(node, place, elements.at(node, place)) for node, place in places]

    def forward(self, node: Node, at: Index) -> Index:
        """The index of a node for an index of the contraction."""
        for moved in self.paths[node]:
            if isinstance(moved.op, view.Transpose):
                at = tuple(at[axis] for axis in moved.op.perm)
            else:
                at = regroup.regroup(at, moved.inputs[0].shape, moved.shape)
        return at

    def contiguous_axis(self, node: Node) -> int | None:
        """The axis of the contraction's result along which a node is contiguous; None if there is
        none.
        """
        for axis, size in enumerate(self.anchor.shape):
            if size == 1:
                continue
            at: list[Expr] = [Var(f"at{n}", build.INDEX) for n in range(len(self.anchor.shape))]
            at[axis] = build.ramp(at[axis], 1, 2)
            where = linear(self.forward(node, tuple(at)), row_major(node.shape), node.shape)
            if isinstance(where, Ramp) and where.stride == 1:
                return axis
        return None

    def _after(self) -> list[Node]:
        """The nodes that the outputs need besides the contraction and its operands."""
        needed: dict[Node, None] = {}
        stack = list(self.group.outputs)
        while stack:
            node = stack.pop()
            if node is not self.anchor and node in self.group and node not in needed:
                needed[node] = None
                stack += node.inputs
        return list(needed)

    def operands(self) -> list[Node]:
        """The arrays from outside of the group that are read besides the contraction's."""
        after = self._after()
        read = {node: None for one in after for node in one.inputs if node not in self.group}
        return list(read)

    def keeps(self, axes: frozenset[int]) -> bool:
        """Whether these adjacent axes of the contraction may be merged, with one counter in the
        last of them.

        That holds if no node distinguishes them: every node is pointwise, or broadcasts along all
        of them or none.
        """
        for node in self._after():
            if _pointwise(node):
                continue
            if not isinstance(node.op, view.Broadcast) or node.shape != self.anchor.shape:
                return False
            sizes = node.inputs[0].shape
            kept = {a for a, n in zip(node.op.axes, sizes, strict=True) if n != 1}
            if kept & axes and not axes <= kept:
                return False
            if [a for a in node.op.axes if a in kept] != sorted(kept):
                return False
        return True


def _pointwise(node: Node) -> bool:
    return isinstance(node.op, Scalar | Compare | Select | Cast) or is_lookup(node)


def of(group: Group, anchor: Node) -> Epilogue | None:
    """The epilogue of a group, or None if a node of it cannot be computed element by element."""
    epilogue = Epilogue(group, anchor, {anchor: ()})
    same: dict[object, Node] = {}  # the first of several views that map to the same indices
    for node in group.nodes:
        paths = {epilogue.paths[i] for i in node.inputs if i in epilogue.paths}
        if not paths or node is anchor:
            continue
        if len(paths) > 1:
            return None
        (path,) = paths
        if _pointwise(node):
            epilogue.paths[node] = path
        elif isinstance(node.op, MOVING):
            epilogue.paths[node] = (*path, same.setdefault((path, node.op, node.shape), node))
        else:
            return None
    return epilogue if all(node in epilogue.paths for node in group.outputs) else None


def in_place(epilogue: Epilogue, operands: set[Node]) -> tuple[tuple[Node, Node], ...]:
    """Pairs of an output and an input that it may overwrite: the input is read only at the element
    being written.
    """
    group = epilogue.group
    pairs = []
    for output in group.outputs:
        if output.type.size == 0:
            continue
        for node in group.inputs:
            path = epilogue.paths[output]
            direct = any(node in n.inputs for n in group.nodes) and _read_along(
                epilogue, node, path
            )
            if direct and node.type == output.type and node not in operands:
                pairs.append((output, node))
    return tuple(pairs)


def _read_along(epilogue: Epilogue, node: Node, path: tuple[Node, ...]) -> bool:
    """Whether a value is read only at its own index by nodes at the end of `path`: directly, or
    through other elementwise nodes.
    """
    read = {node}  # elements of `node`, and of nodes computed from it before the contraction
    for user in epilogue.group.nodes:
        if read.isdisjoint(user.inputs):
            continue
        if not _pointwise(user) or epilogue.paths.get(user, path) != path:
            return False
        if user not in epilogue.paths:
            read.add(user)
    return True
