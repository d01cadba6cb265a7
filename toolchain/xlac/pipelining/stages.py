"""Which stage of a pipeline computes each node of a graph: of a model, or of a step of training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xlac.ir.graph import Graph, Node
from xlac.ops.collective.group import Collective
from xlac.ops.control.control import Pick
from xlac.ops.tensor.leaf import Const, Iota, Param
from xlac.ops.tensor.view import Broadcast, Reshape
from xlac.pipelining.fewer_bytes import move_nodes
from xlac.placement.cut import nbytes

StageOfPath = Callable[[str], "int | None"]
"""The stage of a path of nodes; None for one of which nothing is said."""

SUM = "sum "
"""Before the name of a state that one stage reads and changes for all: its path."""


@dataclass(frozen=True, slots=True, eq=False)
class StagedGraph:
    """A graph whose nodes are each of one stage. Parameters and constants are where they are read;
    what is made of these alone (counters, rates, masks of sizes) is computed by each stage that
    reads it. `copies` has the outputs that every rank computes for itself, with the node of each.
    """

    graph: Graph
    stage_of: Mapping[Node, int]
    copies: Mapping[str, tuple[Node, ...]]


def staged(
    graph: Graph, said: StageOfPath, ranks: int, states: Mapping[str, str] | None = None
) -> StagedGraph:
    """The stages of a graph. Nodes of derivatives and updates have the paths of what they are
    derived from, and so its stage. What is kept of a weight, such as its sum of gradients, is where
    the weight is, as are the nodes without a known path that read or change it; others are where
    the fewest bytes pass for them. `states` maps a state to the output with its next value.
    """
    states = states or {}
    following = set(states.values())
    graph = _without_leaves(graph)
    moving = _moving(graph, said)
    homes = _homes(graph, said, moving, states)
    stage_of = _assigned(graph, said, moving, homes)
    wanted: dict[Node, set[int]] = {node: set() for node in moving}
    copied = {n: o for n, o in graph.outputs.items() if o in moving and n in following}
    for name, node in graph.outputs.items():
        if node in moving:
            wanted[node] |= set(range(ranks)) if name in copied else {0}
    for node in reversed(graph.order):
        readers = {stage_of[node]} if node in stage_of else wanted.get(node, set())
        for given in node.inputs:
            if given in wanted:
                wanted[given] |= readers
    return _rebuilt(graph, stage_of, wanted, copied)


def _without_leaves(graph: Graph) -> Graph:
    """The graph with a node in the place of each output that is a parameter or a constant."""
    if not any(isinstance(n.op, (Param, Const, Iota)) for n in graph.outputs.values()):
        return graph
    outputs = {
        name: Node.of(Reshape(node.shape), node, origin=node.origin)
        if isinstance(node.op, (Param, Const, Iota))
        else node
        for name, node in graph.outputs.items()
    }
    return Graph(graph.name, graph.inputs, outputs)


def _moving(graph: Graph, said: StageOfPath) -> set[Node]:
    """Nodes that are computed wherever they are read: made of numbers and constants alone, or a
    value repeated, of which less is sent when it is whole.
    """
    alike: set[Node] = set()
    moving: set[Node] = set()
    ends = set(graph.outputs.values())
    for node in graph.order:
        if isinstance(node.op, Param):
            shared = node.op.kind == "input" or said(SUM + node.op.name) is None
            if node.op.kind != "weight" and node.type.size == 1 and shared:  # all ranks have inputs
                alike.add(node)
        elif not node.inputs:  # a constant, a count, the number of a rank
            alike.add(node)
            if not isinstance(node.op, (Const, Iota)):
                moving.add(node)
        elif all(i in alike for i in node.inputs) and not isinstance(node.op, Collective):
            alike.add(node)
            moving.add(node)
        elif isinstance(node.op, Broadcast) and node not in ends:
            moving.add(node)
    return moving


def _homes(
    graph: Graph, said: StageOfPath, moving: set[Node], states: Mapping[str, str]
) -> dict[Node, int]:
    """The stages of nodes that read what is kept of a weight, or make its next value: that of the
    weight's name, or of the first nodes that read the weight.
    """
    params = {n.op.name: n for n in graph.order if isinstance(n.op, Param) if n.op.kind == "state"}
    first: dict[Node, int] = {}
    for node in graph.order:
        stage = said(node.name) if node.name and node not in moving else None
        if stage is not None:
            first |= {i: min(first.get(i, stage), stage) for i in node.inputs}
    readers = graph.users()
    homes: dict[Node, int] = {}
    for name, kept in params.items():
        if (one := said(SUM + name)) is not None and name in states:
            homes[graph.outputs[states[name]]] = one
            continue
        weight = _weight(name, params)
        stage = said(weight)
        stage = first.get(params[weight]) if stage is None else stage
        if stage is None or kept.type.size == 1:
            continue
        if name in states:
            homes[graph.outputs[states[name]]] = stage
        if weight != name:
            homes |= dict.fromkeys(readers.get(kept, ()), stage)
    return homes


def _weight(name: str, states: Mapping[str, Node]) -> str:
    """The state of which another is kept: `up.weight` of `optimizer.m.up.weight`; else itself."""
    parts = name.split(".")
    ends = (".".join(parts[begin:]) for begin in range(1, len(parts)))
    return next((end for end in ends if end in states), name)


def _assigned(
    graph: Graph, said: StageOfPath, moving: set[Node], homes: Mapping[Node, int]
) -> dict[Node, int]:
    """The stage of every node that has one."""
    stage_of: dict[Node, int] = {}
    free: set[Node] = set()
    source: dict[Node, Node] = {}  # what a node that moves is made of, where that is of a stage
    waiting: list[Node] = []
    for node in graph.order:
        if isinstance(node.op, (Param, Const, Iota)):
            continue
        given = [source.get(i, i) for i in node.inputs]
        staged_inputs = [i for i in given if i in stage_of]
        if node in moving:
            if staged_inputs:
                source[node] = staged_inputs[0]
            continue
        stage = stage_of.get(node.inputs[0]) if isinstance(node.op, Pick) else None
        if stage is None and node.name and not isinstance(node.op, Pick):
            stage = said(node.name)
        stage = homes.get(node) if stage is None else stage
        if stage is None and staged_inputs and not isinstance(node.op, Pick):
            largest = max(staged_inputs, key=lambda one: (nbytes(one), -stage_of[one]))
            stage = stage_of[largest]
            if len(node.results) == 1:
                free.add(node)
        if stage is None:
            waiting.append(node)
        else:
            stage_of[node] = stage
    _go_with_readers(graph, stage_of, waiting)
    move_nodes(graph, stage_of, free, moving)
    return stage_of


def _go_with_readers(graph: Graph, stage_of: dict[Node, int], waiting: Sequence[Node]) -> None:
    """Gives nodes of which nothing is known the first stage that reads them."""
    reads: dict[Node, int] = {}
    left = set(waiting)
    for node in reversed(graph.order):
        if node in left:
            stage_of[node] = reads.get(node, 0)
        own = stage_of.get(node, reads.get(node))
        if own is not None:
            for given in node.inputs:
                reads[given] = min(reads.get(given, own), own)
    for node in graph.order:  # the results of a node are where the node is
        if isinstance(node.op, Pick) and node.inputs[0] in stage_of:
            stage_of[node] = stage_of[node.inputs[0]]


def _rebuilt(
    graph: Graph,
    stage_of: Mapping[Node, int],
    wanted: Mapping[Node, set[int]],
    copied: Mapping[str, Node],
) -> StagedGraph:
    """The graph with a copy of each node that moves in every stage that wants it."""
    new: dict[tuple[Node, int], Node] = {}
    stages: dict[Node, int] = {}

    def read(node: Node, stage: int) -> Node:
        return new.get((node, stage_of.get(node, stage)), node)

    for node in graph.order:
        for stage in sorted(wanted[node]) if node in wanted else [stage_of.get(node, -1)]:
            if stage < 0:
                continue  # a parameter, or a constant
            inputs = tuple(read(i, stage) for i in node.inputs)
            first = node not in wanted and inputs == node.inputs
            made = node if first else node.with_inputs(inputs)
            new[node, stage] = made
            stages[made] = stage
    outputs = {name: read(node, 0) for name, node in graph.outputs.items()}
    copies = {
        name: tuple(new[node, stage] for stage in sorted(wanted[node]))
        for name, node in copied.items()
    }
    more = {f"{name} of {n}": one for name, every in copies.items() for n, one in enumerate(every)}
    # every copy is needed, so that it is in the order of the graph
    whole = Graph(graph.name, graph.inputs, {**outputs, **more})
    return StagedGraph(whole, stages, copies)
