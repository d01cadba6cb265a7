"""Layers that reshape, pad, crop, permute and repeat."""

from __future__ import annotations

from math import prod

from xlac.frontends.keras.call import LayerCall, listed
from xlac.frontends.keras.registry import layer
from xlac.ir.graph import Node
from xlac.ops import build

Pairs = list[tuple[int, int]]


def spatial(call: LayerCall, rank: int, last: bool = True) -> range:
    """The spatial axes of x, which has `rank` of them."""
    if call.x.type.rank != rank + 2:
        call.fail(f"x has {rank + 2} axes, got {call.x.type}")
    return range(1, rank + 1) if last else range(2, rank + 2)


def _pairs(call: LayerCall, name: str, rank: int) -> Pairs:
    """The amounts at both ends of each spatial axis: a number, or a number or pair for each."""
    amounts = call.get(name, 1)
    listing = list(amounts) if isinstance(amounts, list) else [amounts] * rank
    if rank == 1 and len(listing) == 2 and all(isinstance(n, int) for n in listing):
        listing = [listing]
    pairs = [tuple(listed(n)) * (1 if isinstance(n, list) else 2) for n in listing]
    if len(pairs) != rank or any(len(p) != 2 or min(p) < 0 or max(p) >= 1 << 31 for p in pairs):
        call.fail(f"{name} {amounts!r} is not {rank} numbers or pairs")
    return [(p[0], p[1]) for p in pairs]


@layer("Flatten")
def flatten(call: LayerCall) -> Node:
    """All axes but the batch as one."""
    x = call.x
    if not call.channels_last and x.type.rank > 1:
        x = build.transpose(x, (0, *range(2, x.type.rank), 1))
    rest = x.shape[1:]
    size = prod(rest) if all(isinstance(n, int) for n in rest) else -1
    return build.reshape(x, (x.shape[0], size if rest else 1))


@layer("Reshape")
def reshape(call: LayerCall) -> Node:
    """The same elements of each example in another shape; one size may be -1."""
    x, wanted = call.x, listed(call.get("target_shape"))
    known = [n for n in x.shape[1:] if isinstance(n, int)]
    if -1 in wanted and len(known) == x.type.rank - 1:
        rest = prod(n for n in wanted if n != -1)
        total = prod(known)
        if wanted.count(-1) != 1 or rest < 1 or total % rest:
            call.fail(f"{known} does not become {wanted}")
        wanted = [total // rest if n == -1 else n for n in wanted]
    return build.reshape(x, (x.shape[0], *wanted))


@layer("Permute")
def permute(call: LayerCall) -> Node:
    """Axes of each example reordered; they count from 1."""
    return build.transpose(call.x, (0, *listed(call.get("dims"))))


@layer("RepeatVector")
def repeat_vector(call: LayerCall) -> Node:
    """(batch, features) as (batch, n, features)."""
    x, n = call.x, call.integer("n")
    if x.type.rank != 2:
        call.fail(f"x has two axes, got {x.type}")
    return build.spread(x, (x.shape[0], n, x.shape[1]), (0, 2))


def _padded(call: LayerCall, rank: int) -> Node:
    last = rank == 1 or call.channels_last
    axes = spatial(call, rank, last)
    amounts = dict(zip(axes, _pairs(call, "padding", rank), strict=True))
    pads = [amounts.get(axis, (0, 0)) for axis in range(call.x.type.rank)]
    return build.apply1("pad_mode", call.x, pads=pads)


@layer("ZeroPadding1D")
def zero_padding1d(call: LayerCall) -> Node:
    """Zeros before and after: (batch, time, channels)."""
    return _padded(call, 1)


@layer("ZeroPadding2D")
def zero_padding2d(call: LayerCall) -> Node:
    """Zeros around height and width."""
    return _padded(call, 2)


@layer("ZeroPadding3D")
def zero_padding3d(call: LayerCall) -> Node:
    """Zeros around three axes."""
    return _padded(call, 3)


def _cropped(call: LayerCall, rank: int) -> Node:
    last = rank == 1 or call.channels_last
    x = call.x
    for axis, (low, high) in zip(
        spatial(call, rank, last), _pairs(call, "cropping", rank), strict=True
    ):
        size = x.shape[axis]
        if isinstance(size, int) and low + high >= size:
            call.fail(f"nothing is left of axis {axis} of {x.type}")
        x = build.cut(x, axis, low, size - high)
    return x


@layer("Cropping1D")
def cropping1d(call: LayerCall) -> Node:
    """Without its first and last steps."""
    return _cropped(call, 1)


@layer("Cropping2D")
def cropping2d(call: LayerCall) -> Node:
    """Without the borders of height and width."""
    return _cropped(call, 2)


@layer("Cropping3D")
def cropping3d(call: LayerCall) -> Node:
    """Without the borders of three axes."""
    return _cropped(call, 3)


def _repeated(call: LayerCall, rank: int, name: str = "size") -> Node:
    last = rank == 1 or call.channels_last
    x = call.x
    for axis, times in zip(spatial(call, rank, last), call.integers(name, rank, 2), strict=True):
        if times > 1:
            x = build.apply1("repeat", x, repeats=times, axis=axis)
    return x


@layer("UpSampling1D")
def up_sampling1d(call: LayerCall) -> Node:
    """Every step repeated."""
    return _repeated(call, 1)


@layer("UpSampling2D")
def up_sampling2d(call: LayerCall) -> Node:
    """Every row and column repeated, or interpolated linearly."""
    mode = call.choice("interpolation", ("nearest", "bilinear"), "nearest")
    if mode == "nearest":
        return _repeated(call, 2)
    axes = spatial(call, 2, call.channels_last)
    sizes = [call.x.shape[axis] for axis in axes]
    times = call.integers("size", 2, 2)
    return build.apply1(
        "resize",
        call.x,
        size=[n * k for n, k in zip(sizes, times, strict=True)],
        axes=list(axes),
        mode="linear",
    )


@layer("UpSampling3D")
def up_sampling3d(call: LayerCall) -> Node:
    """Every element repeated along three axes."""
    return _repeated(call, 3)
