"""Views of views (transposes, reshapes, broadcasts, slices, pads, concatenations) cancel and
merge.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from xlac.ir.dims import Dim, Shape, volume
from xlac.ir.graph import Node
from xlac.ops.tensor.leaf import Const
from xlac.ops.tensor.view import Broadcast, Reshape, Transpose
from xlac.passes.rewrite.rule import Site, rule

Ints = tuple[int, ...]
PRIMES = (2**61 - 1, 2**89 - 1, 2**107 - 1, 2**127 - 1)  # larger than any extent


def integers(values: Sequence[Dim]) -> Ints | None:
    """Sizes as integers; None where one is symbolic."""
    known = tuple(v for v in values if isinstance(v, int))
    return known if len(known) == len(values) else None


def _numbers(*shapes: Shape) -> list[Ints] | None:
    """Shapes as integers. Each symbolic extent is a prime, so products are equal only if they are
    for all sizes. None for many different ones.
    """
    symbolic = dict.fromkeys(n for shape in shapes for n in shape if not isinstance(n, int))
    if len(symbolic) > len(PRIMES):
        return None
    primes = dict(zip(symbolic, PRIMES, strict=False))
    return [tuple(n if isinstance(n, int) else primes[n] for n in shape) for shape in shapes]


def groups(old: Shape, new: Shape) -> list[tuple[range, range]] | None:
    """The groups of axes that a reshape maps to each other: shortest runs of equal product; units
    join the run before.

    None for empty tensors, and where symbolic extents are other ones after the reshape.
    """
    numbers = _numbers(old, new)
    if numbers is None or 0 in numbers[0] or prod(numbers[0]) != prod(numbers[1]):
        return None
    before, after = numbers
    runs: list[tuple[range, range]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        first, second = i, j
        left = right = 1
        while left != right or (i == first and j == second) or left == 1:
            if i < len(old) and (left <= right or j == len(new)):
                left, i = left * before[i], i + 1
            elif j < len(new):
                right, j = right * after[j], j + 1
            else:
                break
        while i < len(old) and old[i] == 1:
            i += 1
        while j < len(new) and new[j] == 1:
            j += 1
        runs.append((range(first, i), range(second, j)))
    return runs


def units_added(old: Shape, new: Shape) -> list[int] | None:
    """The axes of `new` that are those of `old`, when `new` has only unit axes besides."""
    kept = [axis for axis, size in enumerate(new) if size != 1]
    return kept if 1 not in old and tuple(new[axis] for axis in kept) == old else None


def transpose(x: Node, *perm: int) -> Node:
    """x with its axes in another order."""
    return Node.of(Transpose(perm), x)


def reshape(x: Node, *shape: int) -> Node:
    """x in another shape."""
    return Node.of(Reshape(shape), x)


def broadcast(x: Node, shape: Shape, axes: Ints) -> Node:
    """x broadcast to a shape."""
    return Node.of(Broadcast(shape, axes), x)


def five(*shape: int) -> Node:
    """A tensor of fives, for examples of rules."""
    return broadcast(Node.of(Const(np.array(5, np.float32))), shape, ())


@rule(
    Transpose,
    examples=[
        lambda p: transpose(p(2, 3), 0, 1),
        lambda p: transpose(transpose(p(2, 3, 4), 2, 0, 1), 1, 2, 0),
        lambda p: transpose(transpose(p(2, 3, 4), 2, 0, 1), 0, 2, 1),
        lambda p: transpose(broadcast(p(3), (2, 3, 4), (1,)), 2, 1, 0),
        lambda p: transpose(p(2, 1, 3, 1), 1, 0, 3, 2),
    ],
)
def merge_transpose(node: Node, site: Site) -> Node | None:
    """Simplifies transposes: trivial ones, of a transpose, of a broadcast; one that moves only
    units becomes a reshape.
    """
    assert isinstance(node.op, Transpose)
    (x,) = node.inputs
    perm = node.op.perm
    if perm == tuple(range(len(perm))):
        return x
    if isinstance(x.op, Transpose):
        return site.make(Transpose(tuple(x.op.perm[a] for a in perm)), x.inputs[0])
    if isinstance(x.op, Broadcast):
        return site.make(
            Broadcast(node.shape, tuple(perm.index(a) for a in x.op.axes)), x.inputs[0]
        )
    moved = [a for a in perm if x.shape[a] != 1]
    return site.make(Reshape(node.shape), x) if moved == sorted(moved) else None


@rule(
    Reshape,
    examples=[
        lambda p: reshape(p(2, 3), 2, 3),
        lambda p: reshape(reshape(p(2, 6), 12), 3, 4),
        lambda p: reshape(broadcast(p(6), (2, 5, 6), (2,)), 10, 2, 3),
        lambda p: reshape(broadcast(p(2, 3), (2, 3, 5), (0, 1)), 6, 5),
        lambda p: reshape(broadcast(p(), (2, 6), ()), 12),
        lambda p: reshape(Node.of(Const(np.arange(6, dtype=np.float32))), 2, 3),
        lambda p: reshape(transpose(p(1, 3, 4, 5), 0, 2, 1, 3), 4, 15),
    ],
)
def merge_reshape(node: Node, site: Site) -> Node | None:
    """Simplifies reshapes: trivial ones, of a reshape, a constant, a broadcast along whole groups,
    or a transpose of units.
    """
    (x,) = node.inputs
    if x.shape == node.shape:
        return x
    if isinstance(x.op, Reshape):
        return site.make(node.op, x.inputs[0])
    if isinstance(x.op, Const):
        return site.make(Const(np.asarray(node.op.evaluate(x.op.value))))
    if isinstance(x.op, Transpose) and 1 in x.shape:
        (inner,) = x.inputs
        real = [axis for axis, size in enumerate(inner.shape) if size != 1]
        squeezed = site.make(Reshape(tuple(inner.shape[axis] for axis in real)), inner)
        moved = Transpose(tuple(real.index(axis) for axis in x.op.perm if axis in real))
        return site.make(Reshape(node.shape), site.make(moved, squeezed))
    return reshaped_broadcast(x, node.shape, site) if isinstance(x.op, Broadcast) else None


def reshaped_broadcast(node: Node, shape: Shape, site: Site) -> Node | None:
    """A reshape of a broadcast, as a broadcast; None where an axis inside a group of axes was
    broadcast.
    """
    assert isinstance(node.op, Broadcast)
    (x,), axes = node.inputs, node.op.axes
    if 1 in x.shape or list(axes) != sorted(axes) or (runs := groups(node.shape, shape)) is None:
        return None
    inner: list[Dim] = []
    kept: list[int] = []
    for old, new in runs:
        size = volume(tuple(node.shape[a] for a in old))
        here = [a for a in old if a in axes]
        if not here:
            continue
        if volume(tuple(node.shape[a] for a in here)) != size:
            return None
        inner += [shape[a] for a in new]
        kept += new
    return site.make(Broadcast(shape, tuple(kept)), site.make(Reshape(tuple(inner)), x))


@rule(
    Broadcast,
    examples=[
        lambda p: broadcast(p(2, 3), (2, 3), (0, 1)),
        lambda p: broadcast(p(2, 3), (2, 1, 3), (0, 2)),
        lambda p: broadcast(p(2, 3), (3, 1, 2), (2, 0)),
        lambda p: broadcast(broadcast(p(3), (2, 3), (1,)), (2, 4, 3), (0, 2)),
        lambda p: broadcast(transpose(p(2, 3), 1, 0), (3, 5, 2), (0, 2)),
        lambda p: broadcast(reshape(p(3), 3, 1), (3, 5), (0, 1)),
        lambda p: broadcast(p(1, 3, 1), (2, 3, 4), (0, 1, 2)),
    ],
)
def merge_broadcast(node: Node, site: Site) -> Node | None:
    """Simplifies broadcasts: of a broadcast or transpose, trivial ones, and of operands with unit
    axes.
    """
    assert isinstance(node.op, Broadcast)
    (x,), axes = node.inputs, node.op.axes
    if x.shape == node.shape and axes == tuple(range(len(axes))):
        return x
    if isinstance(x.op, Broadcast):
        return site.make(Broadcast(node.shape, tuple(axes[a] for a in x.op.axes)), x.inputs[0])
    if isinstance(x.op, Transpose):
        source = tuple(axes[x.op.perm.index(a)] for a in range(len(axes)))
        return site.make(Broadcast(node.shape, source), x.inputs[0])
    real = [i for i, size in enumerate(x.shape) if size != 1]
    if x.type.size == node.type.size and 0 not in x.shape:
        order = sorted(real, key=lambda i: axes[i])
        units = [i for i in range(len(axes)) if i not in real]
        return site.make(Reshape(node.shape), site.make(Transpose((*order, *units)), x))
    if len(real) < x.type.rank:
        squeezed = site.make(Reshape(tuple(x.shape[i] for i in real)), x)
        return site.make(Broadcast(node.shape, tuple(axes[i] for i in real)), squeezed)
    return None


VIEWS = (merge_transpose, merge_reshape, merge_broadcast)
