"""Elements repeated along axes, as by nearest-neighbour upsampling."""

from __future__ import annotations

from xlac.ir.graph import Node
from xlac.ops.tensor.view import Broadcast, Reshape, Transpose
from xlac.passes.rewrite.rule import Parameter, Site, rule
from xlac.passes.rules.views import broadcast, groups, reshape


def _doubled(p: Parameter, *units: int) -> Node:
    """An example: a channels-last map as channels first, with doubled height."""
    first = len(units)
    wide = broadcast(p(3, 4, 5), (*units, 5, 3, 2, 4), (first + 1, first + 3, first))
    return reshape(wide, *units, 5, 6, 4)


@rule(
    Reshape,
    examples=[
        lambda p: _doubled(p),
        lambda p: _doubled(p, 1),
        lambda p: reshape(broadcast(p(3, 5), (5, 2, 3), (2, 0)), 10, 3),
    ],
)
def sink_transpose_repeat(node: Node, site: Site) -> Node | None:
    """Moves a repetition before a transpose."""
    (x,) = node.inputs
    if not isinstance(x.op, Broadcast):
        return None
    (source,), axes, runs = x.inputs, x.op.axes, groups(x.shape, node.shape)
    if runs is None or list(axes) == sorted(axes) or 1 in source.shape:
        return None
    taken: list[tuple[int, range, range]] = []
    for old, new in runs:
        inside = [number for number, axis in enumerate(axes) if axis in old]
        if len(inside) != 1 or len(new) != 1 + sum(node.shape[a] == 1 for a in new):
            return None
        taken.append((inside[0], old, new))
    taken.sort(key=lambda run: run[0])
    before = [a for _, old, _ in taken for a in old]
    after = [a for _, _, new in taken for a in new]
    wide = Broadcast(tuple(x.shape[a] for a in before), tuple(before.index(a) for a in axes))
    merged = Reshape(tuple(node.shape[a] for a in after))
    perm = tuple(after.index(a) for a in range(node.type.rank))
    return site.make(Transpose(perm), site.make(merged, site.make(wide, source)))


REPEATS = (sink_transpose_repeat,)
