"""Which values are one for all ranks, and which differ along axes of the mesh.

Collectives written by hand need this: the sum over ranks of a value that they share counts it once
for each of them, and so would its derivative. The kind of every value follows from those of the
parameters, as types do; `vary` makes it explicit where the two meet.
"""

from __future__ import annotations

from collections.abc import Mapping

from xlac.ir.graph import Graph, Node
from xlac.ir.op import ShapeError
from xlac.ops.collective.exchanges import AllGather, CollectiveBroadcast
from xlac.ops.collective.group import Collective, MeshAxes
from xlac.ops.collective.ranks import AxisIndex, Varying
from xlac.ops.collective.sums import AllReduce
from xlac.ops.control.control import Pick
from xlac.ops.tensor.leaf import Const, Param

Axes = frozenset[str]


def vary(graph: Graph, mesh: MeshAxes, given: Mapping[str, Axes]) -> Graph:
    """The graph with `varying` wherever shared values meet ones that differ. Differentiate this.

    `given` has, for parameters that differ between ranks, by name, the axes along which they do.
    Raises ShapeError for a collective of a value that is shared along its axes.
    """
    order = [name for name, _ in mesh]
    differs: dict[Node, Axes] = {}
    new: dict[Node, Node] = {}

    def along(node: Node, axes: Axes) -> Node:
        more = tuple(name for name in order if name in axes - differs[node])
        return Node.of(Varying(mesh, more), new[node], origin=node.origin) if more else new[node]

    for node in (*graph.inputs, *graph.nodes()):
        if node in new:
            continue
        joint: Axes = frozenset().union(*(differs[i] for i in node.inputs))
        differs[node] = _result(node, joint, given)
        if isinstance(node.op, Pick) or not node.inputs:
            inputs = tuple(new[i] for i in node.inputs)
        else:
            inputs = tuple(along(i, joint) for i in node.inputs)
        new[node] = node if inputs == node.inputs else node.with_inputs(inputs)
    outputs = {name: new[node] for name, node in graph.outputs.items()}
    return Graph(graph.name, tuple(new[i] for i in graph.inputs), outputs)


def _result(node: Node, joint: Axes, given: Mapping[str, Axes]) -> Axes:
    """Along which axes the results of a node differ, where its operands do along `joint`."""
    op = node.op
    if isinstance(op, Param):
        return given.get(op.name, frozenset())
    if isinstance(op, Const) or not isinstance(op, Collective):
        return joint
    over = frozenset(op.axes)
    if isinstance(op, AxisIndex):
        return over
    if isinstance(op, Varying):
        if joint & over:
            raise ShapeError(
                f"x differs along {', '.join(sorted(joint & over))} already", operand=0
            )
        return joint | over
    if not over <= joint:
        raise ShapeError(
            f"{op.mnemonic} over {', '.join(op.axes)} of a value that ranks share along "
            f"{', '.join(sorted(over - joint))} would count it once for each of them",
            operand=0,
            hint="apply varying to it first, if that is meant",
        )
    shares = isinstance(op, AllReduce | CollectiveBroadcast)
    if shares or (isinstance(op, AllGather) and op.shared):
        return joint - over
    return joint
