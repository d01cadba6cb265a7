"""Quantization and dequantization of tensors.

Sums of integers are exact, and rescaled to the bit of TensorFlow Lite's reference kernels
(`scaled`). Results of real arithmetic are rounded once, halves away from zero (`quantized`): they
differ by at most one from those of the reference kernels, and only where they lie within the
kernels' own error of a half.
"""

from __future__ import annotations

import numpy as np

from xlac.frontends.tflite.file.tensors import PACKED, AffineQuantization, TensorInfo
from xlac.frontends.tflite.multiplier import Multiplier, half_away, multiplied, multiplier
from xlac.ir.graph import Node
from xlac.ir.op import Array, ShapeError
from xlac.ops import build
from xlac_sdk.dtypes import DType


def fitted(numbers: Array, quantization: AffineQuantization, rank: int) -> Array:
    """A scale or zero point per tensor, or per entry of its axis, in a shape that broadcasts with
    it.
    """
    if quantization.single:
        return numbers.reshape(())
    return numbers.reshape([-1 if a == quantization.axis else 1 for a in range(rank)])


def centred(x: Node, quantization: AffineQuantization | None) -> Node:
    """Integers minus their zero points, in the narrowest type that represents every difference."""
    wide = build.cast(x, DType.I16 if x.type.dtype.bits == 8 else DType.I32)
    if quantization is None or not quantization.zeros.any():
        return wide
    zeros = fitted(quantization.zeros, quantization, x.type.rank)
    return build.sub(wide, build.constant(zeros, wide.type.dtype))


def dequantized(x: Node, quantization: AffineQuantization | None) -> Node:
    """The numbers that a tensor represents: f32 where it is quantized, else the tensor itself."""
    if quantization is None or x.type.dtype.is_float:
        return x
    scales = fitted(quantization.scales, quantization, x.type.rank)
    return build.mul(build.cast(centred(x, quantization), DType.F32), build.constant(scales))


def quantized(x: Node, info: TensorInfo) -> Node:
    """Numbers converted to the type of a tensor. Raises ShapeError for a type without numbers."""
    if info.dtype is None:
        raise ShapeError(f"output '{info.name}' is of type {info.kind}, which has no numbers")
    if info.quantization is None or info.dtype.is_float or not x.type.dtype.is_float:
        return build.cast(x, info.dtype)
    scales = fitted(info.quantization.scales, info.quantization, x.type.rank)
    return saturated(build.div(build.compute(x), build.constant(scales)), info)


def rescaled(x: Node, factor: Array | float, most: int = 1 << 31) -> Node:
    """Integers up to `most` times factors f64[] or f64[n], rounded to i32."""
    return multiplied(x, multiplier(factor), most=most)


def scaled(
    x: Node,
    factor: Array | float | Multiplier,
    info: TensorInfo,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    once: bool = False,
    most: int = 1 << 31,
) -> Node:
    """Integers up to `most` times factors f64[] or f64[n], rounded twice or `once`, clamped to real
    `bounds`, in the type of a quantized tensor that has a single scale.
    """
    by = factor if isinstance(factor, Multiplier) else multiplier(factor)
    numbers = multiplied(x, by, once, most)
    zeros = info.quantization.zeros if info.quantization is not None else np.zeros(1)
    if zeros.any():
        numbers = build.add(numbers, int(zeros[0]))
    return held(numbers, info, bounds)


def saturated(x: Node, info: TensorInfo) -> Node:
    """Numbers already divided by their scale, as integers of a quantized tensor's type."""
    if info.quantization is None:
        raise ShapeError(f"tensor '{info.name}' of type {info.kind} has no quantization")
    rounded = build.apply1("round_half_away", x)
    if info.quantization.zeros.any():
        zeros = fitted(info.quantization.zeros, info.quantization, x.type.rank)
        rounded = build.add(rounded, build.constant(zeros, DType.F32))
    return held(rounded, info)


def held(x: Node, info: TensorInfo, bounds: tuple[float, float] = (-np.inf, np.inf)) -> Node:
    """Integers clamped to the range of a quantized tensor's type and to the quantized `bounds`, in
    that type.
    """
    low, high = ends_of(info, bounds)
    number = float if x.type.dtype.is_float else int
    clamped = build.minimum(build.maximum(x, number(low)), number(high))
    assert info.dtype is not None
    return build.cast(clamped, info.dtype)


def ends_of(info: TensorInfo, bounds: tuple[float, float]) -> tuple[int, int]:
    """The least and the greatest integer of a quantized tensor within real bounds."""
    if info.quantization is None or info.dtype is None:
        raise ShapeError(f"tensor '{info.name}' of type {info.kind} has no quantization")
    low, high = limits(info)
    if info.quantization.single:
        scale, zero = info.quantization.scales[0], float(info.quantization.zeros[0])
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = half_away(np.divide(np.asarray(bounds, np.float32), scale)) + zero
        low, high = int(max(low, ends[0])), int(min(high, ends[1]))
    return low, high


def alike(a: AffineQuantization | None, b: AffineQuantization | None) -> bool:
    """Whether two tensors are quantized by the same scales and zero points."""
    if a is None or b is None:
        return a is b
    return np.array_equal(a.scales, b.scales) and np.array_equal(a.zeros, b.zeros)


def limits(info: TensorInfo) -> tuple[int, int]:
    """The least and the greatest integer of a tensor's type."""
    if info.dtype is None:
        raise ShapeError(f"tensor '{info.name}' is of type {info.kind}, which has no numbers")
    if info.kind in PACKED:
        half = 1 << PACKED[info.kind] - 1
        return (0, 2 * half - 1) if info.kind.startswith("U") else (-half, half - 1)
    range = np.iinfo(info.dtype.numpy)
    return int(range.min), int(range.max)
