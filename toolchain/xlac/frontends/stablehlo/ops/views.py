"""Operations that only move elements: they work on any element type, part by part."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.frontends.stablehlo.values import TypedTensor
from xlac.ir.dims import Dim, Sym
from xlac.ir.graph import Node
from xlac.ops import build


def moved(x: TypedTensor, move: Callable[[Node], Node]) -> TypedTensor:
    """A tensor with `move` applied to every part."""
    return x.each([move(part) for part in x.parts])


def padded_value(site: OperationSite, x: TypedTensor, number: int) -> Sequence[Node]:
    """The parts of a scalar operand of the type of x."""
    value = site.tensor(number)
    if value.element != x.element or value.shape:
        site.fail(f"operand {number} is a scalar of type {x.element.text}")
    return value.parts


@operation("broadcast_in_dim")
def broadcast_in_dim(site: OperationSite) -> Built:
    """Axis n of the operand becomes axis `broadcast_dimensions[n]`."""
    axes = site.axes("broadcast_dimensions", len(site.result.shape))
    return broadcast(site, site.tensor(0), site.sizes, axes)


def broadcast(
    site: OperationSite, x: TypedTensor, shape: Sequence[Dim], axes: Sequence[int]
) -> TypedTensor:
    """x broadcast to a shape, in which its axes become `axes`; axes of size 1 are repeated."""
    if len(axes) != len(x.shape):
        site.fail(f"names {len(axes)} axes for a tensor of rank {len(x.shape)}")
    for axis, size in zip(axes, x.shape, strict=True):
        if size not in (1, shape[axis]) and (isinstance(size, Sym) or isinstance(shape[axis], Sym)):
            site.importer.agree([(size,), (shape[axis],)])
    return moved(x, lambda part: build.spread(part, tuple(shape), axes))


@operation("broadcast")
def broadcast_new_axes(site: OperationSite) -> Built:
    """Broadcast to new leading axes."""
    x, sizes = site.tensor(0), site.integers("broadcast_sizes")
    shape = (*sizes, *x.shape)
    return broadcast(site, x, shape, range(len(sizes), len(shape)))


@operation("reshape")
def reshape(site: OperationSite) -> Built:
    """The same elements in another shape."""
    sizes = site.sizes
    return moved(site.tensor(0), lambda part: build.reshape(part, sizes))


@operation("transpose")
def transpose(site: OperationSite) -> Built:
    """Permutes the axes."""
    x = site.tensor(0)
    perm = site.axes("permutation", len(x.shape))
    if len(perm) != len(x.shape):
        site.fail(f"permutation {list(perm)} does not fit rank {len(x.shape)}")
    return moved(x, lambda part: build.transpose(part, perm))


@operation("reverse")
def reverse(site: OperationSite) -> Built:
    """Axes reversed."""
    x = site.tensor(0)
    return moved(x, lambda part: flipped(part, site.axes("dimensions", len(x.shape))))


def flipped(x: Node, axes: Sequence[int]) -> Node:
    """A tensor reversed along axes."""
    return build.apply1("flip", x, axis=tuple(axes)) if axes else x


@operation("slice")
def slice_(site: OperationSite) -> Built:
    """start:limit:stride for every axis; bounds must lie inside the operand."""
    x = site.tensor(0)
    starts, limits, strides = (
        site.integers(name) for name in ("start_indices", "limit_indices", "strides")
    )
    for axis, size in enumerate(x.shape):
        if (
            len(starts) != len(x.shape)
            or not 0 <= starts[axis] <= limits[axis]
            or strides[axis] < 1
        ):
            site.fail(
                f"slice {list(starts)} to {list(limits)} by {list(strides)} does not fit "
                f"{x.parts[0].type}"
            )
        if isinstance(size, int) and limits[axis] > size:
            site.fail(f"limit {limits[axis]} of axis {axis} exceeds {x.parts[0].type}")
    return moved(x, lambda part: build.slice_(part, starts, limits, strides))


@operation("concatenate")
def concatenate(site: OperationSite) -> Built:
    """Tensors of one element type concatenated along an axis."""
    xs = site.tensors()
    if not xs or any(x.element != xs[0].element for x in xs):
        site.fail("takes tensors of one element type")
    axis = site.axis("dimension", len(xs[0].shape))
    return xs[0].each(
        [build.concat([x.parts[n] for x in xs], axis) for n in range(len(xs[0].parts))]
    )


@operation("pad")
def pad(site: OperationSite) -> Built:
    """Padding at both ends and between elements; negative amounts crop."""
    low, high, interior = (
        site.integers(f"{name}_padding{end}")
        for name, end in (("edge", "_low"), ("edge", "_high"), ("interior", ""))
    )
    return padded(site, low, high, interior)


def padded(
    site: OperationSite, low: Sequence[Dim], high: Sequence[Dim], interior: Sequence[int]
) -> TypedTensor:
    """Pads every part of the operand with that part of the padding value."""
    x = site.tensor(0)
    values = padded_value(site, x, 1)
    if not len(low) == len(high) == len(interior) == len(x.shape):
        site.fail(f"padding does not fit {x.parts[0].type}")
    return x.each(
        [
            build.pad(part, value, low, high, interior)
            for part, value in zip(x.parts, values, strict=True)
        ]
    )
