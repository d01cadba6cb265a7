"""Concatenation, stacking and splitting."""

from __future__ import annotations

import numpy as np

from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.file.tensors import AffineQuantization
from xlac.frontends.tflite.multiplier import half_away
from xlac.frontends.tflite.quantization import alike
from xlac.frontends.tflite.registry import operator
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import Array, normal_axis
from xlac.ops import build
from xlac.ops.tensor.arrange import PARTS
from xlac_sdk.dtypes import DType


def _alike(call: TFLiteCall) -> bool:
    """Whether all inputs have the output's quantization."""
    wanted = call.out().quantization
    return all(alike(call.info(n).quantization, wanted) for n in range(len(call)))


def _moved(call: TFLiteCall, number: int) -> Node:
    """An input converted to the output's quantization: uint8 by a table of its 256 integers, which
    the kernel computes in f32; int16 as it is stored.
    """
    before, after, x = call.info(number).quantization, call.out().quantization, call[number]
    if before is not None and after is not None and call.out().dtype is x.type.dtype:
        if x.type.dtype is DType.I16:
            return x
        if x.type.dtype is DType.U8 and before.single and after.single:
            return build.take(build.constant(_table(before, after)), build.cast(x, DType.I32), 0)
    again = call.rescaled(number=number)
    return call.give(call.real(number)) if again is None else again


def _table(before: AffineQuantization, after: AffineQuantization) -> Array:
    """The integers of u8 that stand in another quantization for each of 256: u8[256]."""
    scale = before.scales[0] * (np.float32(1) / after.scales[0])
    offset = np.float32(-before.zeros[0]) * scale
    numbers = half_away(np.arange(256, dtype=np.float32) * scale + offset) + after.zeros[0]
    table: Array = np.clip(numbers, 0, 255).astype(np.uint8)
    return table


@operator("CONCATENATION", "ConcatenationOptions")
def concatenation(call: TFLiteCall) -> Node:
    """Tensors joined along an axis, each brought to the output's quantization."""
    axis = call.option("axis")
    if call.activation != "NONE":
        parts = [call.give(call.activated(call.real(number))) for number in range(len(call))]
    else:
        parts = list(call) if _alike(call) else [_moved(call, n) for n in range(len(call))]
    return build.concat(parts, axis)


@operator("PACK", "PackOptions")
def pack(call: TFLiteCall) -> Node:
    """Tensors of one shape stacked along a new axis."""
    parts = list(call) if _alike(call) else [_moved(call, n) for n in range(len(call))]
    return build.apply1("stack", *parts, axis=call.option("axis"))


@operator("UNPACK", "UnpackOptions")
def unpack(call: TFLiteCall) -> tuple[Node, ...]:
    """The entries of an axis, which is removed."""
    x = call[0]
    axis = normal_axis(call.option("axis"), x.type.rank)
    count = _count(call, x.shape[axis])
    if count != call.option("num"):
        call.fail(f"axis {axis} of {x.type} has {count} entries, not {call.option('num')}")
    shape = [size for a, size in enumerate(x.shape) if a != axis]
    return tuple(build.reshape(build.cut(x, axis, n, n + 1), shape) for n in range(count))


@operator("SPLIT", "SplitOptions")
def split(call: TFLiteCall) -> tuple[Node, ...]:
    """Equal parts along an axis, which is the first input."""
    x = call[1]
    (axis,) = call.ints(0)
    axis = normal_axis(axis, x.type.rank)
    count, size = call.option("num_splits"), x.shape[axis]
    if not 1 <= count <= PARTS or (isinstance(size, int) and size % count):
        call.fail(f"axis {axis} of {x.type} does not divide into {count} parts")
    each = size // count
    return tuple(build.cut(x, axis, each * n, each * (n + 1)) for n in range(count))


@operator("SPLIT_V", "SplitVOptions")
def split_into(call: TFLiteCall) -> tuple[Node, ...]:
    """Parts of given sizes along an axis; -1 stands for the remainder."""
    x, sizes = call[0], list(call.dims(1))
    (axis,) = call.ints(2)
    axis = normal_axis(axis, x.type.rank)
    if sizes.count(-1) == 1:
        known: Dim = 0
        for size in sizes:
            known = known + size if size != -1 else known
        sizes[sizes.index(-1)] = x.shape[axis] - known
    parts: list[Node] = []
    start: Dim = 0
    for size in sizes:
        parts.append(build.cut(x, axis, start, start + size))
        start = start + size
    if start != x.shape[axis]:
        call.fail(f"parts of {sizes} do not make up axis {axis} of {x.type}")
    return tuple(parts)


def _count(call: TFLiteCall, size: Dim) -> int:
    if not isinstance(size, int) or size > PARTS:
        call.fail(f"{size} parts: their number must be known, and at most {PARTS:,}")
    return size
