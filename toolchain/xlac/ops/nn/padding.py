"""Padding and window attributes as users write them, expanded to one entry per spatial axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from xlac.ir.dims import Dim, bounds, divisor
from xlac.ir.op import ShapeError

Pads = int | Literal["valid", "same_upper", "same_lower"] | tuple[int | tuple[int, int], ...]
"""`valid` is none; `same_*` gives ceil(size / stride) results, the odd one at the upper or lower
end; a number pads both ends of every axis; a list has a number or a (low, high) pair an axis, or
all lows and then all highs."""
Sizes = int | tuple[int, ...]


def sizes(name: str, value: Sizes, rank: int, least: int = 1) -> tuple[int, ...]:
    """One number for every spatial axis, or one per axis."""
    extents = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(extents) != rank or min(extents, default=least) < least:
        raise ShapeError(
            f"{name} needs a number of at least {least}, or {rank} of them, got {value}",
            attribute=name,
        )
    return extents


def pairs(
    pad: Pads,
    extents: Sequence[Dim],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
) -> tuple[tuple[int, int], ...]:
    """How much goes before and after each axis."""
    rank = len(extents)
    if pad == "valid":
        return ((0, 0),) * rank
    if isinstance(pad, int):
        padding: tuple[tuple[int, int], ...] = ((pad, pad),) * rank
    elif isinstance(pad, str):
        upper = pad == "same_upper"
        padding = tuple(
            _halves(_same(n, (k - 1) * d + 1, s), upper)
            for n, k, s, d in zip(extents, kernel, strides, dilation, strict=True)
        )
    elif len(pad) == 2 * rank and rank and all(isinstance(p, int) for p in pad):
        flat = [p for p in pad if isinstance(p, int)]
        padding = tuple(zip(flat[:rank], flat[rank:], strict=True))
    elif len(pad) == rank:
        padding = tuple((p, p) if isinstance(p, int) else p for p in pad)
    else:
        raise ShapeError(f"pad {list(pad)} does not fit {rank} spatial axes", attribute="pad")
    if any(p < 0 for pair in padding for p in pair):
        raise ShapeError(f"pad {pad} is negative", attribute="pad")
    return padding


def covered(kernel: int, dilation: int) -> int:
    """The elements of an axis that a window spans, including gaps of its dilation."""
    return (kernel - 1) * dilation + 1


def check_places(
    mnemonic: str, extents: Sequence[Dim], first: int, windows: Sequence[int], rooms: Sequence[Dim]
) -> None:
    """Raises ShapeError where a window is known to be larger than its axis.

    `extents` are the sizes of the axes from number `first` on, `rooms` the same with padding,
    `windows` the span of each window.
    """
    for axis, (size, window, room) in enumerate(zip(extents, windows, rooms, strict=True), first):
        if bounds(room - window)[1] < 0:
            has = f"{size} elements" + (f", {room} with its padding" if room != size else "")
            raise ShapeError(
                f"{mnemonic}: a window over {window} elements does not fit axis {axis}, which has "
                f"{has}",
                attribute="kernel",
            )


def _same(size: Dim, window: int, stride: int) -> int:
    """The total padding of an axis for `same`."""
    if isinstance(size, int):
        return max(0, (-(-size // stride) - 1) * stride + window - size)
    if divisor(size) % stride:
        raise ShapeError(
            f"same padding of a symbolic size {size} with stride {stride} depends on the size",
            attribute="pad",
            hint=f"declare multiple_of: {stride}, or give the padding as numbers",
        )
    return max(0, window - stride)


def _halves(total: int, upper: bool) -> tuple[int, int]:
    return (total // 2, total - total // 2) if upper else (total - total // 2, total // 2)
