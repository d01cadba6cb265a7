"""Resampling: adaptive average pooling and interpolation. Each axis is a product with a constant
matrix of weights.

The gradient is the product with the transposed matrices, so forward and backward share them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from xlac.frontends.torch.families.nn.pooling import known
from xlac.frontends.torch.table import AtenCall, aten
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops import build

Matrix = NDArray[np.float64]  # (size of the result, size of x)


def applied(call: AtenCall, x: Node, matrices: Sequence[Matrix]) -> Node:
    """x with its last axes resampled, in the compute type; axes with the smallest results come
    first.
    """
    resampled = build.compute(x)
    first = x.type.rank - len(matrices)
    for number, matrix in sorted(
        enumerate(matrices), key=lambda item: item[1].shape[0] / max(1, item[1].shape[1])
    ):
        if matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, np.eye(len(matrix))):
            continue
        axis = first + number
        weights = build.constant(matrix, resampled.type.dtype)
        product = build.dot(resampled, weights, ((axis,), (1,)))
        last = product.type.rank - 1
        resampled = build.transpose(product, [*range(axis), last, *range(axis, last)])
    return build.cast(resampled, call.dtype)


def sizes_of(shape: Sequence[Dim], rank: int) -> tuple[int, ...]:
    """The last sizes of a shape, which must be static."""
    return known(shape[-rank:])


# ---- adaptive average pooling -------------------------------------------------------------------


def means(size: int, count: int) -> Matrix:
    """Window i of `size` elements covers floor(i size / count) up to ceil((i + 1) size / count)."""
    weights = np.zeros((count, size))
    for i in range(count):
        start, stop = i * size // count, -(-(i + 1) * size // count)
        weights[i, start:stop] = 1 / (stop - start)
    return weights


def _adaptive(rank: int) -> None:
    @aten(f"_adaptive_avg_pool{rank}d")
    def builder(call: AtenCall, x: Node, output_size: Sequence[int]) -> Node:
        pairs = zip(sizes_of(x.shape, rank), sizes_of(call.shape, rank), strict=True)
        return applied(call, x, [means(n, m) for n, m in pairs])

    @aten(f"_adaptive_avg_pool{rank}d_backward")
    def backward(call: AtenCall, grad: Node, x: Node) -> Node:
        pairs = zip(sizes_of(x.shape, rank), sizes_of(grad.shape, rank), strict=True)
        return applied(call, grad, [means(n, m).T for n, m in pairs])


for _rank in (2, 3):
    _adaptive(_rank)


@aten("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(
    call: AtenCall,
    x: Node,
    grid: Node,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Node:
    """x sampled at the positions of a grid, which span -1 to 1 over each axis."""
    mode = ("linear", "nearest", "cubic")[interpolation_mode]
    padding = ("zeros", "border", "reflection")[padding_mode]
    wide = (build.compute(v) for v in (x, grid))
    return build.cast(
        build.apply1("grid_sample", *wide, mode=mode, padding=padding, align_corners=align_corners),
        call.dtype,
    )


# ---- interpolation -------------------------------------------------------------------------------

Rule = Callable[[int, int, bool, float | None], Matrix]


def positions(size: int, count: int, corners: bool, scale: float | None) -> NDArray[np.float64]:
    """The position in x of each element of the result. A `scale` given by the caller takes
    precedence over the sizes, as in ATen.
    """
    steps = np.arange(count, dtype=np.float64)
    if corners:
        return steps * ((size - 1) / (count - 1) if count > 1 else 0.0)
    return (steps + 0.5) * (1 / scale if scale else size / count) - 0.5


def nearest(size: int, count: int, corners: bool, scale: float | None) -> Matrix:
    """Nearest-neighbour weights as a matrix: each result takes the element at or before its
    position.
    """
    step = np.float32(1 / scale if scale else size / count)
    return _exactly(size, np.floor(np.arange(count).astype(np.float32) * step))


def nearest_exact(size: int, count: int, corners: bool, scale: float | None) -> Matrix:
    """The same with positions measured at the centres of elements."""
    step = np.float32(1 / scale if scale else size / count)
    return _exactly(size, np.floor((np.arange(count).astype(np.float32) + np.float32(0.5)) * step))


def _exactly(size: int, at: NDArray[np.float32]) -> Matrix:
    return _rows(size, np.minimum(at.astype(np.int64), size - 1))


def _rows(size: int, at: NDArray[np.int64]) -> Matrix:
    """A matrix with a 1 in each row, at the column `at`."""
    selection = np.zeros((len(at), size))
    selection[np.arange(len(at)), at] = 1
    return selection


def linear(size: int, count: int, corners: bool, scale: float | None) -> Matrix:
    """Linear interpolation weights of the two neighbours of each result, as a matrix."""
    at = np.maximum(positions(size, count, corners, scale), 0)
    low = np.minimum(np.floor(at).astype(np.int64), size - 1)
    high = np.minimum(low + 1, size - 1)
    part = np.clip(at - low, 0, 1)
    weights: Matrix = _rows(size, low) * (1 - part)[:, None] + _rows(size, high) * part[:, None]
    return weights


def cubic(size: int, count: int, corners: bool, scale: float | None) -> Matrix:
    """Keys' cubic convolution with a = -0.75; edge elements are repeated beyond the ends."""
    at = positions(size, count, corners, scale)
    low = np.floor(at)
    weights = np.zeros((count, size))
    for tap in (-1, 0, 1, 2):
        gap = np.abs(at - low - tap)
        near = ((-0.75 + 2) * gap - (-0.75 + 3)) * gap * gap + 1
        far = ((-0.75 * gap + 5 * 0.75) * gap - 8 * 0.75) * gap + 4 * 0.75
        places = np.clip(low + tap, 0, size - 1).astype(np.int64)
        weights[np.arange(count), places] += np.where(gap <= 1, near, far)
    return weights


