"""What each pass changed: the nodes that it removed and those that it added, by the path that the
user gave them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xlac.debug.report.names import attributes_of, named_by_path, types_of
from xlac.ir.graph import Graph, Node

Lines = dict[str, dict[str, None]]


@dataclass
class PassRecorder:
    """An observer of passes; `json` is the section `passes` of the report."""

    passes: list[dict[str, Any]] = field(default_factory=list)
    last: tuple[Graph, Lines] | None = None
    kept: dict[Node, str] = field(default_factory=dict)

    def __call__(self, name: str, before: Graph, after: Graph, seconds: float) -> None:
        entry: dict[str, Any] = {"name": name, "seconds": seconds, "changed": after is not before}
        entry["nodes"] = [len(before.order), len(after.order)]
        if after is not before:
            old = self.last[1] if self.last and self.last[0] is before else lines_by_path(before)
            new = lines_by_path(after)
            entry["changes"] = changes(old, new)
            self.last = (after, new)
        self.passes.append(entry)

    def json(self) -> list[dict[str, Any]]:
        """Every pass in order, with its seconds, how many nodes there were before and after, and
        the changes of each path: lines before and lines after.
        """
        return self.passes


def changes(before: Lines, after: Lines) -> list[list[Any]]:
    """Each path whose nodes differ, with the lines that only one of the two graphs has."""
    rows = []
    for path in dict.fromkeys((*before, *after)):
        old, new = before.get(path, {}), after.get(path, {})
        gone = [line for line in old if line not in new]
        added = [line for line in new if line not in old]
        if gone or added:
            rows.append([path, gone, added])
    return rows


def lines_by_path(graph: Graph, into: Lines | None = None) -> Lines:
    """Every node of a graph, and of graphs inside it, as a line under its path."""
    lines: Lines = {} if into is None else into
    names = named_by_path(graph)
    for node in graph.order:
        inputs = ", ".join(names[i] for i in node.inputs)
        said = attributes_of(node)
        line = (
            f"{names[node]} = {node.op.mnemonic}({inputs}){' ' if said else ''}{said}"
            f" : {types_of(node)}"
        )
        lines.setdefault(node.name, {})[line] = None
        for body in node.op.bodies():
            lines_by_path(body, lines)
    return lines
