"""Interpolation of images and other grids, with ONNX's coordinate modes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.op import Array, Composite, Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import FLOATS, NUMBERS, check_dtype
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]
Coordinates = Literal["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"]
Nearest = Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


def positions(old: int, new: int, scale: float, mode: str) -> Array:
    """Where each new element lies among the old ones."""
    at = np.arange(new, dtype=np.float64)
    if mode == "asymmetric":
        return at / scale
    if mode == "align_corners":
        return at * ((old - 1) / (new - 1)) if new > 1 else np.zeros(new)
    if mode == "pytorch_half_pixel" and new == 1:
        return np.zeros(new)
    shift = 0.0
    if mode == "half_pixel_symmetric":
        shift = old / 2 * (1 - new / (scale * old))
    return (at + 0.5) / scale - 0.5 + shift


def nearest(where: Array, rounding: str) -> Array:
    match rounding:
        case "floor":
            return np.floor(where)
        case "ceil":
            return np.ceil(where)
        case "round_prefer_ceil":
            return np.floor(where + 0.5)
    return np.ceil(where - 0.5)


def cubic(distance: Array, a: float) -> Array:
    """The weight of a neighbour at a distance (Keys' kernel)."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


@declare
class Resize(Composite):
    """x on another grid: its spatial axes (those after batch and channels) get `size` elements, or `scale` times as many.

    `nearest` takes the nearest element, `linear` and `cubic` weigh 2 and 4 neighbours along each axis. `coordinates`
    says how the grids lie on each other, `rounding` how `nearest` rounds, as in ONNX; beyond the edge the last
    element goes on. `antialias` is not offered.
    """

    mnemonic = "resize"
    size: tuple[int, ...] = ()
    scale: float | tuple[float, ...] = ()
    mode: Literal["nearest", "linear", "cubic"] = "nearest"
    coordinates: Coordinates = "half_pixel"
    rounding: Nearest = "round_prefer_floor"
    cubic_a: float = -0.75

    def grid(self, x: Type) -> list[tuple[int, int, int, float]]:
        """For each spatial axis: its number, old and new size, and the scale."""
        if x.rank < 3:
            raise ShapeError(f"resize needs batch, channels and spatial axes, got {x}", operand=0)
        rank = x.rank - 2
        if bool(self.size) == bool(self.scale):
            raise ShapeError("resize needs a size or a scale, and not both", attribute="size")
        factors = (self.scale,) * rank if isinstance(self.scale, int | float) else self.scale
        if len(self.size or factors) != rank:
            raise ShapeError(f"resize of {x} needs {rank} sizes or scales", attribute="size" if self.size else "scale")
        found = []
        for axis, old in enumerate(x.shape[2:]):
            if not isinstance(old, int) or old == 0:
                raise ShapeError(f"resize needs known sizes, not 0, got {x}", operand=0)
            new = self.size[axis] if self.size else math.floor(old * factors[axis])
            if new < 1:
                raise ShapeError(f"axis {axis + 2} of {x} would have {new} elements", attribute="size" if self.size else "scale")
            found.append((axis + 2, old, new, new / old if self.size else float(factors[axis])))
        return found

    def infer(self, *types: Type) -> Type:
        (x,) = types
        check_dtype(self.mnemonic, x, NUMBERS if self.mode == "nearest" else FLOATS)
        return x.with_shape((*x.shape[:2], *(new for _, _, new, _ in self.grid(x))))

    def neighbours(self, old: int, new: int, scale: float) -> tuple[Array, Array]:
        """Indices (new, taps) of the elements that each new one is made of, and their weights."""
        where = positions(old, new, scale, self.coordinates)
        if self.mode == "nearest":
            return np.clip(nearest(where, self.rounding), 0, old - 1).astype(np.int64)[:, None], np.ones((new, 1))
        first = np.floor(where)
        taps = np.arange(0, 2) if self.mode == "linear" else np.arange(-1, 3)
        at = first[:, None] + taps
        distance = where[:, None] - at
        weights = 1 - np.abs(distance) if self.mode == "linear" else cubic(distance, self.cubic_a)
        return np.clip(at, 0, old - 1).astype(np.int64), weights

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        found = x if self.mode == "nearest" else build.compute(x)
        for axis, old, new, scale in self.grid(x.type):
            indices, weights = self.neighbours(old, new, scale)
            if np.array_equal(indices, np.arange(old)[:, None]):
                continue
            total: Node | None = None
            for tap in range(indices.shape[1]):
                part = build.take(found, build.constant(indices[:, tap]), axis)
                if self.mode != "nearest":
                    weight = build.constant(weights[:, tap], found.type.dtype)
                    part = build.mul(part, build.along(weight, axis, part.type.rank, part.shape))
                total = part if total is None else build.add(total, part)
            assert total is not None
            found = total
        return build.cast(found, x.type.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        modes: list[dict[str, object]] = [
            {"size": (7, 9)}, {"scale": 2.0}, {"scale": (0.5, 1.5), "rounding": "floor", "coordinates": "asymmetric"}, {"size": (2, 3), "rounding": "ceil"},
            {"size": (7, 9), "mode": "linear"}, {"size": (7, 9), "mode": "linear", "coordinates": "align_corners"},
            {"scale": 0.6, "mode": "linear", "coordinates": "half_pixel_symmetric"}, {"size": (1, 3), "mode": "linear", "coordinates": "pytorch_half_pixel"},
            {"size": (7, 9), "mode": "cubic"}, {"scale": 2.0, "mode": "cubic", "cubic_a": -0.5, "coordinates": "asymmetric"},
        ]  # fmt: skip
        found = [Sample((Type(DType.F32, (2, 3, 4, 5)),), m) for m in modes]
        found += [Sample((Type(DType.F32, (1, 2, 5)),), {"scale": 2.0}), Sample((Type(DType.F32, (0, 2, 5)),), {"scale": 2.0, "mode": "linear"})]
        found += [Sample((Type(d, (1, 1, 3, 4)),), {"size": (5, 2)}, ("small",)) for d in DType if d in NUMBERS]
        return found + [Sample((Type(d, (1, 1, 3, 4)),), {"size": (5, 2), "mode": "linear"}) for d in DType if d in FLOATS]
