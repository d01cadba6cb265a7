"""A model's nodes in parts, in order: what runs of them need and move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from xlac.ir.graph import Graph, Node
from xlac.ops.control.control import Pick
from xlac.ops.tensor.leaf import Const, Param
from xlac.placement.cut import nbytes
from xlac.placement.devices import LEAVES

MOST_PARTS = 200
"""Into how many parts a long model is cut at most; a run of nodes is some of them."""


@dataclass(slots=True, eq=False)
class ModelParts:
    """The nodes of a graph in parts, in order, each with its paths."""

    paths: list[list[str]]
    nodes: list[list[Node]]
    weights: list[dict[Node, int]] = field(default_factory=list)  # that a part reads, with bytes
    live: list[int] = field(default_factory=list)  # bytes of values while a part is computed
    moved: NDArray[np.int64] = field(default_factory=lambda: np.zeros((1, 1, 1), np.int64))

    @staticmethod
    def of(graph: Graph, most: int = MOST_PARTS) -> ModelParts:
        """Nodes of one path together, in `most` parts at most; those without a path with the next
        that has one.
        """
        computed = [n for n in graph.order if not isinstance(n.op, (*LEAVES, Pick))]
        every = list(dict.fromkeys(n.name for n in computed if n.name))
        size = -(-len(every) // most) or 1
        number = {path: at // size for at, path in enumerate(every)}
        count = -(-len(every) // size)
        made = ModelParts([every[n * size : (n + 1) * size] for n in range(count)], [])
        made.nodes = [[] for _ in range(count)]
        at: dict[Node, int] = {}
        last = max(count - 1, 0)
        for node in reversed(computed):
            last = number.get(node.name, last)
            at[node] = last
            if made.nodes:
                made.nodes[last].append(node)
        made._weigh(graph, at)
        return made

    def _weigh(self, graph: Graph, at: Mapping[Node, int]) -> None:
        count = len(self.nodes)
        self.weights = [{} for _ in range(count)]
        ends: dict[Node, int] = dict.fromkeys(graph.outputs.values(), count - 1)
        readers: dict[Node, set[int]] = {}
        for node, part in at.items():
            for given in node.inputs:
                source = given.inputs[0] if isinstance(given.op, Pick) else given
                if isinstance(source.op, Const) or (
                    isinstance(source.op, Param) and source.op.kind != "input"
                ):
                    self.weights[part][source] = nbytes(source)
                else:
                    ends[source] = max(ends.get(source, part), part)
                    readers.setdefault(source, set()).add(part)
        live = [0] * (count + 1)
        for node, end in ends.items():
            live[at.get(node, 0)] += nbytes(node)
            live[end + 1] -= nbytes(node)
        self.live = list(accumulate(live))[:count]
        moved = np.zeros((count + 2, count + 1, count + 1), np.int64)
        for node, parts in readers.items():
            made = before = at.get(node, count)
            for part in sorted(part for part in parts if part > made):
                moved[before + 1, made + 1, part + 1] += nbytes(node)
                moved[part + 1, made + 1, part + 1] -= nbytes(node)
                before = part
        for axis in range(3):
            np.cumsum(moved, axis, out=moved)
        self.moved = moved

    def passing(self, source: tuple[int, int], target: tuple[int, int]) -> int:
        """The bytes that a run of parts, from one to before another, makes for a later one."""
        (first, last), (start, stop) = source, target
        return int(self.moved[start, last, stop] - self.moved[start, first, stop])
