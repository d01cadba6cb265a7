"""Sparse updates: a step reads few rows of some weights, such as an embedding's table.

The gradient of such a weight is a scatter of rows into zeros. Where an optimizer changes neither
the weight nor its own state for it at elements whose gradient is 0 (sgd without momentum or decay,
and Adagrad), only the rows that the step read are computed and written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xlac.ir.graph import Node, zeros
from xlac.ops import build
from xlac.ops.scalar.arithmetic import Add, Div, Max, Min, Mul, Sqrt, Sub
from xlac.ops.scalar.convert import Cast
from xlac.ops.scalar.primitive import Scalar
from xlac.ops.tensor.leaf import Const
from xlac.ops.tensor.scatter import Scatter
from xlac.ops.tensor.view import Broadcast
from xlac.ops.walks import dependents
from xlac_sdk.dtypes import DType

FEW = 0.5  # the largest share of rows, as read by a step, that is updated row by row


def by_rows(old: Sequence[Node], new: Sequence[Node]) -> list[Node]:
    """The next values `new` of a weight and of the optimizer's state for it (all of its shape,
    `old` the present ones), computed and written for the rows of the gradient alone. `new` itself
    where that would not give the same result.
    """
    sums = _sums(old[0], new)
    if sums is None or [_AtZeroGradient(sums.node).value(node) for node in new] != list(old):
        return list(new)
    known = {node: sums.rows(node) for node in old} | {sums.node: sums.own_rows()}
    updates = [_of_rows(node, sums, known) for node in new]
    return [sums.written(x, rows) for x, rows in zip(old, updates, strict=True)]


def chosen(condition: Node, new: Node, old: Node) -> Node:
    """The new value of a state tensor where a bool scalar holds, else the old one. Where only some
    rows are written, the choice is made for those rows.
    """
    if not isinstance(new.op, Scatter) or new.op.combine != "assign" or new.inputs[0] is not old:
        return build.select(condition, new, old)
    _, indices, rows = new.inputs
    rows = build.select(condition, rows, build.take(old, indices, 0))
    return Node.of(new.op, old, indices, rows, origin=new.origin)


@dataclass(frozen=True, eq=False)
class _RowSums:
    """A gradient that is a scatter-add of rows into zeros, at indices that are all in range."""

    node: Node

    @property
    def op(self) -> Scatter:
        """The scatter."""
        assert isinstance(self.node.op, Scatter)
        return self.node.op

    def rows(self, x: Node) -> Node:
        """The rows of another tensor at the same indices."""
        return build.take(x, self.node.inputs[1], 0)

    def own_rows(self) -> Node:
        """The rows of the gradient at the scatter's indices, without computing the whole tensor.
        Updates of a row that occurs several times are summed at its last occurrence, which is then
        read for each of them.
        """
        _, indices, updates = self.node.inputs
        count = indices.type.size
        numbers = build.reshape(build.iota((count,), 0, DType.I32), indices.shape)
        last = zeros(numbers.type.with_shape(self.node.shape[:1]))
        last = Node.of(
            replace(self.op, combine="assign", update_window_dims=()), last, indices, numbers
        )
        standing = self.rows(last)
        sums = zeros(self.node.type.with_shape((count, *self.node.shape[1:])))
        return build.take(Node.of(self.op, sums, standing, updates), standing, 0)

    def written(self, x: Node, rows: Node) -> Node:
        """`x` with the rows at the scatter's indices replaced. Rows of a repeated index are equal,
        so their order does not matter.
        """
        return Node.of(replace(self.op, combine="assign"), x, self.node.inputs[1], rows)


def _sums(weight: Node, new: Sequence[Node]) -> _RowSums | None:
    """The gradient of a weight, if it is a scatter of few of its rows (at most the share FEW)."""
    scatters = _scattered(weight, new)
    if len(scatters) != 1 or not weight.shape:
        return None
    (node,), rank = scatters, weight.type.rank
    x, indices, updates = node.inputs
    count, rows = indices.type.size, weight.shape[0]
    batch = indices.type.rank
    plain = Scatter(
        update_window_dims=tuple(range(batch, batch + rank - 1)),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=batch,
        combine="add",
    )
    assert isinstance(node.op, Scatter)
    alike = replace(node.op, unique=False) == plain and updates.shape[batch:] == weight.shape[1:]
    if not alike or not isinstance(count, int) or not isinstance(rows, int):
        return None
    few = 0 < count <= FEW * rows and _uniform(x) == 0 and _in_range(indices, rows)
    return _RowSums(node) if few else None


def _scattered(weight: Node, new: Sequence[Node]) -> set[Node]:
    """The scatters of the weight's shape from which elementwise operations compute the update."""
    seen: set[Node] = set()
    left = list(new)
    while left:
        node = left.pop()
        if node not in seen and node.shape == weight.shape:
            seen.add(node)
            left += node.inputs if isinstance(node.op, Scalar | Cast) else ()
    return {node for node in seen if isinstance(node.op, Scatter)}


