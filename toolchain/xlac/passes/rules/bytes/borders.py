"""What convolutions of bytes read around and between the elements of their input."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import gcd

from xlac.ir.dims import Shape, static
from xlac.ir.graph import Node
from xlac.ops.reduction.conv import Conv
from xlac.ops.scalar.arithmetic import Mul
from xlac.ops.tensor.extend import Concat
from xlac.ops.tensor.view import Broadcast, Reshape, Slice
from xlac.passes.rewrite.rule import Site
from xlac.passes.rules.bytes.operands import (
    Centred,
    Zero,
    fours,
    over,
    padded,
    settled,
    sums_of,
    times,
)


def surrounded(op: Conv, x: Centred, w: Node, step: int, site: Site) -> tuple[Node, Node, Conv]:
    """The operands, with x padded by its zero point, and channels in whole steps."""
    around: dict[int, tuple[int, int]] = {}
    if x.zero != 0 and (any(op.low) or any(op.high)):
        sides = []  # of a dilated input only some places of the border are elements
        for number, letter in enumerate(op.spatial):
            ends, gap = (op.low[number], op.high[number]), op.lhs_dilation[number]
            many = tuple(max(0, end) // gap for end in ends)
            around[op.layout[0].index(letter)] = many[0], many[1]
            sides.append(tuple(end - n * gap for end, n in zip(ends, many, strict=True)))
        low, high = zip(*sides, strict=True)
        op = replace(op, low=low, high=high)
    axes = op.layout[0].index("C"), op.layout[1].index("I")
    channels = w.shape[axes[1]]
    if op.feature_groups == 1 and isinstance(channels, int) and channels % step and fours(site):
        around[axes[0]] = 0, -channels % step
        w = padded(w, {axes[1]: (0, -channels % step)}, 0, site)
    left = padded(x.whole, around, x.zero, site) if around else x.whole
    return left, w, op


def has_phases(op: Conv, result: Node) -> bool:
    """Whether results of a convolution of a dilated input meet the same weights in turn."""
    sizes = all(isinstance(size, int) and size > 0 for size in result.shape)
    return set(op.strides) == {1} and sizes


def sums_by_phase(op: Conv, w: Centred, zero: Zero, shape: Shape, site: Site) -> Node:
    """A zero point times the sum of the weights that each element of a result meets, in the
    result's shape. Between the elements of a dilated input there are no others, so that results a
    dilation apart meet the same weights.
    """
    gaps, rank = op.lhs_dilation, w.whole.type.rank
    met = []  # by axis and phase: the first tap, and how far they are apart
    for many, low, gap, reach in zip(
        static(w.whole.shape), op.low, gaps, op.rhs_dilation, strict=False
    ):
        apart = gap // gcd(gap, reach)
        firsts = [[t for t in range(many) if (p - low + t * reach) % gap == 0] for p in range(gap)]
        met.append([(taps[0] if taps else many, apart) for taps in firsts])
    parts = []
    for taps in product(*met):
        starts = (*(first for first, _ in taps), 0, 0)
        steps = (*(apart for _, apart in taps), 1, 1)
        part = replace(w, whole=site.make(Slice(starts, w.whole.shape, steps), w.whole))
        sums = sums_of(part, tuple(range(rank - 1)), site)
        parts.append(site.make(Reshape((1, *sums.shape)), sums))
    joined = settled(site.make(Concat(0), *parts), site)
    if isinstance(zero, int):
        joined = settled(times(joined, zero, site), site)
    else:
        joined = site.make(Mul(), joined, over(zero, joined.shape, (), site))
    joined = site.make(Reshape((*gaps, *joined.shape[1:])), joined)
    blocks = [-(-size // gap) for size, gap in zip(static(shape[1:-1]), gaps, strict=True)]
    around = (shape[0], *(n for pair in zip(blocks, gaps, strict=True) for n in pair), shape[-1])
    places = (*range(2, 2 * len(gaps) + 1, 2), 2 * len(gaps) + 1)
    whole = (shape[0], *(n * gap for n, gap in zip(blocks, gaps, strict=True)), shape[-1])
    tiled = site.make(Reshape(whole), site.make(Broadcast(around, places), joined))
    return site.make(Slice((0,) * len(shape), shape, (1,) * len(shape)), tiled)
