"""Bodies along a leading axis, for what goes into them."""

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
    """`walk.Batch`: what batches a body."""

    def __init__(self, given: Mapping[Node, Along], size: Dim) -> None: ...

    def run(self, roots: Iterable[Node]) -> list[Along]:
        """What roots are now."""


class Body:
    """A body for values of which some are mapped: its new parameters, and what it gives of them."""

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
        """The body, whose results are along the axis where `mapped` says so."""
        outputs = [
            each.spread(self._size) if on else each.node
            for each, on in zip(self.gives, mapped, strict=True)
        ]
        return closed(self.name, self.params, outputs)


def flags(values: Sequence[Along]) -> list[bool]:
    """Which of some values have the leading axis."""
    return [each.mapped for each in values]


def spread(values: Sequence[Along], mapped: Sequence[bool], size: Dim) -> list[Node]:
    """Values, along the axis where `mapped` says so."""
    return [v.spread(size) if on else v.node for v, on in zip(values, mapped, strict=True)]


def along(node: Node, mapped: Sequence[bool]) -> list[Along]:
    """The results of a node, which are along the axis where `mapped` says so."""
    return [Along(each, on) for each, on in zip(results(node), mapped, strict=True)]


def where(condition: Node, x: Node, y: Node) -> Node:
    """x where a condition along the leading axis holds, else y."""
    return build.select(build.spread(condition, x.shape, (0,)), x, y)


def exchanged(x: Node) -> Node:
    """The first two axes exchanged."""
    return build.transpose(x, (1, 0, *range(2, x.type.rank)))
