"""Cuts a graph into stages, each on one device: as few as the order of the nodes lets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush

from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.ops.control.control import Pick
from xlac_sdk.dims import upper_bound, volume


@dataclass(frozen=True, slots=True, eq=False)
class DeviceStage:
    """Nodes that one device computes without waiting for another, in the order of the graph."""

    target: str
    nodes: tuple[Node, ...]


def bytes_of(type: Type) -> int:
    """The bytes of a value; for open sizes, of the largest."""
    return upper_bound(volume(type.shape)) * type.dtype.nbytes


def nbytes(node: Node) -> int:
    """The bytes of a node's results; for open sizes, of the largest."""
    return sum(map(bytes_of, node.results))


def cut(graph: Graph, targets: Mapping[Node, str]) -> list[DeviceStage]:
    """The stages of a graph, in the order in which they run. `targets` has every node that a device
    computes; others are where they are read.

    A stage takes all nodes of its device that are ready. The next one is for the device from which
    the most changes of device still follow: for two devices no cut has fewer stages.
    """
    order = [node for node in graph.order if node in targets]
    stage_of = _scheduled(order, targets)
    _sink(order, stage_of, targets, graph)
    groups: dict[int, list[Node]] = defaultdict(list)
    for node in order:
        groups[stage_of[node]].append(node)
    stages: list[DeviceStage] = []
    for number in sorted(groups):
        nodes = groups[number]
        target = targets[nodes[0]]
        if stages and stages[-1].target == target:  # those between have become empty
            nodes = [*stages.pop().nodes, *nodes]
        stages.append(DeviceStage(target, tuple(nodes)))
    return stages


def _changes(order: Iterable[Node], targets: Mapping[Node, str]) -> dict[Node, int]:
    """For each node, how often the device changes at most on the way from it to an output."""
    changes: dict[Node, int] = {}
    for node in reversed(list(order)):
        left = changes.setdefault(node, 0)
        for given in node.inputs:
            if given in targets:
                after = left + (targets[given] != targets[node])
                changes[given] = max(changes.get(given, 0), after)
    return changes


def _scheduled(order: list[Node], targets: Mapping[Node, str]) -> dict[Node, int]:
    """The number of each node's stage."""
    changes, position = _changes(order, targets), {node: n for n, node in enumerate(order)}
    waits = {node: len({i for i in node.inputs if i in targets}) for node in order}
    readers: dict[Node, list[Node]] = defaultdict(list)
    for node in order:
        for given in dict.fromkeys(node.inputs):
            if given in targets:
                readers[given].append(node)
    ready: dict[str, list[tuple[int, Node]]] = defaultdict(list)

    def release(node: Node) -> None:
        heappush(ready[targets[node]], (position[node], node))

    for node in order:
        if not waits[node]:
            release(node)
    stage_of: dict[Node, int] = {}
    number = 0
    while any(ready.values()):
        _, _, target = max(
            (max(changes[node] for _, node in nodes), -nodes[0][0], target)
            for target, nodes in ready.items()
            if nodes
        )
        nodes = ready[target]
        while nodes:
            _, node = heappop(nodes)
            stage_of[node] = number
            for reader in readers[node]:
                waits[reader] -= 1
                if not waits[reader]:
                    release(reader)
        number += 1
    return stage_of


def _sink(
    order: list[Node], stage_of: dict[Node, int], targets: Mapping[Node, str], graph: Graph
) -> None:
    """Moves nodes to the stage that reads them first, where that is on their device and no more
    bytes cross for it: a mask is broadcast where it is used.
    """
    kept = set(graph.outputs.values())
    target_of = {number: targets[node] for node, number in stage_of.items()}
    reads: dict[Node, int] = {}  # the first stage that reads a node
    for node in reversed(order):
        later = reads.get(node, 0)
        movable = node not in kept and not isinstance(node.op, Pick)  # a result is with its node
        if movable and later > stage_of[node] and target_of[later] == targets[node]:
            given = {i for i in node.inputs if i in targets}
            if sum(map(nbytes, given)) <= nbytes(node):
                stage_of[node] = later
        for i in node.inputs:
            reads[i] = min(reads.get(i, stage_of[node]), stage_of[node])
