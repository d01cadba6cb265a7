"""The valid numbers of a PyTorch program's integer arguments: class labels, rows of an embedding,
indices of `gather`. PyTorch raises an error for others; operations of this compiler clamp them.
"""

from __future__ import annotations

import numpy as np

from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import evaluate
from xlac.ir.op import Array, normal_axis
from xlac.ops.scalar.arithmetic import Add, Max, Min, Sub
from xlac.ops.scalar.comparison import Compare, Select
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.choose import TakeAlongAxis
from xlac.ops.tensor.gather import Gather
from xlac.ops.tensor.leaf import Const, Param
from xlac.ops.tensor.view import Broadcast, Reshape, Slice, Transpose
from xlac.training.data.column import IndexRange

MOST_ROWS = 1 << 21
"""The longest axis whose indices are looked at: all of its numbers are tried."""

FEW = 8
"""The most single numbers that are valid beside a range, such as a label that is ignored."""

_ELEMENTWISE = (Add, Cast, Compare, Max, Min, Select, Sub)
_VIEWS = (Broadcast, Reshape, Slice, Transpose)


def argument_ranges(graph: Graph) -> dict[str, IndexRange]:
    """The valid numbers of each input, by name, that indices are computed from, number by number.
    Inputs from which any number gives valid indices are left out.
    """
    ranges: dict[str, IndexRange] = {}
    for node in graph.nodes():
        read = _read(node)
        if read is None:
            continue
        indices, count = read
        found = _of_input(indices, count) if isinstance(count, int) else None
        if found is not None:
            name, own = found
            ranges[name] = own & ranges.get(name, own)
    return ranges


def _read(node: Node) -> tuple[Node, object] | None:
    """The indices by which a node reads along one axis, and the length of this axis."""
    op = node.op
    if isinstance(op, TakeAlongAxis):
        x, indices = node.inputs
        return indices, x.shape[normal_axis(op.axis, x.type.rank)]
    if isinstance(op, Gather) and len(op.start_index_map) == 1:
        (axis,) = op.start_index_map
        x, indices = node.inputs
        return (indices, x.shape[axis]) if op.slice_sizes[axis] == 1 else None
    return None


def _of_input(indices: Node, count: int) -> tuple[str, IndexRange] | None:
    """The input that indices are computed from, element by element, and its valid numbers; None
    where they are computed otherwise, or any number is valid.
    """
    order = Graph("", (), {"indices": indices}).order
    leaves = [node for node in order if isinstance(node.op, Param)]
    if count > MOST_ROWS or len(leaves) != 1 or not all(map(_is_elementwise, order)):
        return None
    (leaf,) = leaves
    if not isinstance(leaf.op, Param) or leaf.op.kind != "input" or not leaf.type.dtype.is_integer:
        return None
    dtype = leaf.type.dtype.numpy
    tried = _tried(order, count, dtype)
    values: dict[Node, Array] = {}
    for node in order:
        if node is leaf:
            values[node] = tried.astype(dtype)
        elif isinstance(node.op, Const):
            values[node] = np.full(tried.shape, np.asarray(node.op.value).reshape(()))
        elif isinstance(node.op, _VIEWS):
            values[node] = values[node.inputs[0]]
        else:
            (values[node],) = evaluate(node, [(values[i],) for i in node.inputs], False)
    valid = (values[indices] >= 0) & (values[indices] < count)
    held = _range(tried, valid)
    return None if held is None else (leaf.op.name, held)


def _is_elementwise(node: Node) -> bool:
    """Whether each element of a result depends on one element of each operand."""
    if isinstance(node.op, Const):
        return np.asarray(node.op.value).size == 1
    return isinstance(node.op, (Param, *_ELEMENTWISE, *_VIEWS))


def _tried(order: tuple[Node, ...], count: int, dtype: np.dtype) -> Array:
    """The numbers that are tried, ascending: those around the axis in both directions, and around
    constants.
    """
    ends = np.iinfo(dtype)
    near = [np.arange(-count - 2, count + 3, dtype=np.int64)]
    for node in order:
        if isinstance(node.op, Const) and node.type.dtype.is_integer:
            number = int(np.asarray(node.op.value).reshape(()))
            if abs(number) < 1 << 62:
                near.append(np.arange(number - 1, number + 2, dtype=np.int64))
    every = np.unique(np.concatenate(near))
    return every[(every >= ends.min) & (every <= min(int(ends.max), 1 << 62))]


def _range(tried: Array, valid: Array) -> IndexRange | None:
    """The valid ones of some ascending numbers: a range that contains 0, and few others."""
    start = int(np.searchsorted(tried, 0))
    if start == len(tried) or tried[start] != 0 or not valid[start]:
        return None
    wrong = np.flatnonzero(~valid)
    before, after = wrong[wrong < start], wrong[wrong > start]
    if (not len(before) and tried[0] < 0) or not len(after):
        return None
    first = int(before[-1]) + 1 if len(before) else start
    last = int(after[0]) - 1
    others = [int(n) for n in tried[valid] if not tried[first] <= n <= tried[last]]
    if len(others) > FEW:
        return None
    return IndexRange(int(tried[first]), int(tried[last]), frozenset(others))
