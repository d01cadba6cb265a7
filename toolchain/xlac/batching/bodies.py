"""Batched bodies of loops and branches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from xlac.batching.along import Along
from xlac.ir.dims import Dim
from xlac.ir.graph import Graph, Node
from xlac.ir.leading import results
from xlac.ops import build
from xlac.ops.walks import closed, fresh


class Walk(Protocol):
    """`walk.Batch`, which batches a body."""

    def __init__(self, given: Mapping[Node, Along], size: Dim) -> None: ...

    def run(self, roots: Iterable[Node]) -> list[Along]:
        """The batched counterparts of roots."""


class Body:
    """A batched body whose parameters marked `mapped` have the batch axis of `size`: its new
    parameters, and its outputs (`gives`).
    """

    def __init__(self, body: Graph, mapped: Sequence[bool], size: Dim, walk: type[Walk]) -> None:
        types = [
            i.type.with_shape((size, *i.shape)) if on else i.type
            for i, on in zip(body.inputs, mapped, strict=True)
        ]
        self.name, self._size = body.name, size
        self.params = fresh(types)
        given = {
            i: Along(param, on)
            for i, param, on in zip(body.inputs, self.params, mapped, strict=True)
        }
        self.gives = walk(given, size).run(body.outputs.values())

    def graph(self, mapped: Sequence[bool]) -> Graph:
        """The body as a graph, whose outputs have the batch axis where `mapped`."""
        outputs = [
            each.spread(self._size) if on else each.node
            for each, on in zip(self.gives, mapped, strict=True)
        ]
        return closed(self.name, self.params, outputs)


def flags(values: Sequence[Along]) -> list[bool]:
    """Which of some values have the batch axis."""
    return [each.mapped for each in values]


def spread(values: Sequence[Along], mapped: Sequence[bool], size: Dim) -> list[Node]:
    """Nodes of values, with the batch axis where `mapped`."""
    return [v.spread(size) if on else v.node for v, on in zip(values, mapped, strict=True)]


def along(node: Node, mapped: Sequence[bool]) -> list[Along]:
    """The results of a node, which have the batch axis where `mapped`."""
    return [Along(each, on) for each, on in zip(results(node), mapped, strict=True)]


def where(condition: Node, x: Node, y: Node) -> Node:
    """x where a condition, [batch], holds, else y; both have the batch axis."""
    return build.select(build.spread(condition, x.shape, (0,)), x, y)


def swap_leading_axes(x: Node) -> Node:
    """A transpose of the first two axes."""
    return build.transpose(x, (1, 0, *range(2, x.type.rank)))
