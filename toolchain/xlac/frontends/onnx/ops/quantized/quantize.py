"""QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear."""

from __future__ import annotations

from xlac.frontends.onnx.file.dtypes import CODED, DTYPES
from xlac.frontends.onnx.file.tensors import type_name
from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.graph.values import Value
from xlac.frontends.onnx.ops.quantized.quantization import (
    centred,
    fitted,
    kind_of,
    quantized,
    saturated,
)
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType


def named(call: OperatorCall, attribute: str) -> DType | str | None:
    """The element type that an attribute names, or the format if it is stored as codes; None where
    it names none.
    """
    number = call.attr(attribute, 0)
    if not number:
        return None
    if number in CODED:
        return CODED[number][0]
    if number not in DTYPES:
        call.fail(f"{attribute} {type_name(number)} is not supported")
    return DTYPES[number]


@operator("QuantizeLinear", since=10)
def quantize_linear(call: OperatorCall) -> Value:
    """Operator sets 10, 13 (axis), 19 (float8), 21 (blocks, 4 bits), 23 (float4, precision), 25 (2
    bits) and 28.
    """
    x, scale = call[0], call[1]
    zero = None if call.given(2) is None else call.coded(2)
    axis, block = call.attr("axis", 1), call.attr("block_size", 0)
    kind = kind_of(zero) if zero is not None else named(call, "output_dtype") or DType.U8
    precision = call.dtype("precision", x.type.dtype) if call.attr("precision", 0) else x.type.dtype
    if not precision.is_float:
        precision = DType.F32
    divided = build.div(
        *(
            build.cast(n, precision)
            for n in build.unify(build.cast(x, precision), fitted(scale, x, axis, block))
        )
    )
    if isinstance(zero, Node):
        zero = fitted(zero, x, axis, block)
    elif zero is not None:
        zero = type(zero)(fitted(zero.node, x, axis, block), zero.format)
    return quantized(build.compute(divided), zero, kind, bool(call.attr("saturate", 1)))


@operator("DequantizeLinear", since=10)
def dequantize_linear(call: OperatorCall) -> Node:
    """Operator sets 10, 13 (axis), 19 (float8), 21 (blocks, 4 bits), 23 (float4, output_dtype), 25
    (2 bits) and 28.
    """
    x, scale = call.coded(0), call[1]
    zero = None if call.given(2) is None else call.coded(2)
    axis, block = call.attr("axis", 1), call.attr("block_size", 0)
    whole = centred(x, zero, axis, block)
    scaled = build.mul(
        build.cast(whole, scale.type.dtype.compute),
        build.compute(fitted(scale, whole, axis, block)),
    )
    return build.cast(
        scaled,
        call.dtype("output_dtype", scale.type.dtype)
        if call.attr("output_dtype", 0)
        else scale.type.dtype,
    )


@operator("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(call: OperatorCall) -> tuple[Value, ...]:
    """Operator set 11: u8, with the scale and zero point that fit the range of x and 0."""
    x = call[0]
    high = build.maximum(build.reduce(x, "max"), 0.0)
    low = build.minimum(build.reduce(x, "min"), 0.0)
    spread = build.sub(high, low)
    scale = build.select(
        build.compare(spread, "eq", 0.0), build.like(1.0, spread), build.div(spread, 255.0)
    )
    middle = build.sub(0.0, build.div(low, scale))
    zero = build.apply1("round", build.minimum(build.maximum(middle, 0.0), 255.0))
    return saturated(build.div(x, scale), zero, DType.U8), scale, build.cast(zero, DType.U8)
