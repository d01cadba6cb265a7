"""Which values are sums over ranks, so that the sum may be done after what reads them: operations
that are linear in a sum give the same of each rank's summand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xlac.ir.graph import Graph, Node
from xlac.ir.op import Elementwise
from xlac.ir.types import Type
from xlac.ops.collective.group import Collective
from xlac.ops.collective.sums import AllReduce, ReduceScatter
from xlac.ops.scalar.arithmetic import Div
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.leaf import Const
from xlac.ops.tensor.view import Broadcast
from xlac.ops.values import operand_names
from xlac.spmd.rules.indexing import is_zeros
from xlac.spmd.same_ways import Axes

SumOp = AllReduce | ReduceScatter


@dataclass(frozen=True, slots=True)
class SumForm:
    """A value as `op` of what each rank computes, its summand: of the summands of `operands`; those
    that are `masked`, which ranks share, only the first adds. `width`: the bytes of the narrowest
    element type on the way here, to which summands are rounded anyway.
    """

    op: SumOp
    width: int
    operands: tuple[int, ...] = ()
    masked: tuple[int, ...] = ()

    def summand(self, type: Type) -> Type:
        """The type of the summand of a value."""
        if isinstance(self.op, AllReduce):
            return type
        shape, axis = list(type.shape), self.op.axis
        return type.with_shape((*shape[:axis], shape[axis] * self.op.group, *shape[axis + 1 :]))


def sum_forms(
    graph: Graph, differs: Mapping[Node, Sequence[Axes]], carried: Mapping[Node, SumOp]
) -> dict[Node, SumForm]:
    """The values of a rank's graph that are sums over ranks. `differs` says along which axes of the
    mesh values differ between ranks; the parameters `carried` are taken for summands.
    """
    forms: dict[Node, SumForm] = {}
    for node in (*graph.inputs, *graph.nodes()):
        form = _form(node, forms, differs, carried)
        if form is not None:
            forms[node] = form
    return forms


def is_sum(node: Node) -> bool:
    """Whether a node adds up the values of several ranks."""
    op = node.op
    sums = isinstance(op, ReduceScatter) or (isinstance(op, AllReduce) and op.combine == "add")
    return sums and isinstance(op, Collective) and op.group > 1


def _form(
    node: Node,
    forms: Mapping[Node, SumForm],
    differs: Mapping[Node, Sequence[Axes]],
    carried: Mapping[Node, SumOp],
) -> SumForm | None:
    if node in carried:
        return SumForm(carried[node], node.type.dtype.nbytes)
    if is_sum(node):
        assert isinstance(node.op, AllReduce | ReduceScatter)
        return SumForm(node.op, node.type.dtype.nbytes)
    if len(node.results) != 1:
        return None
    for together in _linear_sets(node):
        form = _linear_form(node, together, forms, differs)
        if form is not None:
            return form
    return None


def _linear_sets(node: Node) -> list[set[int]]:
    """The numbers of operands in which a node is linear while the others are held fixed."""
    if isinstance(node.op, Div):
        return [{0}]
    if isinstance(node.op, Collective):
        return []
    declared = node.op.linear()
    if not declared:
        return []
    names = operand_names(node)
    return [{n for n, name in enumerate(names) if name in together} for together in declared]


def _linear_form(
    node: Node,
    together: set[int],
    forms: Mapping[Node, SumForm],
    differs: Mapping[Node, Sequence[Axes]],
) -> SumForm | None:
    """The form of a node by its operands `together`, in which it is linear."""
    sums = [n for n, i in enumerate(node.inputs) if n in together and i in forms]
    ops = {forms[node.inputs[n]].op for n in sums}
    if len(ops) != 1:
        return None
    (op,) = ops
    width = min(forms[node.inputs[n]].width for n in sums)
    if not _keeps_numbers(node, [node.inputs[n] for n in sums], width):
        return None
    masked: list[int] = []
    for number, given in enumerate(node.inputs):
        if number in sums or (number in together and is_zeros(given)):
            continue
        if set(op.axes) & differs[given][0]:
            return None
        if number in together:
            masked.append(number)
    if isinstance(op, ReduceScatter) and not _fits_parts(node, sums, masked):
        return None
    return SumForm(op, min(width, node.type.dtype.nbytes), tuple(sums), tuple(masked))


def _keeps_numbers(node: Node, sums: Sequence[Node], width: int) -> bool:
    """Whether what a node makes of summands adds up to what it makes of the sum, but for the order
    of roundings: no number is rounded to fewer bits than summands have been.
    """
    types = [i.type.dtype for i in sums]
    result = node.type.dtype
    if result.is_float:
        narrows = isinstance(node.op, Cast) and result.nbytes < width
        return all(dtype.is_float for dtype in types) and not narrows
    return result.is_integer and set(types) == {result} and not isinstance(node.op, Div)


def _fits_parts(node: Node, sums: Sequence[int], masked: Sequence[int]) -> bool:
    """Whether an operation on parts of a sum is one on the whole, too: each element of its own, and
    other operands that are one number.
    """
    if masked or not isinstance(node.op, Elementwise):
        return False
    others = [i for n, i in enumerate(node.inputs) if n not in sums]
    return all(i.shape == node.shape for i in node.inputs) and all(map(is_one_number, others))


def is_one_number(node: Node) -> bool:
    """Whether all elements of a value are one number, of which any shape can be made."""
    if isinstance(node.op, Broadcast):
        return not node.inputs[0].shape or is_one_number(node.inputs[0])
    return not node.shape or (isinstance(node.op, Const) and node.op.value.size == 1)


def with_shape(node: Node, shape: tuple[object, ...]) -> Node:
    """A value of one number in another shape."""
    source = node
    while isinstance(source.op, Broadcast):
        source = source.inputs[0]
    if source.shape:
        source = Node.of(Const(source.op.value.reshape(())), origin=source.origin)  # type: ignore[attr-defined]
    return Node.of(Broadcast(shape, ()), source, origin=node.origin) if shape else source  # type: ignore[arg-type]
