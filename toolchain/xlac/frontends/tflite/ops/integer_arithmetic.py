"""Element-wise arithmetic of quantized tensors, in the integers of TensorFlow Lite's reference
kernels and to their bits: operands are brought to one scale with some bits after the point, and the
result to that of the output. Each function gives None where the kernels have no integer form; then
real numbers are computed.
"""

from __future__ import annotations

import numpy as np

from xlac.frontends.tflite.byte_sums import byte_values, linear_form
from xlac.frontends.tflite.call import BOUNDS, TFLiteCall
from xlac.frontends.tflite.file.tensors import AffineQuantization
from xlac.frontends.tflite.multiplier import divided, multiplied, multiplied_numbers, multiplier
from xlac.frontends.tflite.quantization import centred, ends_of, held, rescaled, scaled
from xlac.frontends.tflite.word_tables import tabulated
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType

BYTES = (DType.I8, DType.U8)


def added(call: TFLiteCall, sign: int) -> Node | None:
    """x + sign y."""
    found = _quantizations(call, 2)
    if found is None:
        return None
    left, right, out = found
    if call[0].type.dtype is DType.I16 and _powers_of_two(call, found):
        return _added_by_shifts(call, found, sign)
    kind, out_scale = call[0].type.dtype, _scale(out)
    shift = 20 if kind in BYTES else 15
    largest = 2.0 * max(_scale(left), _scale(right))
    factor = largest / ((1 << shift) * out_scale)
    if not factor < 1:
        return None
    by = [multiplier(part / largest) for part in (_scale(left), sign * _scale(right))]
    bounds = BOUNDS[call.activation]
    if kind in BYTES:
        ends, values = ends_of(call.out(), bounds), byte_values(kind)
        x, y = (
            multiplied_numbers((values - int(each.zeros[0])) << shift, one)
            for each, one in zip((left, right), by, strict=True)
        )
        total = multiplied_numbers(x[:, None] + y[None], multiplier(factor)) + int(out.zeros[0])
        slopes = (_scale(left) / out_scale, sign * _scale(right) / out_scale)
        form = linear_form(np.clip(total, *ends), kind, slopes, ends)
        if form is not None:
            return held(form.of(call[0], call[1]), call.out(), bounds)
    most = 1 << shift + kind.bits
    x_, y_ = (
        multiplied(_raised(call[n], each, shift), one, most=most)
        for n, (each, one) in enumerate(zip((left, right), by, strict=True))
    )
    # each is halved
    return scaled(build.add(x_, y_), factor, call.out(), bounds, most=most)


def _added_by_shifts(
    call: TFLiteCall, found: tuple[AffineQuantization, ...], sign: int
) -> Node | None:
    """x + sign y where scales are powers of two, and one of the inputs has that of the result."""
    left, right, out = (round(np.log2(_scale(each))) for each in found)
    if max(left, right) > out or out not in (left, right):
        return None
    x, y = (build.cast(call[n], DType.I32) for n in range(2))
    x, y = divided(x, out - left), divided(y, out - right)
    total = build.add(x, y) if sign > 0 else build.sub(x, y)
    return held(total, call.out(), BOUNDS[call.activation])


def _powers_of_two(call: TFLiteCall, found: tuple[AffineQuantization, ...]) -> bool:
    scales = np.log2([_scale(each) for each in found])
    zeros = [int(each.zeros[0]) for each in found]
    near = np.abs(scales - np.rint(scales)) < 1e-3
    return bool(call.option("pot_scale_int16") and near.all() and not any(zeros))


def product(call: TFLiteCall) -> Node | None:
    """x y."""
    found = _quantizations(call, 2)
    if found is None:
        return None
    left, right, out = found
    x, y = (build.cast(centred(call[n], each), DType.I32) for n, each in enumerate((left, right)))
    # the kernel computes the factor in f32
    factor = left.scales[0] * right.scales[0] / out.scales[0]
    most = 1 << 2 * call[0].type.dtype.bits
    clamp = BOUNDS[call.activation]
    return scaled(build.mul(x, y), float(factor), call.out(), clamp, most=most)


def squared_difference(call: TFLiteCall) -> Node | None:
    """(x - y)²."""
    found = _quantizations(call, 2)
    if found is None or call[0].type.dtype is not DType.I8:
        return None
    left, right, out = found
    largest = 2.0 * max(_scale(left), _scale(right))
    factor = largest * largest / ((1 << 14) * _scale(out))
    if not factor < 1:
        return None
    x = rescaled(_raised(call[0], left, 7), _scale(left) / largest, 1 << 15)
    y = rescaled(_raised(call[1], right, 7), _scale(right) / largest, 1 << 15)
    apart = build.sub(x, y)
    return scaled(build.mul(apart, apart), factor, call.out())


