"""The second sweep of fusion: decides where nodes without a cluster are computed.

In reverse order, each is either recomputed inside every cluster that reads it, or written to memory
once: by a cluster that computes it anyway, or by an elementwise cluster of its own. Bytes moved,
operations and launches are weighed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from xlac.fusion import cost
from xlac.fusion.cluster import MAX_NODES, Cluster, Label, is_pointwise, is_view, label_of_operand
from xlac.fusion.consumer_fusion import ConsumerFusion
from xlac.fusion.gathered_operand import is_gathered
from xlac.fusion.group import Kind, Placement
from xlac.fusion.overwritten_operand import memory_needed
from xlac.fusion.reduction_recompute import Recompute
from xlac.fusion.sibling_concats import SiblingConcats
from xlac.fusion.stored_pieces import PiecewiseStores
from xlac.fusion.wants import RESULT, Wants
from xlac.ir.composite import Composite
from xlac.ir.graph import Node
from xlac.ir.op import Elementwise
from xlac.ops.reduction.window import Window
from xlac.ops.tensor import extend, gather, leaf, view
from xlac_sdk.support.limits import count_work

# most operands of a concatenation computed where it is read; others are written piece by piece
PIECES = 32

FEEDS = {
    Kind.DOT: (view.Transpose, view.Broadcast, view.Reshape, view.Slice),
    Kind.CONV: (view.Transpose, view.Slice),
    Kind.ATTENTION: (view.Transpose, view.Broadcast, view.Reshape, view.Slice),
}
"""Views that a contraction reads its operands through."""


class ProducerFusion:
    """Completes the clusters of the first sweep: what each contains and writes, and why its
    operands are not computed inside.
    """

    def __init__(self, consumers: ConsumerFusion) -> None:
        self.consumers, self.target, self.fuse = consumers, consumers.target, consumers.fuse
        self.number, self.home, self.results, self.prologues = (
            consumers.number,
            consumers.home,
            consumers.results,
            consumers.prologues,
        )
        self.recompute = Recompute(consumers)
        self.pieces = PiecewiseStores()
        self.siblings = SiblingConcats(consumers)
        # for values in memory: why readers do not compute them
        self.why: dict[Node, str] = {}
        self._sweep()

    def _sweep(self) -> None:
        wanted: dict[Node, Wants] = {}
        for node in reversed(self.consumers.nodes):
            count_work()
            wants = wanted.pop(node, Wants())
            home = self.home.get(node)
            if home is None:
                places = self._place(node, wants)
            elif is_view(node):
                places = self._place_view(node, home, wants)
            else:
                stored = bool(wants.memory) or node in self.results
                again = self.recompute.again(
                    node, home, wants.inline, stored, partial(self._in_memory, wanted)
                )
                for cluster in again:
                    cluster.add(node)
                places = {home: 1.0, **again}
                if node in self.results or any(
                    c not in places for c in (*wants.inline, *wants.memory)
                ):
                    home.outputs[node] = None
                    self.why.setdefault(
                        node,
                        next(
                            iter(wants.memory.values()),
                            wants.apart_from(home, node in self.results),
                        ),
                    )
            for cluster, times in places.items():
                ways = {0} if cluster is home else wants.ways.get(cluster, {0})
                if not is_pointwise(node) and not self.pieces.writes(cluster, node):
                    ways = {hash((self.number[node], way)) for way in ways}
                for i in dict.fromkeys(node.inputs):
                    if i in self.number:
                        self._want(wanted.setdefault(i, Wants()), cluster, node, i, times, ways)

    def _in_memory(self, wanted: Mapping[Node, Wants], node: Node) -> bool:
        """Whether a node of a cluster is written to memory, by what is known of its readers."""
        return node in self.results or (node in wanted and bool(wanted[node].memory))

    def _want(
        self, wants: Wants, cluster: Cluster, user: Node, node: Node, times: float, ways: set[int]
    ) -> None:
        """Records that a cluster reads a node, through one user inside it."""
        refusal = self._refuses(cluster, user, node) or self.pieces.refuses(
            cluster, user, node, self.consumers.weights[node]
        )
        if refusal:
            wants.memory[cluster] = refusal
            return
        self.pieces.read(cluster, user, node)
        wants.ways.setdefault(cluster, set()).update(ways)
        growth = 1.0
        if isinstance(user.op, view.Broadcast | gather.Gather):
            growth = max(1.0, cost.elements(user) / max(1, cost.elements(node)))
        elif isinstance(user.op, Window) and user is cluster.anchor:
            growth = max(1.0, cost.flops(user) / max(1, cost.elements(node)))
        wants.inline[cluster] = max(wants.inline.get(cluster, 0.0), times * growth)
        label = label_of_operand(cluster, user, node)
        if label is not None and self.home.get(node) is not cluster:
            cluster.labels.setdefault(node, label)

    def _refuses(self, cluster: Cluster, user: Node, node: Node) -> str:
        """Why a cluster reads an operand of its node from memory; "" where it may compute it."""
        own = self.home.get(node) is cluster
        if not self.fuse or (node in self.consumers.apart and not own):
            return "" if own else self.consumers.apart.get(node, "fusion is off")
        if (
            cluster.kind is Kind.ATTENTION
            and user is cluster.anchor
            and node not in user.inputs[: user.op.operands.index("mask?")]
        ):
            return ""  # a mask is computed where it is needed
        if cluster.kind in FEEDS and (user is cluster.anchor or user in cluster.feeds):
            if self.prologues.computes(cluster.anchor, node):
                cluster.feeds.add(node)
                cluster.notes["an operand is computed as it is read"] = None
                return ""
            if not isinstance(node.op, FEEDS[cluster.kind]):
                return f"{cluster.anchor.op.mnemonic} reads its operands many times"
            home = self.home.get(node)
            moved = home and any(isinstance(v.op, view.Transpose) for v in home.paths.get(node, ()))
            if moved and isinstance(node.op, view.Reshape):
                return "no strides reach it; the kernel before writes it in this order"
            cluster.feeds.add(node)
            return ""
        if (
            isinstance(user.op, extend.Concat)
            and isinstance(node.op, extend.Concat)
            and user.inputs.count(node) > 1
        ):
            return (
                "it is taken more than once, and code for it each time would double with every "
                "such step"
            )
        if is_gathered(cluster, user, node, self.target):
            return "vectors of it would be gathered"
        if user is not cluster.anchor or cluster.reduces:
            return ""
        if cluster.kind in (Kind.SCATTER, Kind.UPDATE):
            refusal = memory_needed(user, node, self.home, self.consumers.body)
            if refusal:
                return refusal
        if isinstance(user.op, Composite) and not isinstance(user.op, Elementwise):
            return f"{user.op.called} takes its operands from memory"
        match cluster.kind:
            case Kind.ELEMENTWISE | Kind.WINDOW | Kind.CUMULATIVE | Kind.SCATTER:
                return ""
            case Kind.UPDATE:
                return "what is updated is memory" if node is user.inputs[0] else ""
            case Kind.SORT if isinstance(node.op, leaf.Iota | view.Slice):
                return ""  # indices, and lines read in reverse
            case Kind.CONTROL:
                return "the steps of control flow begin with their operands in memory"
        return f"{cluster.anchor.op.mnemonic} takes its operands from memory"

    def _place(self, node: Node, wants: Wants) -> dict[Cluster, float]:
        """Where a floating node is computed, and how often each of its elements is computed
        there.
        """
        result = node in self.results
        costs = self.consumers.weights[node] or self.consumers.reads[node]  # not numbers, indices
        full = any(costs and len(c.members) >= MAX_NODES for c in wants.inline)
        full = full or self._crowds(node, wants)
        free = not result and not wants.memory and not full
        if free and self._inline(node, wants.inline):
            for cluster in wants.inline:
                cluster.add(node)
            return dict(wants.inline)
        if free and wants.inline:
            self.consumers.chosen[node] = Placement.STORED
        reason = RESULT if result else next(iter(wants.memory.values()), "")
        if not reason:
            reason = "the kernel would grow too large" if full else wants.dear()
        self.why[node] = reason
        host = self._host(node, wants) if not full else None
        if host is None:
            host = self.siblings.host(node, (*wants.inline, *wants.memory))
        if host is None:
            host = Cluster(Kind.ELEMENTWISE, node, (self.consumers.newest[node], self.number[node]))
            self.consumers.clusters.append(host)
            host.labels[node] = Label.SAME
            self.siblings.written(node, host)
        else:
            host.notes["also writes what others need"] = None
        times = wants.inline.get(host, 1.0)
        host.add(node)
        host.outputs[node] = None
        return {host: times}

    def _crowds(self, node: Node, wants: Wants) -> bool:
        """Whether inlining a node would multiply the code of a cluster: nested slices double it at
        every level, and an element of a long concatenation needs a choice among all pieces.
        """
        if isinstance(node.op, extend.Concat) and len(node.inputs) > PIECES:
            return True
        return any(
            len(ways) > 1 and len(ways) * max(1, self.consumers.weights[node]) > MAX_NODES
            for ways in wants.ways.values()
        )

    def _inline(self, node: Node, inline: Mapping[Cluster, float]) -> bool:
        """Whether a node is computed wherever it is read: as wanted, else where that costs less."""
        wanted = self.consumers.wanted.get(node)
        once = len(inline) == 1 and max(inline.values()) <= 1.0
        if wanted is None or not inline or once:
            return self._recompute(node, inline)
        return wanted is Placement.INLINE

    def _recompute(self, node: Node, inline: Mapping[Cluster, float]) -> bool:
        """Whether recomputing a node wherever it is read costs less than writing it once."""
        if not inline:
            return False
        if node in self.prologues.alone:
            return True
        weight, read = self.consumers.weights[node], self.consumers.reads[node]
        size = cost.elements(node)
        if len(inline) == 1 and (weight == 0 or max(inline.values()) <= 1.0):
            return True
        again = sum(
            read + cost.recomputing(self.target, weight, size * times) for times in inline.values()
        )
        store = (
            cost.nbytes(node) * (1 + len(inline))
            + read
            + cost.recomputing(self.target, weight, size)
        )
        if self._host_of(node, inline) is None:
            store += cost.launch_bytes(self.target)
        else:
            store -= cost.nbytes(node)
        return again <= store

    def _host(self, node: Node, wants: Wants) -> Cluster | None:
        """A cluster that computes every element of the node once, before any other reader runs."""
        return self._host_of(node, wants.inline, wants.memory)

    def _host_of(
        self, node: Node, inline: Mapping[Cluster, float], memory: Iterable[Cluster] = ()
    ) -> Cluster | None:
        first = min((*inline, *memory), key=lambda c: c.key, default=None)
        if first is None or first not in inline or first in memory or inline[first] > 1.0:
            return None
        return first if first.can_host(node) else None

    def _place_view(self, node: Node, home: Cluster, wants: Wants) -> dict[Cluster, float]:
        """Places a view of a cluster's result: other readers apply the view to the result in
        memory.
        """
        places = {c: t for c, t in wants.inline.items() if c not in wants.memory}
        if node in self.results or any(c is not home for c in wants.memory):
            home.outputs[node] = None
            self.why[node] = next(iter(wants.memory.values()), RESULT)
            places = {home: 1.0}
        for cluster in places:
            cluster.add(node)
        if home not in places:
            home.members.pop(node, None)
        return places
