"""The first sweep of fusion: clusters around reductions, contractions and other anchors.

Clusters are numbered as they are created, and nodes that read their results join them: epilogues,
pointwise work between and after the reductions of a row, further reductions of the same space. A
node joins only the newest cluster that it depends on, so operands always come from older clusters
and no cycle can arise; this needs no search. Elementwise nodes that read no cluster stay without
one (floating) until the second sweep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xlac.fusion import cost
from xlac.fusion.cluster import Cluster, Label, is_fusible, is_pointwise
from xlac.fusion.epilogue_streams import superfluous
from xlac.fusion.group import Kind, KindTaken, Placement, is_immediate
from xlac.fusion.narrow_outputs import widening
from xlac.fusion.prologue_fusion import Prologues, prologues
from xlac.ir.composite import Composite
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Elementwise
from xlac.ops.control import control
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.tensor import leaf, view
from xlac_sdk.support.limits import count_work
from xlac_sdk.target import Target

ANCHORS = {
    "dot": Kind.DOT, "conv": Kind.CONV, "window": Kind.WINDOW, "scatter": Kind.SCATTER,
    "dyn_update": Kind.UPDATE, "sort": Kind.SORT, "cumulative": Kind.CUMULATIVE,
    "compact": Kind.CUMULATIVE, "rng_bits": Kind.RANDOM, "custom_call": Kind.CLAIMED,
    "cond": Kind.CONTROL, "while": Kind.CONTROL, "scan": Kind.CONTROL, "call": Kind.CONTROL,
}  # fmt: skip


class ConsumerFusion:
    """The clusters, the cluster of each node, and what the sweep knows of every node."""

    def __init__(
        self,
        graph: Graph,
        target: Target,
        fuse: bool,
        kind_taken: KindTaken,
        apart: Mapping[Node, str] | None = None,
        wanted: Mapping[Node, Placement] | None = None,
        body: bool = False,
    ) -> None:
        """Nodes of `apart` are read from memory, for the reasons given; `wanted` says where some
        are computed; `body` as in `partition`.
        """
        self.apart, self.wanted, self.body = apart or {}, wanted or {}, body
        # values in memory because that was estimated to cost less, or wanted
        self.chosen: dict[Node, Placement] = {
            node: where for node, where in self.wanted.items() if where is Placement.APART
        }
        self.target, self.fuse, self.kind_taken = target, fuse, kind_taken
        self.nodes = [n for n in graph.nodes() if not is_leaf(n)]
        self.number = {n: i for i, n in enumerate(self.nodes)}
        self.results = set(graph.outputs.values())
        self.home: dict[Node, Cluster] = {}
        self.newest: dict[Node, int] = {}  # the newest cluster that a node depends on or is in
        self.clusters: list[Cluster] = []
        self.weights: dict[Node, int] = {}  # operations per element, floating operands included
        self.reads: dict[Node, int] = {}  # bytes in memory that a floating node reads
        self._by_source: dict[tuple[Node, frozenset[int]], Cluster] = {}
        self.prologues = (
            prologues(self.number, graph.users(), self.results, target) if fuse else Prologues()
        )
        for node in self.nodes:
            count_work()
            self._visit(node)
        self._shorten(graph)

    def _visit(self, node: Node) -> None:
        kind = self._kind(node)
        newest = max((self.newest.get(i, -1) for i in node.inputs), default=-1)
        if isinstance(node.op, control.Pick):
            producer = self.home[node.inputs[0]]
            producer.add(node, Label.KEPT if producer.reduces else None)
            self._settle(node, producer)
        elif isinstance(node.op, Reduce):
            self._reduction(node, newest)
        elif kind is not None:
            self._found(kind, node)
        else:
            assert is_fusible(node), (
                f"no kernel for {node.op.mnemonic}: it should have been expanded"
            )
            cluster = self._joinable(node, newest) if node not in self.prologues.alone else None
            label = cluster.label_for(node) if cluster else None
            if cluster is not None and label is not None:
                cluster.add(node, label)
                self._settle(node, cluster)
            else:
                self.newest[node] = newest
        self._weigh(node)

    def _shorten(self, graph: Graph) -> None:
        """Cuts off the ends of epilogues that are cheaper as kernels of their own."""
        users = graph.users()
        late = [
            (cluster, node)
            for cluster in self.clusters
            for shortened in (superfluous, widening)
            for node in self._cut_off(
                cluster, shortened(cluster, self.target, users, self.results, self._floats)
            )
        ]
        for cluster, node in dict.fromkeys(late):
            cluster.remove(node)
            del self.home[node]
        for node in self.nodes if late else ():
            self._weigh(node)

    def _cut_off(self, cluster: Cluster, late: Sequence[Node]) -> Sequence[Node]:
        """The nodes that are to leave a cluster, unless a value that they read is wanted inline."""
        read = {i for node in late for i in node.inputs if i in cluster.members} - set(late)
        if any(self.wanted.get(node) is Placement.INLINE for node in read):
            return ()
        for node in read:
            self.chosen.setdefault(node, Placement.STORED)
        return late

    def _floats(self, node: Node) -> bool:
        """Whether a node has no cluster: its elements are computed where they are read."""
        return node in self.number and node not in self.home

    def _kind(self, node: Node) -> Kind | None:
        if isinstance(node.op, Composite) and not isinstance(node.op, Elementwise):
            return self.kind_taken(node, self.target) or Kind.CLAIMED
        return ANCHORS.get(node.op.mnemonic)

    def _found(self, kind: Kind, node: Node) -> Cluster:
        cluster = Cluster(kind, node, (len(self.clusters), -1), self.target.processors)
        self.clusters.append(cluster)
        label = Label.KEPT if cluster.reduces else Label.SAME if len(node.results) == 1 else None
        cluster.add(node, label)
        self._settle(node, cluster)
        return cluster

    def _settle(self, node: Node, cluster: Cluster) -> None:
        self.home[node] = cluster
        self.newest[node] = cluster.key[0]

    def _joinable(self, node: Node, newest: int) -> Cluster | None:
        """The newest cluster that a node depends on, if all of its operands are in that cluster or
        in older ones.
        """
        if newest < 0 or not self.fuse:
            return None
        cluster = self.clusters[newest]
        for i in node.inputs:
            if self.newest.get(i, -1) != newest:
                continue
            if self.home.get(i) is not cluster or i in self.apart:
                return None
        return cluster if any(self.home.get(i) is cluster for i in node.inputs) else None

    def _reduction(self, node: Node, newest: int) -> None:
        assert isinstance(node.op, Reduce)
        axes = frozenset(node.op.axes)
        crossed = node.inputs if node.op.body is None else node.inputs[: len(node.inputs) // 2]
        cluster = self._joinable(node, newest)
        if cluster is not None and cluster.accepts_reduction(node):
            labels = {cluster.labels.get(i) for i in crossed if i in cluster.members}
            if labels == {Label.FULL}:
                cluster.add(node, Label.KEPT)
                cluster.notes["the reductions share a space"] = None
                self._settle(node, cluster)
                return
        sources = {s for x in crossed for s in self._sources(x)}
        if self.fuse:
            for source in sources:
                other = self._by_source.get((source, axes))
                if other is not None and other.accepts_reduction(node) and newest < other.key[0]:
                    other.add(node, Label.KEPT)
                    other.notes["reductions of the same values side by side"] = None
                    self._settle(node, other)
                    return
        rank = node.inputs[0].type.rank
        trailing = axes == frozenset(range(rank - len(axes), rank))
        cluster = self._found(Kind.ROWS if trailing else Kind.REDUCE, node)
        for source in sources:
            self._by_source[(source, axes)] = cluster

    def _sources(self, x: Node) -> set[Node]:
        """The values from which an operand of a reduction is computed elementwise: the inputs of
        its pointwise work, looking through epilogues too, as those may still be shortened.
        """
        stack, seen = [x], {x}
        sources: set[Node] = set()
        while stack and len(seen) < 64:
            node = stack.pop()
            home = self.home.get(node)
            follows = home is None or home.kind in (Kind.DOT, Kind.CONV)
            if not follows or not is_pointwise(node):
                if node.shape == x.shape and not isinstance(node.op, leaf.Const | view.Broadcast):
                    sources.add(node)
                continue
            for i in node.inputs:
                if i not in seen:
                    seen.add(i)
                    stack.append(i)
        return sources

    def _weigh(self, node: Node) -> None:
        inline = [i for i in dict.fromkeys(node.inputs) if i in self.number and i not in self.home]
        operands = sum(self.weights[i] for i in inline)
        if isinstance(node.op, view.Broadcast) and inline:
            # each element of the operand is computed once, and kept if that is not cheap
            operands = operands * cost.elements(inline[0]) // max(1, cost.elements(node))
        self.weights[node] = min(10_000, cost.weight_of(node) + operands)
        read = sum(
            cost.nbytes(i)
            for i in dict.fromkeys(node.inputs)
            if i not in inline and len(i.results) == 1 and not is_immediate(i)
        )
        self.reads[node] = min(1 << 60, read + sum(self.reads[i] for i in inline))


def is_leaf(node: Node) -> bool:
    """Whether a node is a parameter or a constant."""
    return isinstance(node.op, leaf.Param | leaf.Const)
