"""Products with quantized weights, of com.microsoft (version 1): MatMulNBits,
DynamicQuantizeMatMul, MatMulIntegerToFloat …
"""

from __future__ import annotations

import numpy as np

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.ops.math.matrices import matmul_integer
from xlac.frontends.onnx.ops.quantized.products import along, optional, product, qlinear_conv
from xlac.frontends.onnx.ops.quantized.quantization import centred
from xlac.frontends.onnx.ops.quantized.quantize import (
    dequantize_linear,
    dynamic_quantize_linear,
    quantize_linear,
)
from xlac.frontends.onnx.registry import MICROSOFT, operator
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError, normal_axis
from xlac.ops import build
from xlac_sdk.dtypes import DType

operator("QuantizeLinear", domain=MICROSOFT)(quantize_linear)
operator("DequantizeLinear", domain=MICROSOFT)(dequantize_linear)
operator("QLinearConv", domain=MICROSOFT)(qlinear_conv)
operator("MatMulInteger16", domain=MICROSOFT)(matmul_integer)


def unpacked(codes: Node, bits: int) -> Node:
    """Unpacks codes of `bits` bits, packed along the last axis with the lowest bits first, to one
    in each u8.
    """
    if bits == 8:
        return codes
    if bits not in (2, 4):
        raise ShapeError(f"codes have 2, 4 or 8 bits, not {bits}")
    each = 8 // bits
    shifts = build.constant(np.arange(each, dtype=np.uint8) * bits)
    wide = build.apply1("shr", build.reshape(codes, (*codes.shape, 1)), shifts)
    low = build.apply1("and", wide, build.constant((1 << bits) - 1, DType.U8))
    return build.reshape(low, (*codes.shape[:-1], codes.shape[-1] * each))


@operator("MatMulNBits", domain=MICROSOFT)
def matmul_nbits(call: OperatorCall) -> Node:
    """x times a matrix (K, N) whose columns consist of blocks of codes, each block with a scale and
    a zero point (default: the middle code).
    """
    x, codes, scales, zeros, bias = call[0], call[1], call[2], call.get(3), call.get(5)
    if call.get(4) is not None:
        call.fail("rows in another order (g_idx) are not supported")
    k, n, bits, block = (
        call.attr("K"),
        call.attr("N"),
        call.attr("bits", 4),
        call.attr("block_size"),
    )
    blocks = -(-k // block)
    flat = unpacked(build.reshape(codes, (n, blocks, block * bits // 8)), bits)
    wide = build.cast(flat, DType.F32)
    if zeros is None:
        middle: build.Value = float(1 << (bits - 1))
    elif zeros.type.dtype.is_float:
        middle = build.reshape(build.cast(zeros, DType.F32), (n, blocks, 1))
    else:
        packed = unpacked(build.reshape(zeros, (n, -(-blocks * bits // 8))), bits)
        middle = build.reshape(
            build.cast(build.cut(packed, 1, 0, blocks), DType.F32), (n, blocks, 1)
        )
    weight = build.mul(
        build.sub(wide, middle), build.reshape(build.cast(scales, DType.F32), (n, blocks, 1))
    )
    matrix = build.cut(build.reshape(weight, (n, blocks * block)), 1, 0, k)
    products = build.dot(build.cast(x, DType.F32), matrix, ((x.type.rank - 1,), (1,)))
    if bias is not None:
        products = build.add(products, build.cast(bias, DType.F32))
    return build.cast(products, x.type.dtype)


def _scaled_product(a: Node, b: Node, scale: Node, bias: Node | None) -> Node:
    scaled = build.mul(build.cast(product(a, b), DType.F32), scale)
    return scaled if bias is None else build.add(scaled, bias)


@operator("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(call: OperatorCall) -> Node:
    """The exact product of 8-bit matrices, scaled to floats by both scales, plus a bias."""
    a, b = centred(call[0], optional(call, 4), -2), centred(call[1], optional(call, 5), -1)
    return _scaled_product(a, b, build.mul(along(call[2], -2), along(call[3], -1)), call.get(6))


@operator("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(call: OperatorCall) -> Node:
    """The same for floats that are first quantized to u8 by their range."""
    codes, scale, zero = dynamic_quantize_linear(call)
    assert isinstance(codes, Node) and isinstance(scale, Node) and isinstance(zero, Node)
    b = centred(call[1], optional(call, 3), -1)
    return _scaled_product(
        centred(codes, zero, -2), b, build.mul(scale, along(call[2], -1)), call.get(4)
    )


@operator("MulInteger", domain=MICROSOFT)
def mul_integer(call: OperatorCall) -> Node:
    """Products of 8-bit integers, less their zero points, as i32."""
    a, b = centred(call[0], optional(call, 1), 0), centred(call[2], optional(call, 3), 0)
    return build.mul(build.cast(a, DType.I32), build.cast(b, DType.I32))


@operator("ReduceSumInteger", domain=MICROSOFT)
def reduce_sum_integer(call: OperatorCall) -> Node:
    """The sum of 8-bit integers, as i32."""
    return build.reduce(
        build.cast(call[0], DType.I32), "add", call.attr("axes"), bool(call.attr("keepdims"))
    )


@operator("GatherBlockQuantized", domain=MICROSOFT)
def gather_block_quantized(call: OperatorCall) -> Node:
    """Gathers rows of a table of codes, which are quantized in blocks along an axis, and
    dequantizes them.
    """
    data, indices, scales, zeros = call.coded(0), call[1], call[2], optional(call, 3)
    block = call.attr("block_size", 128)
    # several codes per byte, along the last axis
    if isinstance(data, Node) and call.attr("bits", 4) != 8:
        data = unpacked(data, call.attr("bits", 4))
        middle = float(1 << (call.attr("bits", 4) - 1))
        zeros = unpacked(zeros, call.attr("bits", 4)) if isinstance(zeros, Node) else None
    else:
        middle = 0.0
    axis = normal_axis(call.attr("quantize_axis", 1), scales.type.rank)
    whole = build.cast(centred(data, zeros, axis, block), DType.F32)
    if zeros is None and middle:
        whole = build.sub(whole, middle)
    wide = build.apply1("repeat", build.cast(scales, DType.F32), repeats=block, axis=axis)
    wide = wide if wide.shape == whole.shape else build.cut(wide, axis, 0, whole.shape[axis])
    table = build.mul(whole, wide)
    spot = normal_axis(call.attr("gather_axis", 0), table.type.rank)
    return build.cast(
        build.take(table, build.from_end(indices, table.shape[spot]), spot), scales.type.dtype
    )
