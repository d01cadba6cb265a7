"""Numbers over their Euclidean norm, to the bit of TensorFlow Lite's reference kernels of 8 bits: 1
over the root of a sum of squares by five steps of Newton's method, with 28 bits after the point.

Source: GetInvSqrtQuantizedMultiplierExp (kernels/internal/common.h), L2Normalization
(kernels/internal/reference/integer_ops/l2normalization.h).
"""

from __future__ import annotations

from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.quantization import centred
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType

ONE = 1 << 28  # 1 in the numbers of Newton's method
HALF_ROOT = 1518500250  # half the root of 2 with 31 bits after the point
DEEPEST = 1 << 15  # a row, whose sum of squares has 31 bits
RESULT_BITS = 7  # after the point
MIDDLE = {DType.I8: 0, DType.U8: 128}  # the zero point of a result


def normalized(call: TFLiteCall) -> Node | None:
    """x over its norm along the last axis, with a scale of 1 / 128, i8 with a zero point of 0 or u8
    with one of 128; None where types, scales or rows are others.
    """
    before, after = call.info(0).quantization, call.out().quantization
    x, depth = call[0], call[0].shape[-1] if call[0].type.rank else 0
    if x.type.dtype not in MIDDLE or call.out().dtype is not x.type.dtype or before is None:
        return None
    middle = MIDDLE[x.type.dtype]
    if after is None or not before.single or call.activation != "NONE":
        return None
    if float(after.scales[0]) != 2.0**-RESULT_BITS or int(after.zeros[0]) != middle:
        return None
    if not isinstance(depth, int) or not 0 < depth <= DEEPEST:
        return None
    wide = build.cast(centred(x, before), DType.I32)
    mantissa, right = inverse_root(build.reduce(build.mul(wide, wide), "add", -1, True))
    # right <= 12: the factor is mantissa * 2^-31 * 2^(7 - right); u8 has all 7 bits more in between
    right = build.add(right, RESULT_BITS) if middle else right
    wide = build.mul(wide, 1 << RESULT_BITS) if middle else wide
    left = build.maximum(build.sub(RESULT_BITS, right), 0)
    right = build.broadcast_to(build.maximum(build.sub(right, RESULT_BITS), 0), wide.shape)
    high = _product(build.apply1("shl", wide, build.broadcast_to(left, wide.shape)), mantissa)
    result = build.minimum(build.maximum(_divided(high, right), -128), 127)
    return build.cast(build.add(result, middle) if middle else result, x.type.dtype)


def inverse_root(x: Node) -> tuple[Node, Node]:
    """A mantissa and a count of bits, both i32: 1 / sqrt(x) is near mantissa * 2^-31 / 2^count."""
    few = build.compare(x, "le", 1)
    large = build.compare(x, "ge", 1 << 29)
    value = build.select(large, build.apply1("shr", x, 2), build.maximum(x, 2))
    shift = build.select(large, build.full(12, x.shape, DType.I32), 11)
    for pairs in (8, 4, 2, 1):
        small = build.compare(value, "lt", 1 << 29 - 2 * pairs)
        raised = build.apply1("shl", build.select(small, value, 0), 2 * pairs)
        value = build.select(small, raised, value)
        shift = build.sub(shift, build.select(small, pairs, 0))
    value = build.apply1("shr", value, 1)
    half = build.apply1("shr", build.add(value, 1), 1)
    root, three_halves = (build.full(n, x.shape, DType.I32) for n in (ONE, ONE + ONE // 2))
    for _ in range(5):
        cube = _raised(_product(_product(root, root), root), 6)
        step = build.sub(_product(three_halves, root), _product(half, cube))
        root = _raised(step, 3)
    root = _product(root, build.full(HALF_ROOT, x.shape, DType.I32))
    less = build.maximum(build.sub(0, shift), 0)
    root = build.apply1("shl", root, less)
    most = build.full((1 << 31) - 1, x.shape, DType.I32)
    return build.select(few, most, root), build.select(few, 0, build.maximum(shift, 0))


def _product(x: Node, y: Node) -> Node:
    """x * y * 2^-31, rounded, halves of negative numbers up as those of positive ones."""
    wide = build.mul(build.cast(x, DType.I64), build.cast(y, DType.I64))
    rounding = build.select(build.compare(wide, "ge", 0), 1 << 30, 1 - (1 << 30))
    return build.cast(build.div(build.add(wide, rounding), 1 << 31), DType.I32)


def _raised(x: Node, bits: int) -> Node:
    """x * 2^bits, saturated."""
    wide = build.apply1("shl", build.cast(x, DType.I64), bits)
    low, high = -(1 << 31), (1 << 31) - 1
    return build.cast(build.minimum(build.maximum(wide, low), high), DType.I32)


def _divided(x: Node, bits: Node) -> Node:
    """Integers i32 over powers of two, halves away from zero."""
    last = build.minimum(bits, 1)
    below = build.apply1("and", build.apply1("shr", x, 31), build.sub(0, last))
    kept = build.apply1("shr", build.add(x, below), build.maximum(build.sub(bits, 1), 0))
    return build.apply1("shr", build.add(kept, last), last)
