"""Cuts a graph into groups, each of which becomes a kernel.

Two sweeps. Forwards, reductions, contractions and the like found *clusters*, numbered as they come, and nodes that
read their results join them: epilogues, the pointwise work between and after the reductions of a row, further
reductions of the same space. A node joins only the newest cluster that it depends on, so operands always come from
older ones and no cycle can arise; that takes no search. Elementwise nodes that read no cluster stay floating.

Backwards, each floating node is either computed again inside every cluster that reads it, or written to memory
once: by a cluster that has it at hand anyway, or by an elementwise cluster of its own. Bytes, operations and a
launch are weighed for that. Then elementwise clusters of one shape that share an operand, and tiny ones, are joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from xlac.ir.graph import Graph, Node
from xlac.ir.op import Composite, Elementwise
from xlac.ops import control, index, leaf, view
from xlac.ops.reduction import Reduce, Window
from xlac.schedule import cost
from xlac.schedule.cluster import (
    MAX_NODES,
    Cluster,
    Label,
    is_fusible,
    is_pointwise,
    is_view,
    label_of_operand,
)  # fmt: skip
from xlac.schedule.group import Group, Kind, Partition
from xlac.schedule.prologue import Prologues, prologues
from xlac.schedule.siblings import join_siblings
from xlac.schedule.whole import kind_taken
from xlac_sdk.target import Target

PIECES = 32  # of a concatenation that is read where it is needed; one of more is written, a piece at a time

RESULT = "a result of the model"

HEROES = {
    "dot": Kind.DOT, "conv": Kind.CONV, "window": Kind.WINDOW, "scatter": Kind.SCATTER, "dyn_update": Kind.UPDATE, "sort": Kind.SORT,
    "cumulative": Kind.CUMULATIVE, "compact": Kind.CUMULATIVE, "rng_bits": Kind.RANDOM, "custom_call": Kind.CLAIMED,
    "cond": Kind.CONTROL, "while": Kind.CONTROL, "scan": Kind.CONTROL, "call": Kind.CONTROL,
}  # fmt: skip


FEEDS = {
    Kind.DOT: (view.Transpose, view.Broadcast, view.Reshape, view.Slice),
    Kind.CONV: (view.Transpose, view.Slice),
    Kind.ATTENTION: (view.Transpose, view.Broadcast, view.Reshape, view.Slice),
}
"""Views of operands that a contraction reads through."""


def partition(graph: Graph, target: Target, *, fuse: bool = True) -> Partition:
    """The groups of a graph and of the bodies inside it. Without `fuse`, every node has a kernel of its own."""
    groups = _Fusion(graph, target, fuse).groups()
    inner: dict[Graph, Partition] = {}
    for group in groups:
        if group.kind is Kind.CONTROL:
            for body in group.hero.op.bodies():
                inner[body] = partition(body, target, fuse=fuse)
    return Partition(graph, groups, inner)


def is_alias(group: Group) -> bool:
    """True for a group that only renames memory: a reshape of a value that is there already."""
    return group.kind is Kind.ELEMENTWISE and len(group.nodes) == 1 and isinstance(group.hero.op, view.Reshape)


@dataclass(slots=True)
class _Wants:
    """Who reads a node: the clusters that could compute it themselves, with how often each element is then computed."""

    inline: dict[Cluster, float] = field(default_factory=dict)
    memory: dict[Cluster, str] = field(default_factory=dict)  # clusters that need it in memory, and why
    ways: dict[Cluster, set[int]] = field(default_factory=dict)  # different indices at which a cluster reads it: code for each


class _Fusion:
    def __init__(self, graph: Graph, target: Target, fuse: bool) -> None:
        self.graph, self.target, self.fuse = graph, target, fuse
        self.nodes = [n for n in graph.nodes() if not is_leaf(n)]
        self.number = {n: i for i, n in enumerate(self.nodes)}
        self.users = graph.users()
        self.results = set(graph.outputs.values())
        self.home: dict[Node, Cluster] = {}
        self.newest: dict[Node, int] = {}  # the newest cluster that a node depends on or is in
        self.clusters: list[Cluster] = []
        self.weights: dict[Node, int] = {}  # operations an element, floating operands included
        self.reads: dict[Node, int] = {}  # bytes of what is in memory that a floating node needs
        self.why: dict[Node, str] = {}  # for values in memory: why they are not computed where they are read
        self.by_source: dict[tuple[Node, frozenset[int]], Cluster] = {}
        self.prologues = prologues(self.number, self.users, self.results, target) if fuse else Prologues()

    def groups(self) -> tuple[Group, ...]:
        for node in self.nodes:
            self._forward(node)
        self._backward()
        clusters = sorted((c for c in self.clusters if c.outputs), key=lambda c: c.key)
        if self.fuse:
            clusters = join_siblings(clusters, self.number, self.target)
        return tuple(self._group(c) for c in clusters)

    # ---- forwards: clusters around reductions, contractions and the like ---------------------

    def _forward(self, node: Node) -> None:
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
            assert is_fusible(node), f"no kernel for {node.op.mnemonic}: it should have been expanded"
            cluster = self._joinable(node, newest) if node not in self.prologues.alone else None
            label = cluster.label_for(node) if cluster else None
            if cluster is not None and label is not None:
                cluster.add(node, label)
                self._settle(node, cluster)
            else:
                self.newest[node] = newest
        self._weigh(node)

    def _kind(self, node: Node) -> Kind | None:
        if isinstance(node.op, Composite) and not isinstance(node.op, Elementwise):
            return kind_taken(node, self.target) or Kind.CLAIMED
        return HEROES.get(node.op.mnemonic)

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
        """The newest cluster that a node depends on, if all that it needs is in it or older."""
        if newest < 0 or not self.fuse:
            return None
        cluster = self.clusters[newest]
        for i in node.inputs:
            if self.newest.get(i, -1) == newest and self.home.get(i) is not cluster:
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
                other = self.by_source.get((source, axes))
                if other is not None and other.accepts_reduction(node) and newest < other.key[0]:
                    other.add(node, Label.KEPT)
                    other.notes["reductions of the same values side by side"] = None
                    self._settle(node, other)
                    return
        rank = node.inputs[0].type.rank
        trailing = axes == frozenset(range(rank - len(axes), rank))
        cluster = self._found(Kind.ROWS if trailing else Kind.REDUCE, node)
        for source in sources:
            self.by_source[(source, axes)] = cluster

    def _sources(self, x: Node) -> set[Node]:
        """What an operand of a reduction is computed from, element by element: where pointwise work ends."""
        stack, seen = [x], {x}
        found: set[Node] = set()
        while stack and len(seen) < 64:
            node = stack.pop()
            if node in self.home or not is_pointwise(node):
                if node.shape == x.shape and not isinstance(node.op, leaf.Const | view.Broadcast):
                    found.add(node)
                continue
            for i in node.inputs:
                if i not in seen:
                    seen.add(i)
                    stack.append(i)
        return found

    def _weigh(self, node: Node) -> None:
        inline = [i for i in dict.fromkeys(node.inputs) if i in self.number and i not in self.home]
        self.weights[node] = min(10_000, cost.weight(node.op) + sum(self.weights[i] for i in inline))
        read = sum(cost.nbytes(i) for i in dict.fromkeys(node.inputs) if i not in inline and len(i.results) == 1)
        self.reads[node] = min(1 << 60, read + sum(self.reads[i] for i in inline))

    # ---- backwards: what is computed again, what is written ----------------------------------

    def _backward(self) -> None:
        wanted: dict[Node, _Wants] = {}
        for node in reversed(self.nodes):
            wants = wanted.pop(node, _Wants())
            home = self.home.get(node)
            if home is None:
                places = self._place(node, wants)
            elif is_view(node):
                places = self._place_view(node, home, wants)
            else:
                again = {c: t for c, t in wants.inline.items() if c is not home and self.prologues.computes(c.hero, node)}
                for cluster in again:
                    cluster.add(node)
                places = {home: 1.0, **again}
                if node in self.results or any(c not in places for c in (*wants.inline, *wants.memory)):
                    home.outputs[node] = None
                    self.why.setdefault(node, next(iter(wants.memory.values()), self._apart(node, home, wants)))
            for cluster, times in places.items():
                ways = {0} if cluster is home else wants.ways.get(cluster, {0})
                if not is_pointwise(node):
                    ways = {hash((self.number[node], way)) for way in ways}
                for i in dict.fromkeys(node.inputs):
                    if i in self.number:
                        self._want(wanted.setdefault(i, _Wants()), cluster, node, i, times, ways)

    def _want(self, wants: _Wants, cluster: Cluster, user: Node, node: Node, times: float, ways: set[int]) -> None:
        """Records that a cluster reads a node because of one user inside it."""
        refusal = self._refuses(cluster, user, node)
        if refusal:
            wants.memory[cluster] = refusal
            return
        wants.ways.setdefault(cluster, set()).update(ways)
        growth = 1.0
        if isinstance(user.op, view.Broadcast | index.Gather):
            growth = max(1.0, cost.elements(user) / max(1, cost.elements(node)))
        elif isinstance(user.op, Window) and user is cluster.hero:
            growth = max(1.0, cost.flops(user) / max(1, cost.elements(node)))
        wants.inline[cluster] = max(wants.inline.get(cluster, 0.0), times * growth)
        label = label_of_operand(cluster, user, node)
        if label is not None and self.home.get(node) is not cluster:
            cluster.labels.setdefault(node, label)

    def _refuses(self, cluster: Cluster, user: Node, node: Node) -> str:
        """Why a cluster can only read an operand of one of its nodes from memory; empty when it could compute it."""
        if not self.fuse:
            return "" if self.home.get(node) is cluster else "fusion is off"
        if cluster.kind is Kind.ATTENTION and user is cluster.hero and node not in user.inputs[:3]:
            return ""  # a mask is computed where it is needed
        if cluster.kind in FEEDS and (user is cluster.hero or user in cluster.feeds):
            if self.prologues.computes(cluster.hero, node):
                cluster.feeds.add(node)
                cluster.notes["an operand is computed as it is read"] = None
                return ""
            if not isinstance(node.op, FEEDS[cluster.kind]):
                return f"a {cluster.hero.op.mnemonic} reads its operands many times"
            home = self.home.get(node)
            turned = home and any(isinstance(v.op, view.Transpose) for v in home.paths.get(node, ()))
            if turned and isinstance(node.op, view.Reshape):
                return "no strides reach it; the kernel before writes it in this order"
            cluster.feeds.add(node)
            return ""
        if isinstance(user.op, view.Concat) and isinstance(node.op, view.Concat) and user.inputs.count(node) > 1:
            return "it is taken more than once, and code for it each time would double with every such step"
        if user is not cluster.hero or cluster.reduces:
            return ""
        match cluster.kind:
            case Kind.ELEMENTWISE | Kind.WINDOW | Kind.CUMULATIVE | Kind.SCATTER:
                return ""
            case Kind.UPDATE:
                return "what is updated is memory" if node is user.inputs[0] else ""
            case Kind.CONTROL:
                return "the steps of control flow begin with their operands in memory"
        return f"{cluster.hero.op.mnemonic} takes its operands from memory"

    def _place(self, node: Node, wants: _Wants) -> dict[Cluster, float]:
        """Where a floating node is computed, and how often each of its elements there."""
        result = node in self.results
        full = any(len(c.members) >= MAX_NODES for c in wants.inline) or self._crowds(node, wants)
        if not result and not wants.memory and not full and self._recompute(node, wants.inline):
            for cluster in wants.inline:
                cluster.add(node)
            return dict(wants.inline)
        reason = RESULT if result else next(iter(wants.memory.values()), "")
        if not reason:
            reason = "the kernel would grow too large" if full else self._dear(wants)
        self.why[node] = reason
        host = self._host(node, wants) if not full else None
        if host is None:
            host = Cluster(Kind.ELEMENTWISE, node, (self.newest[node], self.number[node]))
            self.clusters.append(host)
            host.labels[node] = Label.SAME
            times = 1.0
        else:
            times = wants.inline[host]
            host.notes["also writes what others need"] = None
        host.add(node)
        host.outputs[node] = None
        return {host: times}

    def _crowds(self, node: Node, wants: _Wants) -> bool:
        """Whether a cluster would hold code for a node over and over: slices of slices double it with every step.

        Or, for each element of a long concatenation, a choice among all its pieces.
        """
        if isinstance(node.op, view.Concat) and len(node.inputs) > PIECES:
            return True
        return any(len(ways) > 1 and len(ways) * max(1, self.weights[node]) > MAX_NODES for ways in wants.ways.values())

    def _dear(self, wants: _Wants) -> str:
        if len(wants.inline) > 1:
            return f"{len(wants.inline)} kernels read it, and computing it in each would cost more than memory"
        return "each of its elements is read many times"

    def _recompute(self, node: Node, inline: Mapping[Cluster, float]) -> bool:
        """Whether computing a node wherever it is read costs less than writing it once."""
        if not inline:
            return False
        if node in self.prologues.alone:
            return True
        weight, read, size = self.weights[node], self.reads[node], cost.elements(node)
        if len(inline) == 1 and max(inline.values()) <= 1.0:
            return True
        if weight == 0 and len(inline) == 1:
            return True
        again = sum(read + cost.recomputing(self.target, weight, size * times) for times in inline.values())
        store = cost.nbytes(node) * (1 + len(inline)) + read + cost.recomputing(self.target, weight, size)
        if self._host_of(node, inline) is None:
            store += cost.launch_bytes(self.target)
        else:
            store -= cost.nbytes(node)
        return again <= store

    def _host(self, node: Node, wants: _Wants) -> Cluster | None:
        """A cluster that has the node at hand, each element once, before anyone else reads it."""
        return self._host_of(node, wants.inline, wants.memory)

    def _host_of(self, node: Node, inline: Mapping[Cluster, float], memory: Iterable[Cluster] = ()) -> Cluster | None:
        first = min((*inline, *memory), key=lambda c: c.key, default=None)
        if first is None or first not in inline or first in memory or inline[first] > 1.0:
            return None
        return first if first.can_host(node) else None

    def _place_view(self, node: Node, home: Cluster, wants: _Wants) -> dict[Cluster, float]:
        """A view of what a cluster computed: others that read it look at the cluster's result themselves."""
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

    def _apart(self, node: Node, home: Cluster, wants: _Wants) -> str:
        """Why readers of a cluster's result are not in it."""
        if node in self.results and not wants.inline:
            return RESULT
        for cluster in wants.inline:
            if cluster is home:
                continue
            if cluster.reduces and home.reduces:
                return "its readers reduce another space"
            if cluster.reduces:
                return f"a reduction needs whole rows of the {home.hero.op.mnemonic}"
            return f"read elsewhere than where the {home.hero.op.mnemonic} writes it, or together with later results"
        return ""

    # ---- groups ------------------------------------------------------------------------------

    def _group(self, cluster: Cluster) -> Group:
        nodes = tuple(sorted(cluster.members, key=self.number.__getitem__))
        outputs = tuple(sorted(cluster.outputs, key=self.number.__getitem__))
        if cluster.kind in (Kind.CONTROL, Kind.CLAIMED):
            inputs = cluster.hero.inputs
        else:
            inputs = tuple(dict.fromkeys(i for n in nodes for i in n.inputs if i not in cluster.members))
        barriers = {i: self.why[i] for i in inputs if self.why.get(i)}
        barriers |= {o: self.why[o] for o in outputs if self.why.get(o, RESULT) != RESULT}
        hero = cluster.hero if cluster.hero in cluster.members else outputs[-1]
        return Group(cluster.kind, hero, nodes, inputs, outputs, self._reason(cluster, nodes), barriers)

    def _reason(self, cluster: Cluster, nodes: tuple[Node, ...]) -> str:
        hero, others = cluster.hero, len(nodes) - 1
        if cluster.kind is Kind.ELEMENTWISE and others == 0 and isinstance(hero.op, view.Reshape):
            return "a reshape: the same memory under another shape"
        text = f"{hero.op.mnemonic} alone" if not others else f"{hero.op.mnemonic} with {_names(nodes, hero)}"
        return "; ".join((text, *cluster.notes))


def _names(nodes: tuple[Node, ...], hero: Node) -> str:
    """What is computed beside the hero, each once; views only where there is nothing else. ASCII: it reaches source text."""
    others = [n for n in nodes if n is not hero]
    work = [n for n in others if not isinstance(n.op, view.Reshape | view.Broadcast | view.Transpose)]
    return ", ".join(dict.fromkeys(n.op.mnemonic for n in work or others))


def is_leaf(node: Node) -> bool:
    return isinstance(node.op, leaf.Param | leaf.Const)
