"""Convolutions of 3 by 3 taps by fewer multiplications (Winograd).

The result is cut into tiles of 2 by 2 or 4 by 4 pixels. A first kernel brings the 4 by 4 or 6 by 6
pixels that a tile sees to pairs of points (`toom_cook.py`), for every channel. A second takes a
block of tiles and a panel of columns: it brings the weights there too, multiplies at every pair of
points tiles by channels with channels by columns, and turns the products, which are still in the
second cache, into results: four or sixteen ninths as many pixels for each product as the direct
sum. Weights are kept as they are given: at points they would take 16/9 or 4 times the memory.

The error of a result is bounded by the largest pixel of its tile, and one that is infinite or NaN
would spoil them all. So by default tiles are of 2 by 2 results, whose error on alike pixels is
below that of the direct sum, and the first kernel looks for tiles whose pixels are not
(`accuracy_guard.py`), which the second sums directly (`direct_tiles.py`). With `precision:
fast`, tiles may be of 4 by 4 and nothing is looked for.
"""

from __future__ import annotations

from xlac.codegen.core import epilogue, operands
from xlac.codegen.core.addressing import linear, row_major
from xlac.codegen.core.contraction.contraction import OperandSource
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.lowered_group import KernelLaunch, LoweredGroup, LowerPart
from xlac.codegen.cpu.conv.winograd import fused_gemm_output_transform, input_transform, toom_cook
from xlac.codegen.cpu.conv.winograd.accuracy_guard import Guard
from xlac.codegen.cpu.conv.winograd.tiling import Tiling, cut
from xlac.codegen.cpu.gemm import register_tile
from xlac.fusion.group import Group
from xlac.ir.dims import size_hint
from xlac.ir.graph import Node
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Ramp, Var
from xlac_sdk.target import Target

FAR = 4.5  # bytes a cycle of weights that no second cache holds
MOVED = 12  # bytes a cycle of transformed pixels, written and read
TRANSFORM = 2.5  # cycles a vector of a tile's transform takes, for each pair of points
LOOK = 1.0  # cycles a vector of pixels takes to be compared with others of its tile


# ---- whether and how
# ------------------------------------------------------------------------------


def chosen(anchor: Node, target: Target) -> Tiling | None:
    """The tiling that takes the fewest cycles, or None where the direct sum does or the form is not
    served.
    """
    if target.size or not target.vector_bytes:
        return None
    sides = toom_cook.POINTS if target.fast else (2,)
    candidates = [
        found for results in sides if (found := served(anchor, results, target)) is not None
    ]
    if not candidates:
        return None
    best = min(candidates, key=lambda t: _cycles(t, target))
    return best if _cycles(best, target) < _direct(best, target) else None


def served(anchor: Node, results: int, target: Target) -> Tiling | None:
    """The convolution as tiles of so many results a side; None for a form that is left to the
    direct sum.
    """
    op, (x, kernel) = anchor.op, anchor.inputs
    assert isinstance(op, Conv)
    if (
        op.layout != ("NHWC", "HWIO", "NHWC")
        or x.type.dtype is not DType.F32
        or anchor.type.dtype is not DType.F32
    ):
        return None
    plain = all(
        n == 1
        for n in (
            *op.strides,
            *op.lhs_dilation,
            *op.rhs_dilation,
            op.feature_groups,
            op.batch_groups,
        )
    )
    sizes = (*x.shape, *kernel.shape, *anchor.shape)
    if (
        not plain
        or kernel.shape[:2] != (toom_cook.TAPS, toom_cook.TAPS)
        or not all(isinstance(n, int) and n for n in sizes)
    ):
        return None
    batch, height, width, channels = (int(n) for n in x.shape if isinstance(n, int))
    _, down, across, columns = (int(n) for n in anchor.shape if isinstance(n, int))
    lanes = target.lanes(DType.F32)
    if channels % lanes or columns % lanes:
        return None
    return Tiling(
        results,
        batch,
        (height, width),
        (op.low[0], op.low[1]),
        (down, across),
        channels,
        columns,
        not target.fast,
    )


