"""Cast and CastLike (ONNX operator sets 1 to 25), including types stored as codes."""

from __future__ import annotations

import numpy as np

from xlac.frontends.onnx.file.dtypes import CODED, DTYPES
from xlac.frontends.onnx.file.messages import messages
from xlac.frontends.onnx.file.tensors import type_name
from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.graph.values import Coded, Value
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac_sdk.dtypes import DType

MINIFLOATS = {
    "float8e4m3fn": "f8e4m3fn",
    "float8e4m3fnuz": "f8e4m3fnuz",
    "float8e5m2": "f8e5m2",
    "float8e5m2fnuz": "f8e5m2fnuz",
    "float4e2m1": "f4e2m1fn",
    "float8e8m0": "f8e8m0fnu",
}
"""ONNX's names of minifloats stored as codes, and xlac's."""

WHOLE = {"uint4": (4, False), "int4": (4, True), "uint2": (2, False), "int2": (2, True)}
"""Integers stored as codes: width in bits, and whether they are signed."""


def decoded(value: Node | Coded, dtype: DType = DType.F32) -> Node:
    """The numbers of a tensor of codes: integers as u8 or i8, minifloats as `dtype`."""
    if not isinstance(value, Coded):
        return value
    if value.format in WHOLE:
        return value.node
    return build.apply1("decode_float", value.node, format=MINIFLOATS[value.format], dtype=dtype)


def encoded(x: Node, format: str, saturate: bool = True, rounding: str = "up") -> Coded:
    """Numbers encoded in a format; integers keep their low bits."""
    if format == "float8e8m0":
        return Coded(exponents(build.cast(x, DType.F32), saturate, rounding), format)
    if format in MINIFLOATS:
        wide = x if x.type.dtype in (DType.F32, DType.F64) else build.cast(x, DType.F32)
        code = build.apply1(
            "encode_float",
            wide,
            format=MINIFLOATS[format],
            saturate=saturate or format == "float4e2m1",
        )
        return Coded(code, format)
    return Coded(wrapped(x, *WHOLE[format]), format)


def exponents(x: Node, saturate: bool, rounding: str) -> Node:
    """The exponent codes (float8e8m0) of f32 magnitudes, as ONNX rounds them; 0 becomes the
    smallest, infinity NaN.
    """
    if rounding not in ("up", "down", "nearest"):
        raise ShapeError(
            f"round_mode '{rounding}' is not up, down or nearest", attribute="round_mode"
        )

    def number(value: int) -> Node:
        return build.constant(value, DType.U32)

    bits = build.apply1("bitcast", x, dtype=DType.U32)
    exponent = build.apply1("and", build.apply1("shr", bits, number(23)), number(255))
    fraction = build.apply1("and", bits, number((1 << 23) - 1))
    half = number(1 << 22)
    match rounding:
        case "up":
            more = build.compare(fraction, "gt", number(0))
        case "nearest":  # a tie rounds up, except to the smallest normal number
            normal = build.compare(exponent, "gt", number(0))
            tie = build.apply1("and", build.compare(fraction, "eq", half), normal)
            more = build.apply1("or", build.compare(fraction, "gt", half), tie)
        case _:
            more = build.full(False, x.shape, DType.BOOL)
    more = build.apply1(
        "and", more, build.compare(exponent, "lt", number(254 if saturate else 255))
    )
    return build.cast(build.add(exponent, build.cast(more, DType.U32)), DType.U8)


def wrapped(x: Node, bits: int, signed: bool) -> Node:
    """The low bits of integers, sign-extended in i8 or zero-extended in u8."""
    if x.type.dtype.is_float:
        x = build.cast(x, DType.I32)
    code = build.cast(x, DType.I8 if signed else DType.U8)
    spare = build.constant(np.asarray(8 - bits, code.type.dtype.numpy))
    return build.apply1("shr", build.apply1("shl", code, spare), spare)


def converted(value: Node | Coded, number: int, saturate: bool, rounding: str) -> Value:
    """A tensor cast to an element type given by its number in TensorProto.DataType."""
    if number in CODED:
        format = CODED[number][0]
        if isinstance(value, Coded) and value.format == format:
            return value
        return encoded(decoded(value), format, saturate, rounding)
    if number not in DTYPES:
        raise ShapeError(f"cannot cast to {type_name(number)}")
    dtype = DTYPES[number]
    exact = DType.F64 if dtype is DType.F64 else DType.F32
    return build.cast(decoded(value, exact), dtype)


@operator("Cast", elementwise=True)
def cast(call: OperatorCall) -> Value:
    """Conversion as ONNX has it: with `saturate` narrow floats stop at their limits."""
    to = call.attr("to")
    if isinstance(to, str):  # until operator set 6 the type has a name
        to = messages().TensorProto.DataType.Value(to)
    return converted(
        call.coded(0), to, bool(call.attr("saturate", 1)), call.attr("round_mode", "up")
    )


@operator("CastLike", since=15)
def cast_like(call: OperatorCall) -> Value:
    """Cast to the type of the second input."""
    like = call.coded(1)
    if isinstance(like, Coded):
        number = next(n for n, (format, _) in CODED.items() if format == like.format)
    else:
        number = next(n for n, dtype in DTYPES.items() if dtype is like.type.dtype)
    return converted(
        call.coded(0), number, bool(call.attr("saturate", 1)), call.attr("round_mode", "up")
    )
