"""Layer normalization of a gate inside an LSTM: of floats, and in the integers of TensorFlow Lite's
reference kernels (PortableApplyLayerNorm in kernels/internal/reference/portable_tensor_utils.cc).
"""

from __future__ import annotations

from xlac.frontends.tflite.inverse_root import inverse_root
from xlac.frontends.tflite.multiplier import multiplied, multiplier
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac_sdk.dtypes import DType

EPSILON = 1e-8  # added to a variance
RESOLUTION = 10  # bits after the point of a normalized number
LOW, HIGH = -32768, 32767


def normalized_floats(x: Node, weight: Node) -> Node:
    """x (batch, units) less its mean, over its deviation, times a weight."""
    centred = build.sub(x, build.apply1("mean", x, axis=1, keepdims=True))
    variance = build.apply1("mean", build.mul(centred, centred), axis=1, keepdims=True)
    over = build.apply1("rsqrt", build.add(variance, EPSILON))
    return build.mul(build.mul(centred, over), weight)


def normalized_gate(x: Node, weight: Node, bias: Node | None, scale: float) -> Node:
    """x i32(batch, units) of 16 bits, normalized, with 12 bits after the point."""
    units = x.shape[1]
    if not isinstance(units, int):
        raise ShapeError("the number of units of a normalized LSTM must be known")
    wide = build.cast(x, DType.I64)
    total = build.reduce(wide, "add", 1, keepdims=True)
    squares = build.reduce(build.mul(wide, wide), "add", 1, keepdims=True)
    mean = build.div(build.mul(total, 1 << RESOLUTION), units)
    part = (1 << 2 * RESOLUTION) // units
    variance = build.sub(build.mul(squares, part), build.mul(mean, mean))
    variance = build.cast(build.div(variance, 1 << 2 * RESOLUTION), DType.I32)
    guard = max(1, int(10000 * scale))
    variance = build.select(build.compare(variance, "lt", 1), guard, variance)
    mantissa, right = inverse_root(variance)
    shifted = build.cast(build.sub(build.mul(wide, 1 << RESOLUTION), mean), DType.I32)
    over = _over(shifted, mantissa, right)
    y = build.mul(build.cast(over, DType.I64), build.cast(weight, DType.I64))
    y = y if bias is None else build.add(y, build.cast(bias, DType.I64))
    half = build.select(build.compare(y, "gt", 0), 1 << RESOLUTION - 1, -(1 << RESOLUTION - 1))
    y = build.cast(build.div(build.add(y, half), 1 << RESOLUTION), DType.I32)
    by = multiplier(scale * 2.0**12)
    return build.minimum(build.maximum(multiplied(y, by), LOW), HIGH)


def _over(x: Node, mantissa: Node, right: Node) -> Node:
    """x times mantissa * 2^-31, over 2^right, rounded twice as the kernels do."""
    mantissa, right = (build.broadcast_to(n, x.shape) for n in (mantissa, right))
    product = build.mul(build.cast(x, DType.I64), build.cast(mantissa, DType.I64))
    high = build.cast(build.apply1("shr", build.add(product, 1 << 30), 31), DType.I32)
    last = build.minimum(right, 1)
    less = build.apply1("and", build.apply1("shr", high, 31), build.sub(0, last))
    kept = build.apply1("shr", build.add(high, less), build.maximum(build.sub(right, 1), 0))
    return build.apply1("shr", build.add(kept, last), last)
