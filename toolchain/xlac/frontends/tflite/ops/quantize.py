"""QUANTIZE, DEQUANTIZE and FAKE_QUANT."""

from __future__ import annotations

import numpy as np

from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.registry import operator
from xlac.ir.graph import Node
from xlac.ops import build


@operator("QUANTIZE")
def quantize(call: TFLiteCall) -> Node:
    """Numbers, or quantized integers, converted to the output's quantization."""
    again = call.rescaled()
    return call.give(call.real(0)) if again is None else again


@operator("DEQUANTIZE")
def dequantize(call: TFLiteCall) -> Node:
    """The numbers that a tensor represents; half precision as f32."""
    return build.cast(call.real(0), call.dtype())


@operator("FAKE_QUANT", "FakeQuantOptions")
def fake_quant(call: TFLiteCall) -> Node:
    """x rounded to the grid of 2^num_bits numbers from `min` to `max`, shifted so that it contains
    0.
    """
    x = call.real(0)
    low, high, bits = call.option("min"), call.option("max"), call.option("num_bits")
    if not 2 <= bits <= 16 or not low < high:
        call.fail(f"quantization to {bits} bits from {low} to {high}: 2 to 16 bits, min below max")
    first, last = float(call.option("narrow_range")), float((1 << bits) - 1)
    scale = np.float32((high - low) / (last - first))
    zero = float(np.clip(np.round(first - low / scale), first, last))
    held = build.minimum(
        build.maximum(x, float((first - zero) * scale)), float((last - zero) * scale)
    )
    steps = build.apply1(
        "round_half_away", build.div(build.sub(held, float((first - zero) * scale)), float(scale))
    )
    return call.give(build.add(build.mul(steps, float(scale)), float((first - zero) * scale)))
