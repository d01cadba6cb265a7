"""`chlo.ragged_dot`: products of which an axis is divided into groups, whose sizes are data."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.frontends.stablehlo.ops.contraction import contracted
from xlac.frontends.stablehlo.ops.indexing import listed
from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.reduction.cumulative import Cumulative
from xlac_sdk.dtypes import DType


@operation("chlo.ragged_dot", section="CHLO")
def ragged_dot(site: OperationSite) -> Built:
    """The ragged axis of the left operand is a free one, whose every index is multiplied by the
    matrix of its group; a summed one, which gives a product for each group; or a batching one,
    where groups make no difference. As groups' sizes are data, the first multiplies every index by
    every group's matrix. What is in no group is 0.
    """
    site.takes(3)
    fields = site.fields("ragged_dot_dimension_numbers")
    x, y, sizes = site.tensor(0), site.tensor(1), site.number(2)
    batch, contract = (
        tuple(listed(site, fields, f"{side}_{kind}_dimensions") for side in ("lhs", "rhs"))
        for kind in ("batching", "contracting")
    )
    ragged = listed(site, fields, "lhs_ragged_dimensions")
    groups = listed(site, fields, "rhs_group_dimensions")
    rank = len(x.shape)
    if len(ragged) != 1 or not 0 <= ragged[0] < rank:
        site.fail("needs one axis of the left operand that is ragged")
    if not sizes.type.dtype.is_integer or not sizes.type.rank:
        site.fail("the sizes of groups are integers, along the last axis")
    at = ragged[0]
    pairs = (contract[0], contract[1]), (batch[0], batch[1])
    free = [a for a in range(rank) if a not in (*batch[0], *contract[0])]
    if len(groups) != (1 if at in free else 0):
        site.fail(f"has {len(groups)} axes of groups in the right operand")

    def product(a: Node, b: Node, dtype: DType) -> Node:
        if at in batch[0]:
            return build.dot(a, b, *pairs, dtype)
        if at in contract[0]:
            other = contract[1][contract[0].index(at)]
            before = contract[0].index(at)
            left = _divided(a, sizes, [*batch[0], *contract[0][:before]], at)
            right = _divided(b, sizes, [*batch[1], *contract[1][:before]], other)
            # both sides: 0 times an infinity of another group would be NaN
            return build.dot(
                left,
                right,
                (_after(contract[0]), _after(contract[1])),
                ((0, *_after(batch[0])), (0, *_after(batch[1]))),
                dtype,
            )
        every = build.dot(a, b, *pairs, dtype)  # batching axes, free ones of x, free ones of y
        kept = [c for c in range(b.type.rank) if c not in (*batch[1], *contract[1])]
        group = len(batch[0]) + len(free) + kept.index(groups[0])
        place = len(batch[0]) + free.index(at)
        inside = _members(sizes, [every.shape[n] for n in range(place)], every.shape[place])
        wide = build.spread(
            build.transpose(inside, [*range(place), place + 1, place]),
            every.shape,
            [*range(place + 1), group],
        )
        return build.reduce(
            build.select(wide, every, build.constant(0, every.type.dtype)), "add", group
        )

    return contracted(site, x, y, site.result.element, product)


def _after(axes: Sequence[int]) -> tuple[int, ...]:
    """Axes where a new first axis is before them."""
    return tuple(a + 1 for a in axes)


def _members(sizes: Node, prefix: Sequence[Dim], length: Dim) -> Node:
    """Whether each group contains each index of an axis: (*prefix, groups, length)."""
    whole = build.broadcast_to(sizes, (*prefix, sizes.shape[-1]))
    rank = whole.type.rank
    shape = (*whole.shape, length)
    ends = Node.of(Cumulative(rank - 1, "add"), whole)
    index = build.iota(shape, rank, sizes.type.dtype)
    first, end = (build.spread(n, shape, range(rank)) for n in (build.sub(ends, whole), ends))
    return build.apply1("and", build.compare(index, "ge", first), build.compare(index, "lt", end))


def _divided(x: Node, sizes: Node, prefix: Sequence[int], axis: int) -> Node:
    """x once for each group, along a new first axis, with 0 outside of the group."""
    inside = _members(sizes, [x.shape[a] for a in prefix], x.shape[axis])  # (*prefix, group, axis)
    axes = [*_after(prefix), 0, axis + 1]  # of the result, in the order of the mask's
    order = sorted(range(len(axes)), key=axes.__getitem__)
    shape = (inside.shape[len(prefix)], *x.shape)
    wide = build.spread(build.transpose(inside, order), shape, sorted(axes))
    repeated = build.spread(x, shape, range(1, len(shape)))
    return build.select(wide, repeated, build.constant(0, x.type.dtype))
