"""What became of values that have no kernel: computed at compile time, or simplified into their
neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from xlac.ir.graph import Graph, Node
from xlac.ops.tensor.leaf import Const, Param

MOST = 4
"""At most this many neighbours of a value are named."""


@dataclass(frozen=True, slots=True)
class Absorbed:
    """Why a path has no kernel: it is `known` at compile time, or else its neighbours that have
    one, those that it reads before those that read it.
    """

    known: bool
    neighbours: tuple[str, ...]


def absorbed(graph: Graph, computed: Collection[str]) -> dict[str, Absorbed]:
    """For each path of a graph and its bodies that is not `computed`, why it is not."""
    found: dict[str, Absorbed] = {}
    users = graph.users()
    known = _known(graph)
    lost: dict[str, list[Node]] = {}
    for node in graph.order:
        if node.name and node.name not in computed and not isinstance(node.op, Param | Const):
            lost.setdefault(node.name, []).append(node)
        for body in node.op.bodies():
            found.update(absorbed(body, computed))
    for path, nodes in lost.items():
        before = _nearest(nodes, lambda node: node.inputs, computed)
        behind = _nearest(nodes, lambda node: users.get(node, ()), computed)
        near = [p for names in (before, behind) for p, _ in zip(names, range(MOST), strict=False)]
        found[path] = Absorbed(known.issuperset(nodes), tuple(dict.fromkeys(near)))
    return found


def _known(graph: Graph) -> set[Node]:
    """The nodes that depend on weights and constants only."""
    known: set[Node] = set()
    for node in graph.order:
        if node.inputs:
            is_known = known.issuperset(node.inputs)
        else:
            is_known = not isinstance(node.op, Param) or node.op.kind == "weight"
        if is_known:
            known.add(node)
    return known


def _nearest(
    nodes: Iterable[Node], towards: Callable[[Node], Iterable[Node]], computed: Collection[str]
) -> Iterator[str]:
    """The nearest computed paths in one direction."""
    seen, pending, told = set(nodes), list(nodes), set()
    for node in pending:  # it grows meanwhile
        for near in towards(node):
            if near.name in computed and not isinstance(near.op, Param | Const):
                if near.name not in told:
                    told.add(near.name)
                    yield near.name
            elif near not in seen:
                seen.add(near)
                pending.append(near)
