"""All ranks of a manual computation in one process: its body, vectorized over their number.

Values get a leading axis of all ranks along the mesh axes that the computation is over, in
row-major order of these. Collectives become reductions, transposes and slices along that axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import ClassVar

import numpy as np

from xlac.batching.along import Along
from xlac.batching.walk import Batch
from xlac.ir.dims import Dim
from xlac.ir.graph import Graph, Node, walk, zeros
from xlac.ir.leading import with_axis
from xlac.ir.op import ShapeError, normal_axis
from xlac.ops import build
from xlac.ops.collective.exchanges import (
    AllGather,
    AllToAll,
    CollectiveBroadcast,
    CollectivePermute,
)
from xlac.ops.collective.group import Collective, leading_group, merged_group
from xlac.ops.collective.manual import Division, ManualComputation
from xlac.ops.collective.ranks import AxisIndex, Varying
from xlac.ops.collective.sums import AllReduce, ReduceScatter

Axes = tuple[tuple[str, int], ...]
"""Mesh axes with their sizes, in order."""


def vectorized(op: ManualComputation, inputs: Sequence[Node]) -> tuple[Node, ...]:
    """The results of a manual computation, of operations of one process."""
    assert op.body is not None
    used = _used(op.body) | {n for d in (*op.takes, *op.gives) for names in d for n in names}
    axes = tuple((name, size) for name, size in op.mesh if name in op.manual and name in used)
    given = {
        inner: _parts(x, division, axes)
        for inner, x, division in zip(op.body.inputs, inputs, op.takes, strict=True)
    }
    size = prod(size for _, size in axes)
    found = _walk_over(axes)(given, size).run(op.body.outputs.values())
    return tuple(
        _whole(value, division, axes, size) for value, division in zip(found, op.gives, strict=True)
    )


def _used(body: Graph) -> set[str]:
    """The axes of the mesh along which ranks exchange values, or count: along others, of which
    nothing is said either, all ranks do the same.
    """
    found: set[str] = set()
    for node in body.nodes():
        if isinstance(node.op, Collective):
            found |= {*node.op.axes}
        for inner in node.op.bodies():
            found |= _used(inner)
    return found


def _walk_over(axes: Axes) -> type[RankBatch]:
    """The walk for all ranks along some axes."""

    class OverAxes(RankBatch):
        over = axes

    return OverAxes


class RankBatch(Batch):
    """Batches the nodes of all ranks along the axes `over`."""

    over: ClassVar[Axes] = ()

    def dependents(self, roots: list[Node], sources: list[Node]) -> Iterable[Node]:
        """Nodes that depend on a source, and those whose ranks exchange values or count."""
        reached: dict[Node, None] = dict.fromkeys(sources)
        for node in walk(roots, reached):
            if any(i in reached for i in node.inputs) or self.differs(node):
                reached[node] = None
        return reached

    def differs(self, node: Node) -> bool:
        """Whether ranks exchange values in a node, or count."""
        own = isinstance(node.op, Collective) and self._is_over(node.op)
        return own or any(self._exchanges(body) for body in node.op.bodies())

    def _exchanges(self, body: Graph) -> bool:
        return any(self.differs(node) for node in body.nodes())

    def _is_over(self, op: Collective) -> bool:
        return any(name in op.axes for name, _ in self.over)

    def visited(self, node: Node) -> list[Along]:
        """Collectives over these axes are computed; all others are batched as any operation is."""
        if not isinstance(node.op, Collective) or not self._is_over(node.op):
            return super().visited(node)
        names = [name for name, _ in self.over]
        if not {*node.op.axes} <= {*names}:
            raise ShapeError(
                f"{node.op.mnemonic} is over axes of two manual computations, one in the other: "
                f"{', '.join(node.op.axes)}",
                attribute="axes",
            )
        if isinstance(node.op, AxisIndex):
            return [Along(self._numbers(node.op), True)]
        (x,) = self.now(node)
        if isinstance(node.op, Varying):
            return [x]
        assert isinstance(self.size, int)
        result = _exchanged(node.op, x.spread(self.size), self.over)
        return [Along(build.placed(result.node, node.origin), result.mapped)]

    def _numbers(self, op: AxisIndex) -> Node:
        """The number of every rank in its group."""
        names = [name for name, _ in self.over]
        places = np.indices(tuple(size for _, size in self.over), dtype=np.int32)
        number = np.zeros(places.shape[1:], np.int32)
        for axis in op.axes:
            at = names.index(axis)
            number = number * np.int32(self.over[at][1]) + places[at]
        return build.constant(number.reshape(-1))


def _exchanged(op: Collective, x: Node, axes: Axes) -> Along:
    """What a collective gives each rank, of `x` of all ranks."""
    names = [name for name, _ in axes]
    sizes = tuple(size for _, size in axes)
    chosen = [names.index(axis) for axis in op.axes]
    order = (*chosen, *(n for n in range(len(names)) if n not in chosen))
    group, rest = op.group, prod(sizes) // op.group
    local = x.shape[1:]
    spread = _reordered(build.reshape(x, (*sizes, *local)), order)
    result = _of_groups(op, build.reshape(spread, (group, rest, *local)))
    if not result.mapped:  # one value for each group
        if rest == 1:
            return Along(build.reshape(result.node, result.node.shape[1:]), False)
        result = Along(with_axis(result.node, group), True)
    local = result.node.shape[2:]
    back = build.reshape(result.node, (*(sizes[n] for n in order), *local))
    inverse = tuple(int(n) for n in np.argsort(order))
    return Along(build.reshape(_reordered(back, inverse), x.shape[:1] + local), True)


def _reordered(x: Node, order: Sequence[int]) -> Node:
    """A value whose first axes are in another order."""
    if tuple(order) == tuple(range(len(order))):
        return x
    return build.transpose(x, (*order, *range(len(order), x.type.rank)))


def _of_groups(op: Collective, x: Node) -> Along:
    """A collective of x, [ranks of a group, groups, …]; without the first axis where all ranks of a
    group have the same.
    """
    rank = x.type.rank - 2
    match op:
        case AllReduce():
            return Along(build.reduce(x, op.combine, (0,)), False)
        case ReduceScatter():
            total = build.reduce(x, "add", (0,))
            return Along(leading_group(total, normal_axis(op.axis, rank) + 1, op.group), True)
        case AllGather():
            return Along(merged_group(x, normal_axis(op.axis, rank) + 1), False)
        case AllToAll():
            parts = leading_group(x, op.place("split", rank) + 2, op.group)
            senders = build.transpose(parts, (1, 0, *range(2, rank + 3)))
            return Along(merged_group(senders, op.place("concat", rank) + 2), True)
        case CollectivePermute():
            return Along(_moved(x, op), True)
        case CollectiveBroadcast():
            root = build.cut(x, 0, op.root, op.root + 1)
            return Along(build.reshape(root, x.shape[1:]), False)
    raise AssertionError(op.mnemonic)


def _moved(x: Node, op: CollectivePermute) -> Node:
    """Rows of x where a permutation moves them, neighbours together; zeros where none comes."""
    sources: list[int | None] = [None] * op.group
    for source, target in op.pairs:
        sources[target] = source
    runs: list[tuple[int | None, int]] = []  # the first source and how many follow it
    for each in sources:
        first, count = runs[-1] if runs else (None, 0)
        if count and each == (None if first is None else first + count):
            runs[-1] = first, count + 1
        else:
            runs.append((each, 1))
    pieces = [
        zeros(x.type.with_shape((count, *x.shape[1:])))
        if first is None
        else build.cut(x, 0, first, first + count)
        for first, count in runs
    ]
    return pieces[0] if len(pieces) == 1 else build.concat(pieces, 0)


def _parts(x: Node, division: Division, axes: Axes) -> Along:
    """The parts of all ranks; x itself where each of them has the whole."""
    used = [name for names in division for name in names]
    if not used:
        return Along(x, False)
    sizes = dict(axes)
    shape: list[Dim] = []
    local: list[Dim] = []
    places: dict[str, int] = {}
    kept: list[int] = []
    for size, names in zip(x.shape, division, strict=True):
        for name in names:
            places[name] = len(shape)
            shape.append(sizes[name])
        kept.append(len(shape))
        part = size // prod(sizes[name] for name in names) if isinstance(size, int) else size
        shape.append(part)
        local.append(part)
    there = [name for name, _ in axes if name in places]
    split = build.reshape(x, tuple(shape))
    order = (*(places[name] for name in there), *kept)
    first = split if order == tuple(range(len(order))) else build.transpose(split, order)
    if len(there) < len(axes):
        at = [n for n, (name, _) in enumerate(axes) if name in places]
        ends = range(len(axes), len(axes) + len(local))
        whole = (*(size for _, size in axes), *local)
        first = build.spread(first, whole, (*at, *ends))
    return Along(build.reshape(first, (prod(sizes.values()), *local)), True)


def _whole(value: Along, division: Division, axes: Axes, size: int) -> Node:
    """A result from the parts of all ranks; of those that have the same, from the first."""
    used = [name for names in division for name in names]
    if not used and not value.mapped:
        return value.node
    parts = value.spread(size)
    local = parts.shape[1:]
    x = build.reshape(parts, (*(s for _, s in axes), *local))
    for n, (name, _) in enumerate(axes):
        if name not in used:
            x = build.cut(x, n, 0, 1)
    there = [(name, s) for name, s in axes if name in used]
    x = build.reshape(x, (*(s for _, s in there), *local))
    order: list[int] = []
    for axis, names in enumerate(division):
        order += [next(n for n, (name, _) in enumerate(there) if name == each) for each in names]
        order.append(len(there) + axis)
    x = x if order == list(range(len(order))) else build.transpose(x, tuple(order))
    sizes = dict(axes)
    shape = tuple(
        part * prod(sizes[name] for name in names)
        for part, names in zip(local, division, strict=True)
    )
    return build.reshape(x, shape)
