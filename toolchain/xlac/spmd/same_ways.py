"""Checks that ranks take the same ways: what decides on a branch, or ends a loop, is the same on
all ranks that exchange values inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xlac.ir.graph import Graph, Node
from xlac.ops.collective.exchanges import AllGather, CollectiveBroadcast
from xlac.ops.collective.group import Collective
from xlac.ops.collective.sums import AllReduce
from xlac.ops.control.control import Call, Cond, Pick, Scan, While
from xlac.ops.tensor.leaf import Param
from xlac.spmd.mesh import Sharding
from xlac_sdk.source import VerifyError

Axes = frozenset[str]
"""The axes of the mesh along which the values of ranks differ."""

NONE: Axes = frozenset()


def check_ways(graph: Graph, shardings: Mapping[str, Sharding]) -> dict[Node, list[Axes]]:
    """Along which axes each result of every node differs. Raises VerifyError for a loop or a branch
    with a collective inside over ranks that may take different ways. `shardings` says by name how
    parameters are divided.
    """
    given = {
        n: axes_of(shardings.get(n.op.name, ()))
        for n in (*graph.inputs, *graph.nodes())
        if isinstance(n.op, Param)
    }
    return differing(graph, given)


def axes_of(sharding: Sharding) -> Axes:
    """The axes of the mesh that divide a value."""
    return frozenset(name for names in sharding for name in names)


def _of_outputs(graph: Graph, given: Mapping[Node, Axes]) -> list[Axes]:
    """Along which axes each output of a graph differs, where its parameters do as given."""
    differs = differing(graph, given)
    return [differs[node][0] for node in graph.outputs.values()]


def differing(graph: Graph, given: Mapping[Node, Axes]) -> dict[Node, list[Axes]]:
    """Along which axes each result of every node differs, where parameters do as given. Raises
    VerifyError as `check_ways`.
    """
    differs: dict[Node, list[Axes]] = {}
    for node in (*graph.inputs, *graph.nodes()):
        if node in differs:
            continue
        if isinstance(node.op, Pick):
            differs[node] = [differs[node.inputs[0]][node.op.index]]
            continue
        own = [differs[i][0] for i in node.inputs]
        if isinstance(node.op, Param):
            differs[node] = [given.get(node, NONE)]
        elif isinstance(node.op, Call | Cond | Scan | While):
            differs[node] = _of_control(node, own)
        else:
            joint = NONE.union(*own)
            differs[node] = [_of(node, joint)] * len(node.results)
    return differs


def _of(node: Node, joint: Axes) -> Axes:
    op = node.op
    if not isinstance(op, Collective):
        return joint
    if isinstance(op, AllReduce | AllGather | CollectiveBroadcast):
        return joint - frozenset(op.axes)
    return joint | frozenset(op.axes)


def _of_control(node: Node, own: Sequence[Axes]) -> list[Axes]:
    op = node.op
    match op:
        case Scan(body=Graph() as body, carries=count):
            return _settled(body, own, count)
        case While(cond=Graph() as cond, body=Graph() as body):
            found = _settled(body, own, len(own))
            (decides,) = _of_outputs(cond, dict(zip(cond.inputs, found, strict=True)))
            _check(node, decides, (cond, body))
            return [one | decides for one in found]
        case Cond(branches=branches):
            decides, given = own[0], own[1:]
            _check(node, decides, branches)
            every = [_of_outputs(b, dict(zip(b.inputs, given, strict=True))) for b in branches]
            return [decides.union(*one) for one in zip(*every, strict=True)]
        case Call(body=Graph() as body):
            return _of_outputs(body, dict(zip(body.inputs, own, strict=True)))
    return [NONE.union(*own)] * len(node.results)


def _settled(body: Graph, own: Sequence[Axes], carries: int) -> list[Axes]:
    """The same for a loop, whose carried values differ as those of its last step."""
    now = list(own)
    while True:
        found = _of_outputs(body, dict(zip(body.inputs, now, strict=True)))
        next_ = [a | b for a, b in zip(now[:carries], found[:carries], strict=True)]
        if next_ == now[:carries]:
            return [*next_, *found[carries:]]
        now[:carries] = next_


def _check(node: Node, decides: Axes, bodies: Sequence[Graph]) -> None:
    for axis in decides & exchanging(bodies):
        problem = f"ranks along '{axis}' may take different ways in {node.op.mnemonic}"
        raise VerifyError(f"{problem} {node.name or ''}, and exchange values inside")


def exchanging(bodies: Sequence[Graph]) -> Axes:
    """The axes of the mesh over which values are exchanged inside of bodies."""
    found: set[str] = set()
    for body in bodies:
        for node in body.nodes():
            if isinstance(node.op, Collective) and node.op.group > 1:
                found |= set(node.op.axes)
            found |= exchanging(node.op.bodies())
    return frozenset(found)
