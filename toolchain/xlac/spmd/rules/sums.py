"""Rules of operations that combine elements: products, convolutions, reductions, sorts."""

from __future__ import annotations

from dataclasses import replace

from xlac.ir.graph import Node
from xlac.ops.collective.sums import COMBINATIONS
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac.ops.reduction.cumulative import Cumulative
from xlac.ops.reduction.order import Sort
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.reduction.window import Window
from xlac.spmd.rules.reach import HaloAxis
from xlac.spmd.rules.rule import Factor, FactorNumbers, Parts, ShardingRule, unchanged


def dot(node: Node) -> ShardingRule:
    """Rows, columns and batch axes; parts of the summed axes give partial sums."""
    op, factors, (lhs, rhs) = node.op, FactorNumbers(), node.inputs
    assert isinstance(op, Dot)
    left = factors.each(lhs.shape)
    right = list(factors.each(rhs.shape))
    for a, b in (
        *zip(op.batch_lhs, op.batch_rhs, strict=True),
        *zip(op.contract_lhs, op.contract_rhs, strict=True),
    ):
        right[b] = left[a]
    summed = [f for a in op.contract_lhs if (f := left[a]) is not None]
    free_lhs = [f for a, f in enumerate(left) if a not in (*op.batch_lhs, *op.contract_lhs)]
    free_rhs = [f for a, f in enumerate(right) if a not in (*op.batch_rhs, *op.contract_rhs)]
    result = (*(left[a] for a in op.batch_lhs), *free_lhs, *free_rhs)
    combine = dict.fromkeys(summed, "add")
    return ShardingRule((left, tuple(right)), (result,), factors.sizes, unchanged(node), combine)


def conv(node: Node) -> ShardingRule:
    """The batch, output channels, groups and spatial axes; parts of the input channels give partial
    sums, and so do those of a kernel that is as large as x, as in the gradient of a kernel.
    """
    op, factors, (x, kernel) = node.op, FactorNumbers(), node.inputs
    assert isinstance(op, Conv)
    size = dict(zip(op.layout[0], x.shape, strict=True))
    tap = dict(zip(op.layout[1], kernel.shape, strict=True))
    first: dict[str, Factor | None] = {}
    taps: dict[str, Factor | None] = {}
    given: dict[str, Factor | None] = {}
    combine: dict[Factor, str] = {}
    features, batches = op.feature_groups, op.batch_groups
    count = features * batches  # the two are never both more than one
    groups = factors.within(factors.new(count), count)
    if batches == 1:
        first["N"] = given["N"] = factors.new(size["N"])
    else:
        first["N"] = groups
    if features == 1:
        first["C"] = taps["I"] = factors.new(size["C"])
        if first["C"] is not None:
            combine[first["C"]] = "add"
    else:
        first["C"] = groups
    taps["O"] = given["C"] = factors.new(tap["O"]) if features * batches == 1 else groups

    halos: dict[Factor, HaloAxis] = {}
    sizes = dict(zip(op.layout[2], node.shape, strict=True))
    for place, letter in enumerate(op.spatial):
        axis = op.layout[0].index(letter)
        halo, summed = halo_of(op, place, axis, size[letter], tap[letter], sizes[letter])
        factor = None if halo is None else factors.new(size[letter])
        if factor is None or halo is None:
            continue
        halos[factor], first[letter] = halo, factor
        (taps if summed else given)[letter] = factor
        if summed:
            combine[factor] = "add"

    def local(parts: Parts) -> Conv:
        return replace(
            op,
            feature_groups=features // parts(groups) if features > 1 else 1,
            batch_groups=batches // parts(groups) if batches > 1 else 1,
        )

    dims = tuple(
        tuple(known.get(letter) for letter in text)
        for known, text in zip((first, taps, given), op.layout, strict=True)
    )
    return ShardingRule(
        dims[:2], dims[2:], factors.sizes, local, combine, factors.even, halos=halos
    )


def halo_of(
    op: Conv, place: int, axis: int, size: object, taps: object, count: object
) -> tuple[HaloAxis | None, bool]:
    """A spatial axis of a convolution, of so many elements of x, of the kernel and of the result;
    and whether the elements of the kernel are divided with it, and not those of the result.
    """
    if not (isinstance(size, int) and isinstance(taps, int) and isinstance(count, int)):
        return None, False
    low, stride = op.low[place], op.strides[place]
    spread, apart = op.lhs_dilation[place], op.rhs_dilation[place]
    if taps > count:
        return HaloAxis(axis, place, size, taps, apart, (count - 1) * stride, low, spread), True
    return HaloAxis(axis, place, size, count, stride, (taps - 1) * apart, low, spread), False


def reduce(node: Node) -> ShardingRule:
    """The axes that are kept; parts of the others give partial results, combined alike."""
    op, factors, x = node.op, FactorNumbers(), node.inputs[0].type
    assert isinstance(op, Reduce)
    named = op.combine in COMBINATIONS
    dims = tuple(
        factors.new(size) if named or axis not in op.axes else None
        for axis, size in enumerate(x.shape)
    )
    kept = tuple(f for axis, f in enumerate(dims) if axis not in op.axes)
    combine = {f: op.combine for axis in op.axes if (f := dims[axis]) is not None}
    operands = tuple(dims if i.type.rank == x.rank else () for i in node.inputs)
    if op.combine == "body":
        half = len(node.inputs) // 2
        operands = ((dims,) * half) + (((),) * half)
    return ShardingRule(
        operands, (kept,) * len(node.results), factors.sizes, unchanged(node), combine
    )


def window(node: Node) -> ShardingRule:
    """Every axis: along those where a window is not one element, parts are read beyond their ends,
    if one tensor is combined.
    """
    op, factors, x = node.op, FactorNumbers(), node.inputs[0].type
    assert isinstance(op, Window)
    rank = x.rank
    ones, zeros = (1,) * rank, (0,) * rank
    padding = (op.low or zeros, op.high or zeros)
    strides, spread = op.strides or ones, op.base_dilation or ones
    about = (op.window, strides, *padding, spread)
    alone = len(node.inputs) == 1 and op.combine in COMBINATIONS
    dims: list[Factor | None] = []
    halos: dict[Factor, HaloAxis] = {}
    for axis, (size, place) in enumerate(zip(x.shape, zip(*about, strict=True), strict=True)):
        many, one = node.shape[axis] if alone else None, place == (1, 1, 0, 0, 1)
        factor = factors.new(size) if one or isinstance(many, int) else None
        dims.append(factor)
        if factor is not None and not one:
            assert isinstance(size, int) and isinstance(many, int)
            reach = (op.window[axis] - 1) * (op.window_dilation or ones)[axis]
            low = padding[0][axis]
            halos[factor] = HaloAxis(
                axis, axis, size, many, strides[axis], reach, low, spread[axis]
            )
    count, each = len(node.results), tuple(dims)
    operands = tuple(each if n < count else () for n in range(len(node.inputs)))
    return ShardingRule(operands, (each,) * count, factors.sizes, unchanged(node), halos=halos)


def lines(node: Node) -> ShardingRule:
    """Sorts and running combinations: all axes but theirs."""
    op, factors, x = node.op, FactorNumbers(), node.inputs[0].type
    assert isinstance(op, Sort | Cumulative)
    axis = op.axis % x.rank
    dims = tuple(None if a == axis else factors.new(size) for a, size in enumerate(x.shape))
    return ShardingRule(
        (dims,) * len(node.inputs), (dims,) * len(node.results), factors.sizes, unchanged(node)
    )
