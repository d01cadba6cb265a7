"""Functions of 16-bit integers by tables of 513 entries, to the bit of TensorFlow Lite's reference
kernels: between two entries a line, which each entry is moved for by half of what it misses in the
middle. The last entry is that of the largest number.

Source: LUTPopulate and LUTLookup (kernels/internal/common.h), SoftmaxInt16
(kernels/internal/reference/softmax.h).
"""

from __future__ import annotations

from collections.abc import Callable
from math import erfc

import numpy as np

from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.multiplier import half_away
from xlac.frontends.tflite.quantization import rescaled
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops import build
from xlac_sdk.dtypes import DType

Function = Callable[[Array], Array]

LOW, HIGH = -(1 << 15), (1 << 15) - 1
STEPS, BITS = 512, 7  # intervals, and the bits of a number within one
DEEPEST = 1 << 16  # a row of a softmax, whose sum has 31 bits
SPAN = 10.0 / 65535  # of the numbers from -10 to 0, whose exponentials are looked up


def gelu(x: Array) -> Array:
    """The Gaussian error linear unit of f32, by erfc as in the kernel."""
    at = -x * np.float32(0.5**0.5)
    halves: Array = np.float32(0.5) * x
    return halves * np.asarray([erfc(value) for value in at.tolist()], np.float32)


def gelu_by_tanh(x: Array) -> Array:
    """Its approximation by tanh."""
    result: Array = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return result


def tabulated(call: TFLiteCall, function: Function) -> Node | None:
    """A function of real numbers, of the input as the output's integers; None where they are not
    of 16 bits with one scale each. What is not finite is the least number of the output.
    """
    before, after = call.info(0).quantization, call.out().quantization
    if before is None or after is None or not before.single or not after.single:
        return None
    if call[0].type.dtype is not DType.I16 or call.out().dtype is not DType.I16:
        return None
    numbers, result = ((float(each.scales[0]), int(each.zeros[0])) for each in (before, after))
    table = _table(numbers, result, function)
    return build.cast(_looked_up(build.cast(call[0], DType.I32), table), DType.I16)


def softmax_of_words(call: TFLiteCall, beta: float) -> Node | None:
    """The softmax along the last axis of 16-bit integers; None where it is of other types or
    scales, or of rows longer than the kernel sums in 32 bits.
    """
    before, after = call.info(0).quantization, call.out().quantization
    if before is None or after is None or not before.single or not after.single:
        return None
    x, depth = call[0], call[0].shape[-1] if call[0].type.rank else 0
    if x.type.dtype is not DType.I16 or call.out().dtype is not DType.I16 or beta <= 0:
        return None
    if not isinstance(depth, int) or not 0 < depth <= DEEPEST or after.zeros.any():
        return None
    if float(after.scales[0]) != 2.0**-15:
        return None
    exponentials = _table((SPAN, HIGH), (2.0 / 65535, 0), np.exp)
    reciprocals = _table((1.0 / 65535, LOW), (2.0 / 65535, 0), lambda x: 1 / (1 + x))
    wide = build.cast(x, DType.I32)
    below = build.sub(wide, build.apply1("reduce_max", wide, axis=(-1,), keepdims=True))
    factor = float(np.float32(before.scales[0]) * np.float32(beta)) / SPAN
    places = _held(build.add(rescaled(below, factor, 1 << 16), HIGH))
    powers = _looked_up(places, exponentials)
    total = build.reduce(powers, "add", -1, True)
    full, bits = _normalized(total)
    # in [1, 2) with 16 bits after the point
    rounded = build.apply1("shr", build.add(build.apply1("shr", full, 13), 1), 1)
    share = _looked_up(_held(build.sub(rounded, (1 << 15) + (1 << 16))), reciprocals)
    right = build.sub(30, bits)
    half = build.apply1("shl", build.full(1, right.shape, DType.I32), build.sub(right, 1))
    product = build.add(build.mul(powers, share), half)
    result = build.apply1("shr", product, build.broadcast_to(right, product.shape))
    return build.cast(build.minimum(build.maximum(result, 0), HIGH), DType.I16)


def _table(numbers: tuple[float, int], result: tuple[float, int], function: Function) -> Array:
    """The entries i32[513] of a function from numbers to results, each of a scale and a zero
    point. The kernels compute them in f32.
    """
    f32 = np.float32
    scale, zero = f32(numbers[0]), f32(numbers[1])
    low, high = scale * (LOW - zero), scale * (HIGH - zero)
    step = (high - low) / f32(STEPS)
    of_result = f32(result[0])
    bottom, top = of_result * f32(LOW - result[1]), of_result * f32(HIGH - result[1])
    by = f32(1 << 16) / (top - bottom)

    def value(x: Array) -> Array:
        with np.errstate(all="ignore"):
            found = function(x.astype(f32)).astype(f32)
        values: Array = np.where(np.isfinite(found), found, bottom) * by
        return values

    at = np.arange(STEPS, dtype=f32)
    here, middle = value(low + at * step), half_away(value(low + at * step + step / f32(2)))
    after = value(low + (at + f32(1)) * step)
    missed = half_away((after + half_away(here)) / f32(2)) - middle
    entries = np.append(
        half_away(here) - half_away(missed / f32(2)), half_away(value(np.asarray([high])))
    )
    table: Array = np.clip(entries, LOW, HIGH).astype(np.int32)
    return table


def _looked_up(x: Node, table: Array) -> Node:
    """The function of 16-bit numbers i32, between two entries of its table."""
    place = build.add(build.apply1("shr", x, BITS), STEPS // 2)
    slopes = np.diff(table).astype(np.int16).astype(np.int32)  # as narrow as in the kernels
    base, slope = (build.take(build.constant(each), place, 0) for each in (table, slopes))
    along = build.mul(slope, build.apply1("and", x, (1 << BITS) - 1))
    return build.add(base, build.apply1("shr", build.add(along, 1 << BITS - 1), BITS))


def _held(x: Node) -> Node:
    return build.minimum(build.maximum(x, LOW), HIGH)


def _normalized(x: Node) -> tuple[Node, Node]:
    """Positive numbers i32 shifted left until they have 31 bits, and by how many bits."""
    bits = build.full(0, x.shape, DType.I32)
    for count in (16, 8, 4, 2, 1):
        small = build.compare(x, "lt", 1 << 31 - count)
        x = build.select(small, build.mul(build.select(small, x, 0), 1 << count), x)
        bits = build.add(bits, build.select(small, count, 0))
    return x, bits