def _products(target: Target, rows: int, columns: int, depth: int) -> float:
    """Cycles of a matrix product."""
    tile = register_tile.choose(target, DType.F32, (1, rows), columns, depth)
    many = -(-rows // tile.rows[1]) * -(-columns // tile.width)
    return (
        many * depth * register_tile.cycles(tile.rows[1], tile.vectors, register_tile.apart(target))
    )


def _cycles(t: Tiling, target: Target) -> float:
    """Cycles that all threads take together. Weights come while they are brought to points, not
    while there is arithmetic to do.
    """
    each = t.points / target.lanes(DType.F32)
    products = t.points * _products(target, t.tiles, t.columns, t.channels)
    transforms = (
        each
        * (
            t.tiles * (t.channels + t.columns)
            + size_hint(cut(t, target).blocks) * t.channels * t.columns
        )
        * TRANSFORM
    )
    moved = t.points * t.tiles * t.channels * DType.F32.nbytes / MOVED
    looks = each * t.tiles * t.channels * LOOK if t.guarded else 0.0
    return products + _waiting(t, target) + transforms + moved + looks


def _direct(t: Tiling, target: Target) -> float:
    """The same for the sum over taps and channels, which fetches weights meanwhile."""
    depth = toom_cook.TAPS**2 * t.channels
    rows = t.batch * t.pixels[0] * t.pixels[1]
    return max(_products(target, rows, t.columns, depth), _waiting(t, target))


def _waiting(t: Tiling, target: Target) -> float:
    size = toom_cook.TAPS**2 * t.channels * t.columns * DType.F32.nbytes
    return target.threads * size / FAR if size > target.l2_bytes // 2 else 0.0


# ---- the kernels
# ----------------------------------------------------------------------------------


def lower(
    group: Group, target: Target, name: str, lower_part: LowerPart, t: Tiling
) -> LoweredGroup | None:
    """Both kernels; None when the weights are not known while compiling."""
    anchor = group.anchor
    kernel = operands.resolve(anchor.inputs[1], group) or operands.folded(anchor.inputs[1], group)
    if kernel is None or not OperandSource(kernel.value, DType.F32).constant:
        return None
    assert isinstance(kernel.value, Node)
    if kernel.value.type.dtype is not DType.F32:
        return None  # quantised: they are to be small
    after = epilogue.of(group, anchor)
    if after is None or not all(_dense(after, node) for node in group.outputs):

        def alone(part: Group) -> LoweredGroup:
            found = lower(part, target, name, lower_part, t)
            assert found is not None
            return found

        return operands.apart(group, anchor, alone, target, name, lower_part)
    x = operands.resolve(anchor.inputs[0], group)
    made: tuple[KernelLaunch, ...] = ()
    if x is None or x.strides[-1] != 1:
        x, made = operands.materialize(anchor.inputs[0], group, target, f"{name}_x", lower_part)
    guard = Guard.of(t, kernel) if t.guarded else None
    first, seen = input_transform.launch(group, target, f"{name}_points", t, x, guard)
    second = fused_gemm_output_transform.launch(
        group, target, name, after, t, seen, x, kernel, guard
    )
    used = {v.value for v in (x, kernel) if isinstance(v.value, Node)}
    return LoweredGroup((*made, first, second), epilogue.in_place(after, used))


def _dense(after: Epilogue, node: Node) -> bool:
    """Whether neighbouring channels are neighbours in an output."""
    at = (
        *(Var(name, build.INDEX) for name in ("n", "y", "x")),
        build.ramp(Var("c", build.INDEX), 1, 2),
    )
    where = linear(after.forward(node, at), row_major(node.shape), node.shape)
    return isinstance(where, Ramp) and where.stride == 1
