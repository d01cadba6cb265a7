"""Pooling windows, and average pooling with its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlac.frontends.torch.errors import NotExpressible
from xlac.frontends.torch.table import AtenCall, aten
from xlac.ir.dims import Dim
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction.window import Window

Ints = tuple[int, ...]


class PoolWindows:
    """A pooling window over the last `rank` axes of (batch, channels, …)."""

    def __init__(
        self,
        x: Type,
        rank: int,
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        result: Ints,
    ) -> None:
        self.rank = rank
        self.kernel = _each(kernel, rank)
        self.stride = _each(stride, rank) if stride else self.kernel
        self.padding, self.dilation = _each(padding, rank), _each(dilation, rank)
        self.result = result
        self.extents = tuple(size for size in x.shape[-rank:] if isinstance(size, int))
        if len(self.extents) != rank:
            raise NotExpressible(f"a window over axes of unknown size: {x}")

    @property
    def after(self) -> Ints:
        """The padding after each axis: as much as the windows of the result need."""
        return tuple(
            (n - 1) * s + (k - 1) * d + 1 - size - p
            for n, s, k, d, size, p in zip(
                self.result,
                self.stride,
                self.kernel,
                self.dilation,
                self.extents,
                self.padding,
                strict=True,
            )
        )

    def choice(self, combine: str) -> dict[str, Any]:
        """The attributes of the window operation over (batch, channels, …)."""
        return {
            "combine": combine,
            "window": (1, 1, *self.kernel),
            "strides": (1, 1, *self.stride),
            "low": (0, 0, *self.padding),
            "high": (0, 0, *self.after),
            "window_dilation": (1, 1, *self.dilation),
        }

    def window(self, combine: str, body: Graph | None = None) -> Window:
        """The window operation with this combination."""
        return Window(**self.choice(combine), body=body, base_dilation=(1,) * (self.rank + 2))


def _each(values: Sequence[int], rank: int) -> Ints:
    return tuple(values) * rank if len(values) == 1 else tuple(values)


def batched(x: Node, rank: int) -> Node:
    """With a batch axis of size 1 if there is none."""
    return x if x.type.rank == rank + 2 else build.reshape(x, (1, *x.shape))


def known(shape: Sequence[Dim]) -> Ints:
    """Sizes as numbers. Raises NotExpressible for symbols."""
    numbers = tuple(size for size in shape if isinstance(size, int))
    if len(numbers) != len(shape):
        raise NotExpressible("windows or weights over axes of unknown size")
    return numbers


# ---- average pooling ----------------------------------------------------------------------------


def _avg_pool(rank: int) -> None:
    @aten(f"avg_pool{rank}d")
    def builder(
        call: AtenCall,
        x: Node,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Node:
        pool = PoolWindows(
            x.type, rank, kernel_size, stride, padding, (1,), known(call.shape[-rank:])
        )
        total = Node.of(pool.window("add"), build.compute(batched(x, rank)))
        counts = build.constant(
            _counts(pool, count_include_pad, divisor_override), total.type.dtype
        )
        return build.cast(build.reshape(build.div(total, counts), call.shape), call.dtype)

    if rank == 1:
        return

    @aten(f"avg_pool{rank}d_backward")
    def backward(
        call: AtenCall,
        grad: Node,
        x: Node,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Node:
        """The gradient of average pooling: a window sum over the gradients, dilated by
        the stride.
        """
        pool = PoolWindows(
            x.type, rank, kernel_size, stride, padding, (1,), known(grad.shape[-rank:])
        )
        wide = build.compute(batched(grad, rank))
        counts = build.constant(_counts(pool, count_include_pad, divisor_override), wide.type.dtype)
        op = _spread_window(pool)
        return build.cast(build.reshape(Node.of(op, build.div(wide, counts)), x.shape), call.dtype)


def _spread_window(pool: PoolWindows) -> Window:
    """The window over the dilated gradients whose sums are the gradients of x."""
    low, high = [0, 0], [0, 0]
    for size, n, s, k, p in zip(
        pool.extents, pool.result, pool.stride, pool.kernel, pool.padding, strict=True
    ):
        low.append(k - 1 - p)
        high.append(size + k - 1 - (k - 1 - p) - ((n - 1) * s + 1))
    ones = (1,) * (pool.rank + 2)
    return Window(
        "add", None, (1, 1, *pool.kernel), ones, tuple(low), tuple(high), (1, 1, *pool.stride), ones
    )


def _counts(
    pool: PoolWindows, padded: bool, override: int | None
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The divisor of each sum: the number of elements under the window inside x or, if asked, its
    padding.
    """
    counts = np.ones((), np.float64)
    for size, n, s, k, p in zip(
        pool.extents, pool.result, pool.stride, pool.kernel, pool.padding, strict=True
    ):
        start = np.arange(n) * s - p
        stop = np.minimum(start + k, size + p)
        along = stop - start if padded else np.minimum(stop, size) - np.maximum(start, 0)
        counts = counts[..., None] * along
    return counts if override is None else np.full_like(counts, override)


for _rank in (1, 2, 3):
    _avg_pool(_rank)
