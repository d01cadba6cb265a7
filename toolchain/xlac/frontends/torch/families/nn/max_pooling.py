"""Max pooling with indices, and its gradient."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from xlac.frontends.torch.families.nn.pooling import Ints, PoolWindows, batched, known
from xlac.frontends.torch.table import AtenCall, aten
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction.window_choice import SelectAndScatter
from xlac_sdk.dtypes import DType

TAPS = 32  # elements of a window, up to which each is an expression of its own


def _max_pool(rank: int) -> None:
    @aten(f"max_pool{rank}d_with_indices")
    def builder(
        call: AtenCall,
        x: Node,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        dilation: Sequence[int] = (1,),
        ceil_mode: bool = False,
    ) -> tuple[Node, Node]:
        pool = PoolWindows(
            x.type, rank, kernel_size, stride, padding, dilation, known(call.shape[-rank:])
        )
        wide = batched(x, rank)
        values = Node.of(pool.window("max"), wide)
        at = _positions(pool, wide, values)
        return build.reshape(values, call.shape), build.reshape(at, call.shape)


@aten("xlac.max_pool_gradient.default")
def gradient(
    call: AtenCall,
    grad: Node,
    x: Node,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Node:
    """Each gradient scattered to the element that its window selected, in the order of
    the windows.
    """
    rank = len(kernel)
    pool = PoolWindows(x.type, rank, kernel, stride, padding, dilation, known(grad.shape[-rank:]))
    chosen = SelectAndScatter(**pool.choice("max"))
    scattered = Node.of(chosen, batched(x, rank), batched(build.compute(grad), rank))
    return build.cast(build.reshape(scattered, x.shape), call.dtype)


def _seen(pool: PoolWindows, tap: Ints) -> tuple[Array, Array]:
    """The row-major index in its plane of the element that each window reads at one tap, and
    whether it is inside.
    """
    at, inside = np.zeros((), np.int64), np.ones((), bool)
    for size, n, s, d, p, k in zip(
        pool.extents, pool.result, pool.stride, pool.dilation, pool.padding, tap, strict=True
    ):
        along = np.arange(n) * s - p + k * d
        inside = inside[..., None] & ((along >= 0) & (along < size))
        at = at[..., None] * size + along
    return np.where(inside, at, -1), inside


def returned(call: AtenCall, grad: Node, x: Node, indices: Node, rank: int) -> Node:
    """Gradients scatter-added at `indices`, which are row-major in each plane of x."""
    outer = x.shape[: x.type.rank - rank]
    size, count = math.prod(known(x.shape[-rank:])), math.prod(known(grad.shape[-rank:]))
    updates, places = (build.reshape(v, (*outer, count)) for v in (build.compute(grad), indices))
    zero = build.full(0, (*outer, size), updates.type.dtype)
    total = build.apply1("scatter_elements", zero, places, updates, axis=len(outer), combine="add")
    return build.cast(build.reshape(total, x.shape), call.dtype)


def _positions(pool: PoolWindows, x: Node, values: Node) -> Node:
    """The row-major index in its plane of each maximum: the first among equals, or the last NaN."""
    if math.prod(pool.kernel) > TAPS:
        return _carried(pool, x)
    dtype = x.type.dtype
    lowest = -np.inf if dtype.is_float else np.iinfo(dtype.numpy).min
    padded = build.pad(x, lowest, (0, 0, *pool.padding), (0, 0, *pool.after))
    taps = []
    for tap in product(*map(range, pool.kernel)):
        starts = [k * d for k, d in zip(tap, pool.dilation, strict=True)]
        stops = [
            a + (n - 1) * s + 1 for a, n, s in zip(starts, pool.result, pool.stride, strict=True)
        ]
        part = build.slice_(padded, (0, 0, *starts), (*x.shape[:2], *stops), (1, 1, *pool.stride))
        taps.append((part, *_seen(pool, tap)))
    positions = build.full(-1, values.shape, DType.I64)
    for part, at, inside in reversed(taps):
        same = build.compare(part, "eq", values)
        if not inside.all():
            same = build.apply1("and", same, build.broadcast_to(build.constant(inside), same.shape))
        positions = build.select(
            same, build.broadcast_to(build.constant(at), positions.shape), positions
        )
    if dtype.is_float:
        for part, at, _ in taps:
            positions = build.select(
                build.apply1("isnan", part),
                build.broadcast_to(build.constant(at), positions.shape),
                positions,
            )
    return positions


def _carried(pool: PoolWindows, x: Node) -> Node:
    """The same for large windows: a reduction over pairs of value and index."""
    plane = math.prod(pool.extents)
    places = build.reshape(build.iota((plane,), 0, DType.I64), pool.extents)
    spread = build.broadcast_to(places, x.shape)
    dtype = x.type.dtype

    def later(old: Node, at: Node, new: Node, here: Node) -> tuple[Node, Node]:
        wins = build.apply1("or", build.compare(new, "gt", old), build.compare(at, "lt", 0))
        same = build.apply1("and", build.compare(new, "eq", old), build.compare(here, "lt", at))
        same = build.apply1("and", same, build.compare(here, "ge", 0))
        wins = build.apply1("or", wins, same)
        if dtype.is_float:
            wins = build.apply1("or", wins, build.apply1("isnan", new))
        return build.select(wins, new, old), build.select(wins, here, at)

    scalar, number = Type(dtype, ()), Type(DType.I64, ())
    body = build.graph("later", (scalar, number, scalar, number), later)
    start = -np.inf if dtype.is_float else np.iinfo(dtype.numpy).min
    op = pool.window("body", body)
    return build.results(
        Node.of(op, x, spread, build.constant(start, dtype), build.constant(-1, DType.I64))
    )[1]


for _rank in (2, 3):
    _max_pool(_rank)
