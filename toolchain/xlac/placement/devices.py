"""Which target computes each node, from the patterns of a model's places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xlac.ir.graph import Graph, Node
from xlac.ir.paths import fits
from xlac.model import SaidPlace
from xlac.ops.control.control import Pick
from xlac.ops.tensor.leaf import Const, Iota, Param
from xlac_sdk.source import Diagnostic
from xlac_sdk.support.choices import nearest

LEAVES = (Param, Const, Iota)
"""Where values begin: no device computes them, and every stage that reads one has it."""


@dataclass(slots=True)
class Assignment:
    """For every node that a device computes the place that names it, None where none does; and
    what is wrong with the places.
    """

    of_node: dict[Node, SaidPlace | None] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)

    def targets(self, chosen: Mapping[SaidPlace, str], default: str) -> dict[Node, str]:
        """The target of every node, from the one that was chosen for each place."""
        return {n: default if said is None else chosen[said] for n, said in self.of_node.items()}


def assigned(graph: Graph, places: Sequence[SaidPlace]) -> Assignment:
    """Finds the first place that fits each node's path, or the path of what contains the node. A
    node without a path, which no user wrote, goes with the first node that reads it.
    """
    made = Assignment()
    names = dict.fromkeys(node.name for node in graph.order if _computed(node) and node.name)
    of_path = {path: _first(path, places) for path in names}
    inherited: dict[Node, SaidPlace | None] = {}
    for node in reversed(graph.order):
        said = of_path[node.name] if node.name in of_path else inherited.get(node)
        for given in node.inputs:
            inherited.setdefault(given, said)
        if _computed(node):
            made.of_node[node] = said
    # the results of a node are where the node is
    made.of_node |= {n: made.of_node[n.inputs[0]] for n in graph.order if isinstance(n.op, Pick)}
    made.problems += _elsewhere(graph, places, made)
    made.problems += _idle(graph, places, of_path)
    return made


def _computed(node: Node) -> bool:
    return not isinstance(node.op, (*LEAVES, Pick))


def _first(path: str, places: Sequence[SaidPlace]) -> SaidPlace | None:
    return next((said for said in places if fits(path, said.pattern)), None)


def _elsewhere(graph: Graph, places: Sequence[SaidPlace], made: Assignment) -> Iterator[Diagnostic]:
    """Nodes of loops and branches that a place puts on another device than the whole of it: one
    for each place.
    """
    told: set[int] = set()
    for node in graph.order:
        own = made.of_node.get(node)
        for path in dict.fromkeys(_inside(node)):
            said = _first(path, places)
            if said is None or said is own or (own and said.targets == own.targets):
                continue
            if id(said) in told:
                continue
            told.add(id(said))
            where = "--target" if own is None else own.targets[0]
            problem = f"{path!r} is inside {node.name!r}, all of which is on {where}"
            hint = f"a loop or a branch is on one device: name {node.name!r} instead"
            yield Diagnostic("XL7832", problem, said.span, hint)


def _inside(node: Node) -> Iterator[str]:
    for body in node.op.bodies():
        for one in body.order:
            if _computed(one) and one.name:
                yield one.name
            yield from _inside(one)


def _idle(
    graph: Graph, places: Sequence[SaidPlace], of_path: Mapping[str, SaidPlace | None]
) -> Iterator[Diagnostic]:
    """Patterns that name no node, or only what patterns before them name."""
    known = dict.fromkeys([*of_path, *(path for node in graph.order for path in _inside(node))])
    used = {id(_first(path, places)) for path in known}
    for said in places:
        if id(said) in used:
            continue
        if any(fits(path, said.pattern) for path in known):
            problem = f"patterns before {said.pattern!r} name all of its nodes"
            yield Diagnostic("XL7831", problem, said.span, "the first pattern that fits wins")
            continue
        params = [node.op.name for node in graph.order if isinstance(node.op, Param)]
        problem = f"no node is called {said.pattern!r}"
        if any(fits(name, said.pattern) for name in params):
            hint = "inputs and weights are where they are read; name the nodes that read them"
        else:
            hint = nearest(said.pattern, list(of_path), "xlac check lists the nodes")
        yield Diagnostic("XL7831", problem, said.span, hint)