def _factors(given: Sequence[float] | None, rank: int) -> list[float | None]:
    return list(given) if given else [None] * rank


def _interpolated(name: str, rank: int, rule: Rule, corners: bool) -> None:
    """Registers three operations: by sizes, by sizes or scales (`vec`), and the gradient."""

    def matrices(
        size: Sequence[Dim], result: Sequence[Dim], align: bool, scales: Sequence[float | None]
    ) -> list[Matrix]:
        triples = zip(sizes_of(size, rank), sizes_of(result, rank), scales, strict=True)
        return [rule(n, m, align, scale) for n, m, scale in triples]

    @aten(name)
    def builder(call: AtenCall, x: Node, output_size: Sequence[int], *rest: object) -> Node:
        align, scales = _rest(rest)
        return applied(call, x, matrices(x.shape, call.shape, align, scales))

    @aten(f"{name}.vec")
    def by_scale(call: AtenCall, x: Node, output_size: Sequence[int] | None, *rest: object) -> Node:
        align = bool(rest[0]) if corners else False
        scales = _factors(rest[-1], rank)  # type: ignore[arg-type]
        return applied(call, x, matrices(x.shape, call.shape, align, scales))

    @aten(f"{name}_backward")
    def backward(
        call: AtenCall,
        grad: Node,
        output_size: Sequence[int],
        input_size: Sequence[Dim],
        *rest: object,
    ) -> Node:
        align, scales = _rest(rest)
        return applied(call, grad, [m.T for m in matrices(input_size, grad.shape, align, scales)])

    def _rest(rest: Sequence[object]) -> tuple[bool, list[float | None]]:
        align = bool(rest[0]) if corners and rest else False
        scales: list[float | None] = [
            s if isinstance(s, float) else None for s in rest[1 if corners else 0 :]
        ]
        return align, scales + [None] * (rank - len(scales))


for _count, _linear in enumerate(("linear1d", "bilinear2d", "trilinear3d"), 1):
    _interpolated(f"upsample_{_linear}", _count, linear, True)
    _interpolated(f"upsample_nearest{_count}d", _count, nearest, False)
    _interpolated(f"_upsample_nearest_exact{_count}d", _count, nearest_exact, False)
_interpolated("upsample_bicubic2d", 2, cubic, True)