def hard_swish(call: TFLiteCall) -> Node | None:
    """x clamp(x + 3, 0, 6) / 6, in 16 bits: x with 7 bits more is multiplied by a number in
    [0, 1], which has 15 bits after the point.
    """
    found = _quantizations(call, 1)
    if found is None or call[0].type.dtype not in BYTES:
        return None
    before, after = found
    fine = np.float32(before.scales[0] / np.float32(128))
    out = multiplier(float(np.float32(fine / after.scales[0])))
    slope = multiplier(float(np.float32(fine / np.float32(3.0 / 32768.0))))
    if out.exponent > 0:
        return None
    x = build.cast(_raised(call[0], before, 7), DType.I32)
    value = _high(x, _narrow(out.mantissa))
    share, up = x, int(slope.exponent)
    if up > 0:
        share = _saturated(build.mul(share, 1 << min(up - 1, 15)))
    share = _high(share, _narrow(slope.mantissa))
    if up > 0:
        share = _saturated(build.mul(share, 2))
    share = divided(share, max(-up, 0))
    share = build.apply1("shr", build.add(share, 1 << 15), 1)
    # rounds towards zero
    result = build.div(build.mul(share, value), 1 << 15)
    result = divided(result, -int(out.exponent))
    return held(build.add(result, int(after.zeros[0])), call.out())


def rsqrt(call: TFLiteCall) -> Node | None:
    """1 / sqrt(x): of each of the 256 integers with 20 bits after the point, then brought to the
    result's scale; of 16 bits by a table. The largest result stands for that of 0, and of less,
    which kernels refuse.
    """
    found = _quantizations(call, 1)
    if found is None:
        return None
    before, after = found
    if call[0].type.dtype is DType.I16:
        most = np.float32(32767) * np.float32(_scale(after))
        return tabulated(call, lambda x: np.where(x <= 0, most, 1 / np.sqrt(np.maximum(x, 0))))
    if call[0].type.dtype is not DType.I8:
        return None
    roots = np.floor(2.0**20 / np.sqrt(np.arange(1, 256)) + 0.5)
    table = build.constant(np.concatenate([roots[:1], roots]).astype(np.int32))
    # the kernel multiplies in f32
    by = multiplier(1 / float(np.sqrt(before.scales[0]) * after.scales[0]))
    x = build.maximum(build.cast(centred(call[0], before), DType.I32), 0)
    by = by._replace(exponent=by.exponent - 20)
    result = scaled(build.take(table, x, 0), by, call.out(), most=1 << 21)
    return build.select(build.compare(x, "eq", 0), 127, result)


def absolute(call: TFLiteCall) -> Node | None:
    """The absolute value; the kernel computes the factor in f32."""
    found = _quantizations(call, 1)
    if found is None:
        return None
    before, after = found
    x = build.apply1("abs", build.cast(centred(call[0], before), DType.I32))
    factor = float(before.scales[0] / after.scales[0])
    return scaled(x, factor, call.out(), most=1 << call[0].type.dtype.bits + 1)


def square_root(call: TFLiteCall) -> Node | None:
    """The square root of real numbers, which the kernel cuts off instead of rounding it."""
    found = _quantizations(call, 1)
    if found is None or call[0].type.dtype not in (DType.I8, DType.I16):
        return None
    root = build.apply1("sqrt", build.maximum(call.real(0), 0.0))
    steps = build.cast(build.div(root, _scale(found[1])), DType.I32)
    return held(build.add(steps, int(found[1].zeros[0])), call.out())


def sigmoid_of_words(call: TFLiteCall, tanh: bool) -> Node | None:
    """The logistic function of 16 bits, or tanh(x) = 2 sigmoid(2 x) - 1: x with a scale of 1 / (3 *
    4096) is looked up among sigmoid(n / 24), and what is between is interpolated.

    Source: kernels/internal/reference/integer_ops/logistic.h and tanh.h, and TanhPrepare and
    SigmoidPrepare of kernels/activations.cc. They take zero points of 0 and results of scale 2^-15.
    """
    found = _quantizations(call, 1)
    if found is None or call[0].type.dtype is not DType.I16:
        return None
    before, after = found
    if int(before.zeros[0]) or int(after.zeros[0]) or _scale(after) != 2.0**-15:
        return None
    factor, shift = _table_factor(_scale(before))
    half = 1 << shift - 1 if shift else 0
    x = build.add(build.mul(build.cast(call[0], DType.I32), factor), half)
    x = build.apply1("shr", x, shift) if shift else x
    bits = 8 if tanh else 9  # between two entries of the table
    size = build.apply1("abs", x)
    place = build.minimum(build.apply1("shr", size, bits), 255)
    rest = build.apply1("and", size, (1 << bits) - 1)
    table = build.constant(_sigmoid_table())
    low = build.take(table, place, 0)
    step = build.sub(build.take(table, build.add(place, 1), 0), low)
    value = build.add(build.mul(low, 1 << bits), build.mul(rest, step))
    most = 0xFFFF << 8 if tanh else 0x7FFF << 10
    value = build.select(build.compare(place, "ge", 255), most, value)
    positive = build.compare(x, "ge", 0)
    if tanh:
        above = build.add(value, (1 << 7) - (1 << 23))
        below = build.sub((1 << 23) + (1 << 7) - 1, value)
    else:
        above = build.add(value, 1 << 9)
        below = build.sub((1 << 25) + (1 << 9) - 1, value)
    result = build.apply1("shr", build.select(positive, above, below), 8 if tanh else 10)
    return build.cast(result, DType.I16)


