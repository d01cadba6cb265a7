"""Cuts a graph into groups, each of which becomes a kernel.

Two sweeps. Forwards (`consumer_fusion.py`), reductions, contractions and the like found clusters,
and nodes that read their results join them. Backwards (`producer_fusion.py`), each node that is in
none is computed where it is read, or written to memory once. Then elementwise clusters are joined:
one that reads what another writes, those of one shape that share an operand, and tiny ones. Where
launches take few buffers, all of it is repeated with cuts (`buffers.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from xlac.fusion.buffers import CROWDED, cuts
from xlac.fusion.cluster import Cluster
from xlac.fusion.consumer_fusion import ConsumerFusion
from xlac.fusion.group import Group, Kind, KindTaken, Partition, Placement
from xlac.fusion.horizontal_fusion import join_readers, join_siblings
from xlac.fusion.placement import WANTED, Placements
from xlac.fusion.producer_fusion import ProducerFusion
from xlac.fusion.wants import RESULT
from xlac.ir.graph import Graph, Node
from xlac.ops.tensor import view
from xlac_sdk.support.limits import count_work
from xlac_sdk.target import Target


def partition(
    graph: Graph,
    target: Target,
    *,
    fuse: bool = True,
    kind_taken: KindTaken,
    placements: Placements | None = None,
    body: bool = False,
) -> Partition:
    """The groups of a graph and of the bodies inside it. Without `fuse`, every node has a kernel of
    its own. `kind_taken` says which composites a lowering takes whole: `codegen.claims.kind_taken`.
    `placements` says where some values are to be computed. `body`: the graph is that of a loop or a
    branch.
    """
    wanted = placements.of(graph) if fuse and placements is not None else {}
    groups, chosen = _fitting(graph, target, fuse, kind_taken, wanted, body)
    inner: dict[Graph, Partition] = {}
    for group in groups:
        if group.kind is Kind.CONTROL:
            for part in group.anchor.op.bodies():
                inner[part] = partition(
                    part, target, fuse=fuse, kind_taken=kind_taken, placements=placements, body=True
                )
    return Partition(graph, groups, inner, chosen)


def is_alias(group: Group) -> bool:
    """Whether a group only renames memory: a reshape of a value that already exists."""
    return (
        group.kind is Kind.ELEMENTWISE
        and len(group.nodes) == 1
        and isinstance(group.anchor.op, view.Reshape)
    )


def _fitting(
    graph: Graph,
    target: Target,
    fuse: bool,
    kind_taken: KindTaken,
    wanted: Mapping[Node, Placement],
    body: bool,
) -> tuple[tuple[Group, ...], Mapping[Node, Placement]]:
    """The groups, within the buffers of a launch where the target limits them, and which values are
    in memory by choice.
    """
    apart = {node: WANTED for node, where in wanted.items() if where is Placement.APART}
    while True:
        fusion = ConsumerFusion(graph, target, fuse, kind_taken, apart, wanted, body)
        groups, chosen = _groups(fusion)
        if not target.most_buffers or not fuse:
            return groups, chosen
        more = cuts(groups, target.most_buffers, apart)
        if not more:
            return groups, chosen
        apart |= dict.fromkeys(more, CROWDED)


def _groups(fusion: ConsumerFusion) -> tuple[tuple[Group, ...], Mapping[Node, Placement]]:
    """The groups after the first sweep, and which values are in memory by choice."""
    why, target = ProducerFusion(fusion).why, fusion.target
    clusters = sorted((c for c in fusion.clusters if c.outputs), key=lambda c: c.key)
    if fusion.fuse:
        apart = {node for node, why in fusion.apart.items() if why == WANTED}
        clusters = join_readers(clusters, fusion.number, fusion.results, target, apart)
        clusters = join_siblings(clusters, fusion.number, target)
    groups = tuple(_group(c, fusion.number, why) for c in clusters)
    return groups, fusion.chosen


def _group(cluster: Cluster, number: Mapping[Node, int], why: Mapping[Node, str]) -> Group:
    count_work()
    nodes = tuple(sorted(cluster.members, key=number.__getitem__))
    outputs = tuple(sorted(cluster.outputs, key=number.__getitem__))
    if cluster.kind in (Kind.CONTROL, Kind.CLAIMED, Kind.CUSTOM, Kind.COLLECTIVE):
        inputs = cluster.anchor.inputs
    else:
        inputs = tuple(
            dict.fromkeys(i for n in nodes for i in n.inputs if i not in cluster.members)
        )
    barriers = {i: why[i] for i in inputs if why.get(i)}
    barriers |= {o: why[o] for o in outputs if why.get(o, RESULT) != RESULT}
    anchor = cluster.anchor if cluster.anchor in cluster.members else outputs[-1]
    return Group(cluster.kind, anchor, nodes, inputs, outputs, _reason(cluster, nodes), barriers)


def _reason(cluster: Cluster, nodes: tuple[Node, ...]) -> str:
    anchor, others = cluster.anchor, len(nodes) - 1
    if cluster.kind is Kind.ELEMENTWISE and others == 0 and isinstance(anchor.op, view.Reshape):
        return "a reshape: the same memory under another shape"
    text = (
        f"{anchor.op.mnemonic} alone"
        if not others
        else f"{anchor.op.mnemonic} with {_names(nodes, anchor)}"
    )
    return "; ".join((text, *cluster.notes))


def _names(nodes: tuple[Node, ...], anchor: Node) -> str:
    """The names of the operations computed beside the anchor, each once; views only where there is
    nothing else. ASCII, as it is written to source text.
    """
    others = [n for n in nodes if n is not anchor]
    work = [
        n for n in others if not isinstance(n.op, view.Reshape | view.Broadcast | view.Transpose)
    ]
    return ", ".join(dict.fromkeys(n.op.mnemonic for n in work or others))
