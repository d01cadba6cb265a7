"""Applies graphs on scalars to whole tensors."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.graph import Graph, Node
from xlac.ops import build
from xlac.ops.tensor import view
from xlac.ops.tensor.leaf import Const, Iota, Param


def lifted(body: Graph, nodes: Sequence[Node]) -> list[Node]:
    """A body on scalars applied element by element to tensors of one shape. Raises ValueError if it
    has non-scalar operations.
    """
    shape = nodes[0].shape
    new: dict[Node, Node] = dict(zip(body.inputs, nodes, strict=True))
    for node in body.nodes():
        if node in new:
            continue
        if isinstance(node.op, Const):
            new[node] = node
            continue
        if any(t.shape for t in node.results) or isinstance(node.op, Param | Iota):
            raise ValueError(f"{node.op.mnemonic} of {node.types}")
        inputs = [
            build.spread(new[i], shape, ()) if new[i].shape != shape else new[i]
            for i in node.inputs
        ]
        if isinstance(node.op, view.Reshape | view.Broadcast):
            new[node] = inputs[0]
        else:
            new[node] = Node.of(node.op, *inputs)
    return [
        build.spread(new[o], shape, ()) if new[o].shape != shape else new[o]
        for o in body.outputs.values()
    ]
