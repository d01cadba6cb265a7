"""Quantization and dequantization of tensors.

Sums of integers are exact. They are rescaled as by TensorFlow Lite's reference kernels (`scaled`):
multiplied by the mantissa of the factor and rounded to an integer; then multiplied by its power of
two and rounded again, halves away from zero. Results of real arithmetic are rounded once, halves
away from zero (`quantized`). A result differs by at most one from that of the reference kernels,
and only where it lies within their own error of a half.
"""

from __future__ import annotations

import numpy as np

from xlac.frontends.tflite.file.tensors import PACKED, AffineQuantization, TensorInfo
from xlac.ir.graph import Node
from xlac.ir.op import Array, ShapeError
from xlac.ops import build
from xlac_sdk.dtypes import DType

TIE = 2.0**-20
"""A relative change small enough that it only moves a number over a half where it is exactly one:
relevant numbers have at most 8 integer and 12 fractional bits.
"""


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


def rescaled(x: Node, factor: Array) -> Node:
    """Integers times positive factors f64[] or f64[n], as whole f32 numbers."""
    mantissa, exponent = np.frexp(factor)
    if x.type.dtype is DType.I64:  # kernels for 16-bit activations have factors of 15 bits
        mantissa = np.minimum(np.rint(mantissa * (1 << 15)), (1 << 15) - 1) / (1 << 15)
    late = np.minimum(exponent, 0) if x.type.dtype is not DType.I64 else np.zeros_like(exponent)
    first = np.ldexp(mantissa, exponent - late).astype(np.float32)
    # slightly more than the power of two, so that halves round away from zero
    second = np.where(late < 0, np.ldexp(1 + TIE, late), 1.0).astype(np.float32)
    numbers = build.apply1("round", build.mul(build.cast(x, DType.F32), build.constant(first)))
    if (late < 0).any():
        numbers = build.apply1("round", build.mul(numbers, build.constant(second)))
    return numbers


def scaled(
    x: Node, factor: Array, info: TensorInfo, bounds: tuple[float, float] = (-np.inf, np.inf)
) -> Node:
    """Integers times positive factors f64[] or f64[n], clamped to real `bounds`, in the type of a
    quantized tensor that has a single scale.
    """
    numbers = rescaled(x, factor)
    zeros = info.quantization.zeros if info.quantization is not None else np.zeros(1)
    if zeros.any():
        numbers = build.add(numbers, build.constant(zeros.reshape(()), DType.F32))
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
    if info.quantization is None or info.dtype is None:
        raise ShapeError(f"tensor '{info.name}' of type {info.kind} has no quantization")
    low, high = limits(info)
    if info.quantization.single:
        scale, zero = float(info.quantization.scales[0]), float(info.quantization.zeros[0])
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.rint(np.divide(bounds, scale)) + zero
        low, high = int(max(low, ends[0])), int(min(high, ends[1]))
    clamped = build.minimum(build.maximum(x, float(low)), float(high))
    return build.cast(clamped, info.dtype)


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
