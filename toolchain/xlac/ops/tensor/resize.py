"""Interpolation of images and other grids, with ONNX's coordinate modes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.graph import Node
from xlac.ir.op import Array, Sample, ShapeError, declare, normal_axis
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import FLOATS, NUMBERS, check_dtype, check_table
from xlac_sdk.dtypes import DType

Coordinates = Literal[
    "half_pixel",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "half_pixel_symmetric",
    "tf_crop_and_resize",
]
Nearest = Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


@dataclass(frozen=True, slots=True)
class AxisGrid:
    """An axis with its old and new size, the scale between them, and the part of it that is wanted
    (0 to 1 is all).
    """

    axis: int
    old: int
    new: int
    scale: float
    region: tuple[float, float] = (0.0, 1.0)

    def positions(self, mode: str) -> Array:
        """Where each new element lies among the old ones."""
        at = np.arange(self.new, dtype=np.float64)
        length = self.scale * self.old  # which rounding down made `new`
        match mode:
            case "asymmetric":
                return at / self.scale
            case "align_corners":
                return at * ((self.old - 1) / (length - 1)) if length != 1 else np.zeros(self.new)
            case "tf_crop_and_resize":
                start, end = (r * (self.old - 1) for r in self.region)
                return (
                    start + at * ((end - start) / (length - 1))
                    if length != 1
                    else np.full(self.new, (start + end) / 2)
                )
            case "pytorch_half_pixel" if length == 1:
                return np.zeros(self.new)
        shift = self.old / 2 * (1 - self.new / length) if mode == "half_pixel_symmetric" else 0.0
        return (at + 0.5) / self.scale - 0.5 + shift


def nearest(where: Array, rounding: str) -> Array:
    """Coordinates rounded to whole ones, halves as `rounding` says."""
    match rounding:
        case "floor":
            return np.floor(where)
        case "ceil":
            return np.ceil(where)
        case "round_prefer_ceil":
            return np.floor(where + 0.5)
    return np.ceil(where - 0.5)


def linear(distance: Array, a: float) -> Array:
    """The weight of a neighbour at a distance."""
    return np.asarray(np.maximum(1 - np.abs(distance), 0.0))


def cubic(distance: Array, a: float) -> Array:
    """The weight of a neighbour at a distance (Keys' kernel)."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


MOST_TAPS = 1024  # elements that one is made of: each is a node of the expansion
KERNELS = {"linear": (linear, 1), "cubic": (cubic, 2)}
"""The weight of a neighbour by its distance, and how far neighbours reach."""


@declare
class Resize(Composite):
    """x on another grid: `axes` (those after batch and channels) get `size` elements, or `scale`
    times as many.

    `nearest` takes the nearest element, `linear` and `cubic` weigh 2 and 4 neighbours along each
    axis, and with `antialias` as many more as the grid gets coarser. `coordinates` says how the
    grids lie on each other, `rounding` how `nearest` rounds, as in ONNX. Given a size and a scale,
    the size is that of the result and the scale how the grids lie. Beyond the edge the last element
    goes on, or counts nothing if `exclude_outside`. `tf_crop_and_resize` takes the `region` (all
    starts, then all ends, of 0 to 1), and what lies outside x is `extrapolation`.
    """

    mnemonic = "resize"
    size: tuple[int, ...] = ()
    scale: float | tuple[float, ...] = ()
    mode: Literal["nearest", "linear", "cubic"] = "nearest"
    coordinates: Coordinates = "half_pixel"
    rounding: Nearest = "round_prefer_floor"
    cubic_a: float = -0.75
    axes: tuple[int, ...] = ()
    antialias: bool = False
    exclude_outside: bool = False
    region: tuple[float, ...] = ()
    extrapolation: float = 0.0

    def grids(self, x: Type) -> list[AxisGrid]:
        """The grid of each axis that is resized."""
        axes = [normal_axis(a, x.rank) for a in self.axes] or list(range(2, x.rank))
        count = len(axes)
        if not axes:
            raise ShapeError(
                f"resize needs batch, channels and spatial axes, or the axes to resize, got {x}",
                operand=0,
            )
        factors = (self.scale,) * count if isinstance(self.scale, int | float) else self.scale
        if not self.size and not factors:
            raise ShapeError("resize needs a size or a scale", attribute="size")
        for given, name in ((self.size, "size"), (factors, "scale")):
            if given and len(given) != count:
                raise ShapeError(
                    f"resize of {x} needs {count} sizes or scales, got {len(given)}", attribute=name
                )
        if len(self.region) != (2 * count if self.coordinates == "tf_crop_and_resize" else 0):
            raise ShapeError(
                "a region has a start and an end for each axis, and is for tf_crop_and_resize",
                attribute="region",
            )
        grids = []
        for number, axis in enumerate(axes):
            old = x.shape[axis]
            if not isinstance(old, int) or old == 0:
                raise ShapeError(f"resize needs known sizes, not 0, got {x}", operand=0)
            new = self.size[number] if self.size else math.floor(old * factors[number])
            scale = float(factors[number]) if factors else new / old
            if new < 1 or not 0 < scale < math.inf:
                raise ShapeError(
                    f"axis {axis} of {x} would have {new} elements",
                    attribute="size" if self.size else "scale",
                )
            check_table(self.mnemonic, new * self.taps(scale), x)
            if self.taps(scale) > MOST_TAPS:
                raise ShapeError(
                    f"each new element of axis {axis} of {x} would be made of "
                    f"{self.taps(scale):.3g}; at most {MOST_TAPS:,} are supported: resize in steps",
                    attribute="antialias",
                )
            region = (
                (self.region[number], self.region[count + number]) if self.region else (0.0, 1.0)
            )
            grids.append(AxisGrid(axis, old, new, scale, region))
        return grids

    def taps(self, scale: float) -> float:
        """How many elements one new one is made of, at most."""
        if self.mode == "nearest":
            return 1
        return 2 * KERNELS[self.mode][1] / (min(scale, 1.0) if self.antialias else 1.0) + 1

    def infer(self, *types: Type) -> Type:
        (x,) = types
        check_dtype(self.mnemonic, x, NUMBERS if self.mode == "nearest" else FLOATS)
        if self.antialias and self.mode == "nearest":
            raise ShapeError("antialias is for linear and cubic", attribute="antialias")
        shape = list(x.shape)
        for grid in self.grids(x):
            shape[grid.axis] = grid.new
        return x.with_shape(tuple(shape))

    def neighbours(self, grid: AxisGrid) -> tuple[Array, Array]:
        """Indices (new, taps) of the elements that each new one is made of, and their weights."""
        where, last = grid.positions(self.coordinates), grid.old - 1
        if self.mode == "nearest":
            return np.clip(nearest(where, self.rounding), 0, last).astype(np.int64)[
                :, None
            ], np.ones((grid.new, 1))
        weigh, reach = KERNELS[self.mode]
        coarser = min(grid.scale, 1.0) if self.antialias else 1.0
        taps = np.arange(math.floor(-reach / coarser) + 1, math.ceil(reach / coarser) + 1)
        at = np.floor(where)[:, None] + taps
        weights = weigh((where[:, None] - at) * coarser, self.cubic_a)
        if self.exclude_outside:
            weights = np.where((at >= 0) & (at <= last), weights, 0.0)
        if self.antialias or self.exclude_outside:
            total = weights.sum(1, keepdims=True)
            weights = weights / np.where(total == 0, 1.0, total)
        used = (weights != 0).any(0)
        return np.clip(at, 0, last).astype(np.int64)[:, used], weights[:, used]

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        resized = x if self.mode == "nearest" else build.compute(x)
        outside: Node | None = None
        for grid in self.grids(x.type):
            indices, weights = self.neighbours(grid)
            resized = self._along(resized, grid, indices, weights)
            if self.coordinates == "tf_crop_and_resize":
                where = grid.positions(self.coordinates)
                beyond = build.along(
                    build.constant((where < 0) | (where > grid.old - 1)), grid.axis, x.type.rank
                )
                outside = beyond if outside is None else build.apply1("or", outside, beyond)
        if outside is not None:
            resized = build.select(
                outside, build.constant(self.extrapolation, resized.type.dtype), resized
            )
        return build.cast(resized, x.type.dtype)

    def _along(self, x: Node, grid: AxisGrid, indices: Array, weights: Array) -> Node:
        """One axis on its new grid."""
        if indices.shape[1] == 1 and (weights == 1).all():
            return chosen(x, grid.axis, indices[:, 0])
        total: Node | None = None
        for tap in range(indices.shape[1]):
            part = build.take(x, build.constant(indices[:, tap]), grid.axis)
            weight = build.along(
                build.constant(weights[:, tap], x.type.dtype), grid.axis, part.type.rank, part.shape
            )
            part = build.mul(part, weight)
            # what weighs nothing is left out, also where it is not finite
            if (weights[:, tap] == 0).any():
                part = build.select(build.compare(weight, "eq", 0.0), 0.0, part)
            total = part if total is None else build.add(total, part)
        assert total is not None
        return total

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        modes: list[dict[str, object]] = [
            {"size": (7, 9)}, {"scale": 2.0},
            {"scale": (0.5, 1.5), "rounding": "floor", "coordinates": "asymmetric"},
            {"size": (2, 3), "rounding": "ceil"}, {"size": (7, 9), "mode": "linear"},
            {"size": (7, 9), "mode": "linear", "coordinates": "align_corners"},
            {"scale": 0.6, "mode": "linear", "coordinates": "half_pixel_symmetric"},
            {"size": (1, 3), "mode": "linear", "coordinates": "pytorch_half_pixel"},
            {"size": (7, 9), "mode": "cubic"},
            {"scale": 2.0, "mode": "cubic", "cubic_a": -0.5, "coordinates": "asymmetric"},
            {"scale": 3.0, "coordinates": "asymmetric", "rounding": "floor"},
            {"size": (7,), "axes": (1,), "mode": "linear"},
            {"size": (2, 3), "mode": "linear", "antialias": True},
            {"scale": 0.6, "mode": "cubic", "antialias": True, "exclude_outside": True},
            {"size": (7, 3), "mode": "cubic", "exclude_outside": True},
            {"size": (3, 4), "scale": 0.8, "mode": "linear"},
            {"size": (3, 3), "mode": "linear", "coordinates": "tf_crop_and_resize",
             "region": (0.2, 0.4, 1.3, 0.9), "extrapolation": 10.0},
        ]  # fmt: skip
        samples = [Sample((Type(DType.F32, (2, 3, 4, 5)),), m) for m in modes]
        samples += [
            Sample((Type(DType.F32, (1, 2, 5)),), {"scale": 2.0}),
            Sample((Type(DType.F32, (0, 2, 5)),), {"scale": 2.0, "mode": "linear"}),
        ]
        samples += [
            Sample((Type(d, (1, 1, 3, 4)),), {"size": (5, 2)}, ("small",))
            for d in DType
            if d in NUMBERS
        ]
        return samples + [
            Sample((Type(d, (1, 1, 3, 4)),), {"size": (5, 2), "mode": "linear"})
            for d in DType
            if d in FLOATS
        ]


def chosen(x: Node, axis: int, indices: Array) -> Node:
    """Elements of an axis at known places: as they are, each several times, at even steps, or
    gathered.
    """
    old, new = x.shape[axis], len(indices)
    assert isinstance(old, int)
    if new == old and np.array_equal(indices, np.arange(old)):
        return x
    if new % old == 0 and np.array_equal(indices, np.repeat(np.arange(old), new // old)):
        return build.apply1("repeat", x, repeats=new // old, axis=axis)
    step = int(indices[1] - indices[0]) if new > 1 else 1
    if step > 0 and np.array_equal(indices, indices[0] + step * np.arange(new)):
        return build.cut(x, axis, int(indices[0]), int(indices[-1]) + 1, step)
    return build.take(x, build.constant(indices), axis)
