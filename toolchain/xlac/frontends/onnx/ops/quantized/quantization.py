"""Affine quantization: quantizing, dequantizing, and centring integers for exact products."""

from __future__ import annotations

import numpy as np

from xlac.frontends.onnx.graph.values import Coded, Value
from xlac.frontends.onnx.ops.tensor.casts import WHOLE, decoded, encoded
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError, normal_axis
from xlac.ops import build
from xlac_sdk.dtypes import DType

Tensor = Node | Coded


def limits(kind: DType | str) -> tuple[int, int]:
    """The range of an integer type, including those stored as codes."""
    if isinstance(kind, str):
        bits, signed = WHOLE[kind]
        return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    info = np.iinfo(kind.numpy)
    return int(info.min), int(info.max)


def fitted(x: Node, to: Node, axis: int, block: int = 0) -> Node:
    """A scale or zero point shaped to broadcast with `to`: a scalar, one for each entry of `axis`,
    or one for each block.
    """
    if x.type.size == 1:
        return build.reshape(x, ())
    spot = normal_axis(axis, to.type.rank)
    if not block:
        if x.type.rank != 1:
            raise ShapeError(
                f"{x.type} is neither a number nor one for each entry of axis {spot} of {to.type}"
            )
        return build.reshape(x, [x.shape[0] if a == spot else 1 for a in range(to.type.rank)])
    if x.type.rank != to.type.rank:
        raise ShapeError(f"blocks of {to.type} need a tensor of its rank, got {x.type}")
    wide = build.apply1("repeat", x, repeats=block, axis=spot)
    return wide if wide.shape == to.shape else build.cut(wide, spot, 0, to.shape[spot])


def saturated(x: Node, zero: Node | None, kind: DType | str) -> Value:
    """Floats rounded to nearest even, plus the zero point, clamped to an integer type."""
    low, high = limits(kind)
    shifted = build.apply1("round", x)
    if zero is not None:
        shifted = build.add(shifted, build.cast(zero, x.type.dtype))
    held = build.minimum(build.maximum(shifted, float(low)), float(high))
    if isinstance(kind, str):
        return Coded(build.cast(held, DType.I8 if WHOLE[kind][1] else DType.U8), kind)
    return build.cast(held, kind)


def quantized(x: Node, zero: Tensor | None, kind: DType | str, saturate: bool = True) -> Value:
    """Floats, already divided by their scale, in a quantized type. Of minifloats only those of 4
    bits add a zero point.
    """
    if isinstance(kind, str) and kind not in WHOLE:
        if zero is not None and kind == "float4e2m1":
            x = build.add(x, decoded(zero, x.type.dtype))
        return encoded(x, kind, saturate)
    return saturated(x, None if zero is None else decoded(zero), kind)


def kind_of(value: Tensor) -> DType | str:
    """The element type, or the format of a tensor stored as codes."""
    return value.format if isinstance(value, Coded) else value.type.dtype


def centred(x: Tensor, zero: Tensor | None, axis: int, block: int = 0) -> Node:
    """Integers minus their zero point, in the narrowest type that holds every difference;
    minifloats as f32.
    """
    kind = kind_of(x)
    if isinstance(kind, str) and kind not in WHOLE:
        return decoded(x)
    plain = decoded(x)
    narrow = plain.type.dtype.bits == 8
    wide = build.cast(plain, DType.I16 if narrow else DType.I32)
    if zero is None:
        return wide
    return build.sub(wide, build.cast(fitted(decoded(zero), plain, axis, block), wide.type.dtype))
