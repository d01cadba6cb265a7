"""Partitions a graph among the ranks of a mesh: the graph of one rank, with explicit collectives.

All ranks run the same graph, each on its parts of inputs and weights. The results equal those of
the graph that was partitioned, but for the order of sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xlac.ir.graph import Graph, Node
from xlac.ops.collective.sums import AllReduce
from xlac.ops.tensor.leaf import Param, param
from xlac.spmd.local_nodes import LocalNodes, PartialSum
from xlac.spmd.manual import check_manual_ways
from xlac.spmd.mesh import AxisNames, Mesh, Sharding
from xlac.spmd.propagate import Shardings
from xlac.spmd.run_time import Rates
from xlac.spmd.sums.move import SumFlow, move_sums


@dataclass(frozen=True, slots=True, eq=False)
class Partitioned:
    """The graph of one rank. `inputs`, `weights` and `outputs` say by name how the values of the
    whole graph are divided; `reasons` why each collective is there. Of the inputs `partial` ranks
    along some axes hold summands, and so they give their next values.
    """

    graph: Graph
    mesh: Mesh
    inputs: Mapping[str, Sharding]
    weights: Mapping[str, Sharding]
    outputs: Mapping[str, Sharding]
    reasons: Mapping[Node, str]
    unmoved: Graph  # before sums over ranks were moved
    partial: Mapping[str, AxisNames] = field(default_factory=dict)


def partitioned(
    graph: Graph,
    mesh: Mesh,
    given: Mapping[str, Sharding],
    links: Sequence[tuple[str, str]] = (),
    rates: Rates | None = None,
    partial: Mapping[str, AxisNames] | None = None,
) -> Partitioned:
    """The graph of one rank. `given` has the shardings of parameters by name, which divide their
    sizes; `links` are pairs of a parameter and an output that are divided alike (a state and its
    next value). Composites other than scalar functions are computed whole by every rank: expand
    them first. Where values may be divided in several ways, that of the least time at `rates` is
    taken; ranks that run together have the same rates. Of the linked parameters `partial` ranks
    hold summands, along these axes, and give their next ones.
    """
    rates, partial = rates or Rates(), partial or {}
    params = {n.op.name: n for n in (*graph.inputs, *graph.nodes()) if isinstance(n.op, Param)}
    pairs = [(params[name], graph.outputs[o]) for name, o in links if name not in partial]
    sums = {n: PartialSum(given.get(n, ((),) * params[n].type.rank), a) for n, a in partial.items()}
    whole = {name: sharding for name, sharding in given.items() if name not in sums}
    hints = {(params[name], 0): one.sharding for name, one in sums.items()}
    local = LocalNodes(Shardings(graph, mesh, whole, pairs, hints), mesh, rates, partial=sums)
    for node in (*graph.inputs, *graph.nodes()):
        local.visit(node)
    held = {name: local.summands.get(node) or local.value(node) for name, node in params.items()}
    linked = {output: name for name, output in links}
    outputs, divided = {}, {}
    for name, node in graph.outputs.items():
        value = local.value(node)
        wanted = held[linked[name]].sharding if name in linked else value.sharding
        reason = f"output '{name}' is divided as its state"
        outputs[name] = local.resharder.to(value, wanted, reason).node
        divided[name] = wanted
    inputs = tuple(held[param(i).name].node for i in graph.inputs)
    known = {name: value.sharding for name, value in held.items()}
    weights = {n: s for n, s in known.items() if params[n] not in set(graph.inputs)}
    own = Graph(graph.name, inputs, outputs)
    differing = {n: (*s, sums[n].axes) if n in sums else s for n, s in known.items()}
    differs = check_manual_ways(graph, own, differing)
    kept = {o: AllReduce(mesh.axes, sums[n].axes) for n, o in links if n in sums}
    flow = SumFlow(own, differs, kept, link=rates.link)
    moved, reasons = move_sums(flow, local.resharder.reasons, mesh.axes)
    return Partitioned(
        moved,
        mesh,
        {n: s for n, s in known.items() if n not in weights},
        weights,
        divided,
        reasons,
        own,
        partial,
    )