def _sigmoid_table() -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    """sigmoid(n / 24) with 16 bits after the point, each with half of what a line from it to the
    next misses in the middle, so that interpolation errs to both sides alike. The last is 1.
    """
    value = 1 / (1 + np.exp(-np.arange(256) / 24))
    bend = value * (1 - value) * (1 - 2 * value) / 24**2  # the second derivative
    table = np.rint(65536 * (value - bend / 16)).astype(np.int32)
    return np.append(table[:-1], np.array([65535, 65535], np.int32))


def _table_factor(scale: float) -> tuple[int, int]:
    """What x is multiplied by to count 1 / (3 * 4096), and the bits that are cut off after that."""
    power = round(np.log2(scale))
    if abs(np.log2(scale) - power) < 1e-3 and power + 12 in (0, 1):
        return 3 << power + 12, 0
    factor, shift = float(np.float32(scale)) * 4096 * 3, 0
    while factor <= 32767 / 2 and shift <= 30:
        factor, shift = factor * 2, shift + 1
    return int(factor), shift


def prelu(call: TFLiteCall) -> Node | None:
    """x where it is positive, elsewhere x times a slope."""
    infos = (call.info(0), call.info(1), call.out())
    found = tuple(info.quantization for info in infos if info.quantization is not None)
    if len(found) < 3 or infos[0].dtype not in BYTES or not all(each.single for each in found):
        return None
    before, slopes, after = found
    x, slope = (
        build.cast(centred(call[n], each), DType.I32) for n, each in enumerate((before, slopes))
    )
    # the kernel multiplies in f32
    plain = np.float32(before.scales[0]) / np.float32(after.scales[0])
    sloped = np.float32(before.scales[0]) * np.float32(slopes.scales[0])
    sloped = np.float32(sloped / np.float32(after.scales[0]))
    above = scaled(x, float(plain), call.out(), most=1 << 9)
    below = scaled(build.mul(x, slope), float(sloped), call.out(), most=1 << 18)
    return build.select(build.compare(x, "ge", 0), above, below)


def _high(x: Node, mantissa: int) -> Node:
    """Numbers of 16 bits times a mantissa with 15 bits after the point, rounded."""
    return build.apply1("shr", build.add(build.mul(x, mantissa), 1 << 14), 15)


def _narrow(mantissa: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> int:
    """A mantissa with 15 instead of 31 bits after the point."""
    return min((int(mantissa) + (1 << 15)) >> 16, (1 << 15) - 1)


def _saturated(x: Node) -> Node:
    return build.minimum(build.maximum(x, -(1 << 15)), (1 << 15) - 1)


def _raised(x: Node, quantization: AffineQuantization, bits: int) -> Node:
    """Integers minus their zero point, with so many bits after the point, i32."""
    return build.mul(build.cast(centred(x, quantization), DType.I32), 1 << bits)


def _scale(quantization: AffineQuantization) -> float:
    return float(quantization.scales[0])


def _quantizations(call: TFLiteCall, inputs: int) -> tuple[AffineQuantization, ...] | None:
    """Those of the inputs and of the result, or None where they are not what kernels for integers
    take: one type of 8 or 16 bits, single scales, and an activation that clamps.
    """
    infos = [*(call.info(n) for n in range(inputs)), call.out()]
    kinds = {info.dtype for info in infos}
    if len(kinds) > 1 or not kinds <= {*BYTES, DType.I16} or call.activation not in BOUNDS:
        return None
    found = tuple(info.quantization for info in infos if info.quantization is not None)
    if len(found) < len(infos) or not all(each.single and _scale(each) > 0 for each in found):
        return None
    return found
