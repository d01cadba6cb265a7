"""Which numbers the integers of a model's inputs may be: where an input holds classes of a loss or
rows of a table, there are only so many. Operations clamp what is beyond; data to learn from should
not have it.
"""

from __future__ import annotations

from xlac.ir.graph import Graph
from xlac.ops.nn.class_loss import Classes
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.choose import Embedding
from xlac.ops.tensor.leaf import Param
from xlac.ops.tensor.view import Broadcast, Reshape, Slice, Transpose

VIEWS = (Broadcast, Cast, Reshape, Slice, Transpose)


def index_ranges(graph: Graph) -> dict[str, tuple[int, int]]:
    """The least and greatest number of each input that is used so, by name; of several uses what
    all of them have.
    """
    found: dict[str, tuple[int, int]] = {}
    for node in graph.nodes():
        if isinstance(node.op, Classes):
            indices, count = node.inputs[1], node.inputs[0].type.shape[node.op.axis]
        elif isinstance(node.op, Embedding):
            indices, count = node.inputs[0], node.op.count
        else:
            continue
        if not isinstance(count, int):
            continue
        while isinstance(indices.op, VIEWS) and indices.inputs[0].type.dtype.is_integer:
            indices = indices.inputs[0]
        leaf = indices.op
        if isinstance(leaf, Param) and leaf.kind == "input" and indices.type.dtype.is_integer:
            found[leaf.name] = (0, min(count - 1, found.get(leaf.name, (0, count - 1))[1]))
    return found
