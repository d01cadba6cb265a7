"""The graph as the user wrote it: nodes in a tree of blocks, for the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from xlac.debug.report.names import attributes_of, types_of
from xlac.debug.report.spec_text import SpecText
from xlac.ir.graph import Graph, Node
from xlac.ops.tensor import leaf

CROWD = 160
"""A block with more children than this is shown in parts of at most this many."""


class Child(NamedTuple):
    """A node or a block in a block; of a part, the places of the first and the last of its own."""

    number: int
    is_block: bool
    first: int
    last: int


@dataclass(slots=True)
class GraphBlock:
    """A part of the graph that can be opened: its name, what is around it, and what is in it."""

    name: str
    parent: int
    node: int = -1  # the loop or branch whose body it is
    blocks: list[int] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)


class GraphTree:
    """Collects nodes and blocks; `json` is the section `graph` of the report."""

    def __init__(self, graph: Graph, text: SpecText) -> None:
        self.text = text
        self.blocks = [GraphBlock(graph.name, -1)]
        self.nodes: list[Node] = []
        self.homes: list[int] = []
        self.index: dict[Node, int] = {}
        self._graph(graph, 0, "")
        firsts = self._firsts()
        for number in range(len(self.blocks)):
            self._parted(number, firsts)

    def _graph(self, graph: Graph, home: int, prefix: str) -> None:
        """Adds the nodes of a graph to a block; `prefix` is the path of the loop around it."""
        parts = [_parts(node.name, prefix) for node in graph.order]
        shown = [not _is_hidden(node) for node in graph.order]
        counts: dict[tuple[str, ...], int] = {}
        for path, drawn in zip(parts, shown, strict=True):
            for end in range(1, len(path) + 1) if drawn else ():
                counts[path[:end]] = counts.get(path[:end], 0) + 1
        blocks: dict[tuple[str, ...], int] = {(): home}
        for node, path, drawn in zip(graph.order, parts, shown, strict=True):
            # nodes with a common path are inside a block of that path
            depth = len(path) if drawn and counts.get(path, 0) > 1 else len(path) - 1
            if not drawn:  # weights are shown with the nodes that read them
                depth = 0
            self._node(node, self._block(path[: max(depth, 0)], blocks))

    def _block(self, path: tuple[str, ...], blocks: dict[tuple[str, ...], int]) -> int:
        for end in range(1, len(path) + 1):
            if path[:end] not in blocks:
                blocks[path[:end]] = self._new(path[end - 1], blocks[path[: end - 1]])
        return blocks[path]

    def _new(self, name: str, parent: int, node: int = -1) -> int:
        self.blocks.append(GraphBlock(name, parent, node))
        self.blocks[parent].blocks.append(len(self.blocks) - 1)
        return len(self.blocks) - 1

    def _node(self, node: Node, home: int) -> None:
        number = self.index[node] = len(self.nodes)
        self.nodes.append(node)
        bodies = node.op.bodies()
        self.homes.append(home)
        if not bodies:
            self.blocks[home].nodes.append(number)
            return
        name = node.name.rpartition(".")[2] or node.op.mnemonic
        outer = self._new(name, home, number)
        names = [f.name for f in fields(node.op) if isinstance(getattr(node.op, f.name), Graph)]
        for place, body in enumerate(bodies):
            inner = outer
            if len(bodies) > 1:
                title = names[place] if place < len(names) else f"{place}"
                inner = self._new(title, outer)
            self._graph(body, inner, node.name)

    def _parted(self, number: int, firsts: list[int]) -> None:
        """Puts the children of a crowded block into blocks of their own, in order of their first
        nodes, and those too while there are many. `firsts` are the first nodes of blocks.
        """
        block = self.blocks[number]
        found = [(n, n, False) for n in block.nodes if not _is_hidden(self.nodes[n])]
        found += [(firsts[inner], inner, True) for inner in block.blocks]
        children = [
            Child(one, inner, at, at) for at, (_, one, inner) in enumerate(sorted(found), 1)
        ]
        if len(children) <= CROWD:
            return
        block.blocks, hidden = [], [n for n in block.nodes if _is_hidden(self.nodes[n])]
        while len(children) > CROWD:
            half = CROWD // 2
            size = max(half // 4, min(half, -(-len(children) // half)))
            starts = range(0, len(children), size)
            children = [self._part(number, children[start : start + size]) for start in starts]
        block.blocks, block.nodes = [child.number for child in children], hidden

    def _part(self, number: int, children: Sequence[Child]) -> Child:
        """A block of some children of another, named by their places among all of them."""
        first, last = children[0].first, children[-1].last
        part = self._new(f"{first} – {last}", number)
        for child in children:
            if child.is_block:
                self.blocks[part].blocks.append(child.number)
                self.blocks[child.number].parent = part
            else:
                self.blocks[part].nodes.append(child.number)
                self.homes[child.number] = part
        return Child(part, True, first, last)

    def _firsts(self) -> list[int]:
        """The first node of each block, or where it has none, one after all."""
        firsts = [len(self.nodes)] * len(self.blocks)
        for number, block in enumerate(self.blocks):
            least = min([*block.nodes, *([block.node] if block.node >= 0 else [])], default=None)
            at = number
            while least is not None and at >= 0 and firsts[at] > least:
                firsts[at], at = least, self.blocks[at].parent
        return firsts

    def json(self, graph: Graph) -> dict[str, Any]:
        """Columns of the nodes in order, the blocks, and the outputs by name."""
        strings = Strings()
        ops = [strings.of(node.op.mnemonic) for node in self.nodes]
        types = [strings.of(types_of(node)) for node in self.nodes]
        extra = [strings.of(_said(node)) for node in self.nodes]
        lines = [list(self.text.place(node.origin)) for node in self.nodes]
        return {
            "name": graph.name,
            "strings": strings.texts,
            "nodes": {
                "name": [node.name for node in self.nodes],
                "op": ops,
                "type": types,
                "attributes": extra,
                "inputs": [[self.index[i] for i in node.inputs] for node in self.nodes],
                "block": self.homes,
                "kind": [_kind(node) for node in self.nodes],
                "place": lines,
            },
            "blocks": [
                {"name": b.name, "parent": b.parent, "node": b.node, "nodes": b.nodes}
                for b in self.blocks
            ],
            "inputs": [self.index[n] for n in graph.inputs if n in self.index],
            "outputs": {name: self.index[node] for name, node in graph.outputs.items()},
        }


class Strings:
    """Texts, each once."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.numbers: dict[str, int] = {}

    def of(self, text: str) -> int:
        """The number of a text."""
        if text not in self.numbers:
            self.numbers[text] = len(self.texts)
            self.texts.append(text)
        return self.numbers[text]


def _parts(name: str, prefix: str) -> tuple[str, ...]:
    inner = name[len(prefix) + 1 :] if prefix and name.startswith(f"{prefix}.") else name
    return tuple(inner.split(".")) if inner else ()


def _kind(node: Node) -> str:
    """What a node is to a reader: "op", "input", "state", "weight" or "constant"."""
    if isinstance(node.op, leaf.Param):
        return node.op.kind
    return "constant" if isinstance(node.op, leaf.Const) else "op"


def _is_hidden(node: Node) -> bool:
    return _kind(node) in ("weight", "constant")


def _said(node: Node) -> str:
    return "" if isinstance(node.op, leaf.Param) else attributes_of(node)