def _in_range(indices: Node, rows: int) -> bool:
    """Whether indices are clamped to the rows: `max(min(…, rows - 1), 0)`."""
    if not isinstance(indices.op, Max) or _uniform(indices.inputs[1]) != 0:
        return False
    below = indices.inputs[0]
    return isinstance(below.op, Min) and _uniform(below.inputs[1]) == rows - 1


def _uniform(node: Node) -> float | None:
    """The value of a constant whose elements are all equal, else None."""
    while isinstance(node.op, Broadcast):
        (node,) = node.inputs
    return node.op.uniform if isinstance(node.op, Const) else None


class _AtZeroGradient:
    """Simplifies expressions for elements whose gradient is 0, with finite scalars beside it."""

    def __init__(self, gradient: Node) -> None:
        self.zero = gradient  # in results, the gradient's node means 0
        self.values: dict[Node, Node | None] = {gradient: gradient}

    def value(self, root: Node) -> Node | None:
        """A node equal to `root` at such elements: `zero`, or one independent of the gradient; None
        where none is known.
        """
        for node in dependents([root], [self.zero]):
            if node not in self.values:
                self.values[node] = self._value(node)
        return self.values.get(root, root)

    def _value(self, node: Node) -> Node | None:
        values = [self.values.get(i, i) for i in node.inputs]
        zero = [v is self.zero for v in values]
        match node.op:
            case Mul() if any(zero):
                return self.zero
            case Add() if any(zero):
                return values[zero.index(True) ^ 1]
            case Sub() if zero[1]:
                return values[0]
            case Div() if zero[0] and _positive(node.inputs[1]):
                return self.zero
            case Cast() if zero[0]:
                return self.zero
            case Cast(dtype=dtype) if values[0] is not None:
                return _exact(values[0], dtype)
        return None


def _exact(x: Node, dtype: DType) -> Node | None:
    """The operand of a widening cast `x` that `dtype` casts back exactly, else None."""
    if not isinstance(x.op, Cast):
        return None
    before = x.inputs[0]
    wider = before.type.dtype.compute is x.type.dtype
    return before if wider and before.type.dtype is dtype else None


def _positive(node: Node) -> bool:
    """Whether a value is a square root plus a positive constant, so never 0."""
    if not isinstance(node.op, Add):
        return False
    a, b = node.inputs
    return isinstance(a.op, Sqrt) and (_uniform(b) or 0) > 0


def _of_rows(node: Node, sums: _RowSums, known: dict[Node, Node]) -> Node:
    """The expression `node` computed for the rows alone; `known` are the nodes done already."""
    if node not in known:
        if node.shape != sums.node.shape:
            known[node] = node
        elif isinstance(node.op, Broadcast) and not node.inputs[0].shape:
            known[node] = build.broadcast_to(node.inputs[0], sums.node.inputs[2].shape)
        elif isinstance(node.op, Scalar | Cast):
            inputs = [_of_rows(i, sums, known) for i in node.inputs]
            known[node] = Node.of(node.op, *inputs, origin=node.origin)
        else:
            known[node] = sums.rows(node)
    return known[node]
