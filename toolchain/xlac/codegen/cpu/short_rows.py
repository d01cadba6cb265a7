"""Groups around reductions of a few elements per row, computed as elementwise groups.

As a row, three numbers fill a vector of four lanes badly, and what follows from their sum fills
none. As the sum of three slices, it is computed for as many rows at once as a vector has lanes, and
so is all that follows; the results, one piece for each column, are stored interleaved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from xlac.codegen.core.lowered_group import LoweredGroup, Value
from xlac.codegen.core.seams.woven_stores import WIDTH
from xlac.fusion.group import Group, Kind
from xlac.ir.dims import size_hint, volume
from xlac.ir.graph import Node, apply
from xlac.ir.op import Elementwise
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.tensor.extend import Concat
from xlac.ops.tensor.view import Reshape, Slice
from xlac_sdk.target import Target


def takes(group: Group, target: Target) -> bool:
    """Whether all reductions of a group are over the last axis, which has a few elements."""
    length = group.outputs[0].shape[-1] if group.outputs[0].shape else 0
    lanes = target.lanes(group.outputs[0].type.dtype)
    if group.kind is not Kind.ROWS or not isinstance(length, int) or target.size:
        return False
    if not 1 < length <= min(WIDTH, lanes - 1):
        return False
    rows = group.outputs[0].shape[:-1]
    return (
        size_hint(volume(rows)) >= 2 * lanes
        and all(output.shape == (*rows, length) for output in group.outputs)
        and all(_allowed(node, (*rows, length)) for node in group.nodes)
    )


def _allowed(node: Node, shape: tuple[object, ...]) -> bool:
    if any(t.dtype.compute is not t.dtype for t in (node.type, *(i.type for i in node.inputs))):
        return False  # 16-bit floats are summed in a wider type
    if isinstance(node.op, Reduce):
        (x, *more) = node.inputs
        last = (x.type.rank - 1,)
        return not more and x.shape == shape and node.op.axes == last and node.op.combine != "body"
    return isinstance(node.op, Elementwise) and len(node.results) == 1


def elementwise(group: Group) -> tuple[Group, dict[Node, Node]]:
    """The group with sums of slices in place of reductions, and results in pieces; and which
    original output each of its outputs represents.
    """
    new: dict[Node, Node] = {}
    for node in group.nodes:
        inputs = tuple(new.get(i, i) for i in node.inputs)
        new[node] = _combined(node, inputs[0]) if _is_reduce(node) else node.with_inputs(inputs)
    outputs = {_pieces(new[output]): output for output in group.outputs}
    nodes = tuple(_inside(outputs, set(group.inputs)))
    anchor = next(iter(outputs))
    unrolled = Group(
        Kind.ELEMENTWISE, anchor, nodes, group.inputs, tuple(outputs), group.reason, group.barriers
    )
    return unrolled, outputs


def restored(lowered: LoweredGroup, outputs: dict[Node, Node]) -> LoweredGroup:
    """The lowering of the elementwise group, for the outputs of the original one."""

    def of(value: Value) -> Value:
        return outputs.get(value, value) if isinstance(value, Node) else value

    launches = tuple(
        replace(launch, arguments=tuple(map(of, launch.arguments))) for launch in lowered.launches
    )
    in_place = tuple((outputs.get(a, a), b) for a, b in lowered.in_place)
    return replace(lowered, launches=launches, in_place=in_place)


def _is_reduce(node: Node) -> bool:
    return isinstance(node.op, Reduce)


def _inside(outputs: Iterable[Node], outside: set[Node]) -> list[Node]:
    """The nodes that compute outputs, in order, without inputs of the group."""
    nodes: list[Node] = []
    seen: set[Node] = set(outside)

    def visit(node: Node) -> None:
        if node in seen:
            return
        seen.add(node)
        for i in node.inputs:
            visit(i)
        nodes.append(node)

    for node in outputs:
        visit(node)
    return nodes


def _column(x: Node, number: int) -> Node:
    rank = x.type.rank
    starts, stops = [0] * rank, list(x.shape)
    starts[-1], stops[-1] = number, number + 1
    return Node.of(Slice(tuple(starts), tuple(stops), (1,) * rank), x, origin=x.origin)


def _combined(node: Node, x: Node) -> Node:
    """A reduction as a chain of operations on the columns of its operand."""
    assert isinstance(node.op, Reduce) and isinstance(x.shape[-1], int)
    columns = [
        Node.of(Reshape(node.shape), _column(x, n), origin=node.origin) for n in range(x.shape[-1])
    ]
    total = columns[0]
    for column in columns[1:]:
        total = replace(apply(node.op.combine, total, column), origin=node.origin)
    return total


def _pieces(x: Node) -> Node:
    assert isinstance(x.shape[-1], int)
    columns = [_column(x, number) for number in range(x.shape[-1])]
    return Node.of(Concat(x.type.rank - 1), *columns, origin=x.origin)
