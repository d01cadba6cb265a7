"""Products of quantized tensors: QLinearMatMul, QLinearConv and ConvInteger. Sums are exact in
i32.
"""

from __future__ import annotations

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.graph.values import Value
from xlac.frontends.onnx.ops.nn.convolution import convolved
from xlac.frontends.onnx.ops.nn.geometry import kernel_of, windows
from xlac.frontends.onnx.ops.quantized.quantization import Tensor, centred, kind_of, quantized
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac_sdk.dtypes import DType


def optional(call: OperatorCall, number: int) -> Tensor | None:
    """An optional quantized operand."""
    return None if call.given(number) is None else call.coded(number)


def product(a: Node, b: Node) -> Node:
    """The matrix product of zero-centred integers in i32, or of floats."""
    wide = DType.I32 if not a.type.dtype.is_float and a.type.dtype.bits < 32 else a.type.dtype
    if a.type.rank == 2 and b.type.rank == 2:
        return build.dot(a, b, ((1,), (0,)), out_dtype=wide)
    return build.apply1("matmul", build.cast(a, wide), build.cast(b, wide))


def along(x: Node, axis: int) -> Node:
    """A scalar, or a vector along an axis counted from the end."""
    if x.type.size == 1:
        return build.reshape(x, ())
    if x.type.rank != 1:
        return x
    return build.reshape(x, (x.shape[0], *[1] * (-axis - 1)))


@operator("QLinearMatMul", since=10)
def qlinear_matmul(call: OperatorCall) -> Value:
    """Operator sets 10 and 21 (float8): the sums times a_scale * b_scale / y_scale, rounded to
    nearest even.
    """
    a, b = call.coded(0), call.coded(3)
    a_scale, b_scale, y_scale = (build.cast(call[n], DType.F32) for n in (1, 4, 6))
    left, right = centred(a, optional(call, 2), -2), centred(b, optional(call, 5), -1)
    sums = build.cast(product(left, right), DType.F32)
    factor = build.div(
        build.mul(along(a_scale, -2), along(b_scale, -1)), build.reshape(y_scale, ())
    )
    zero = optional(call, 7)
    return quantized(build.mul(sums, factor), zero, kind_of(a if zero is None else zero))


@operator("ConvInteger", since=10)
def conv_integer(call: OperatorCall) -> Node:
    """Operator set 10."""
    x, weight = call[0], call[1]
    return _convolved(call, x, weight, call.get(2), call.get(3))


def _convolved(
    call: OperatorCall, x: Node, weight: Node, x_zero: Node | None, w_zero: Node | None
) -> Node:
    """The convolution of zero-centred integers in i32. Padding has the value of the zero point,
    which is 0 after centring.
    """
    rank = x.type.rank - 2
    if weight.type.rank != rank + 2:
        raise ShapeError(
            f"a weight for {x.type} has its rank, not that of {weight.type}", operand=1
        )
    at = windows(call, x.shape[2:], kernel_of(call, weight))
    return convolved(
        centred(x, x_zero, 1), centred(weight, w_zero, 0), at, call.attr("group", 1), DType.I32
    )


@operator("QLinearConv", since=10)
def qlinear_conv(call: OperatorCall) -> Value:
    """Operator set 10: the sums plus the bias, times x_scale * w_scale / y_scale, rounded to
    nearest even.
    """
    x, weight, zero = call[0], call[3], call.get(7)
    sums = _convolved(call, x, weight, call.get(2), call.get(5))
    bias = call.get(8)
    if bias is not None:
        sums = build.add(sums, build.along(bias, 1, sums.type.rank, sums.shape))
    x_scale, w_scale, y_scale = (call[n] for n in (1, 4, 6))
    factor = build.div(
        build.mul(build.reshape(x_scale, ()), along(w_scale, -(sums.type.rank - 1))),
        build.reshape(y_scale, ()),
    )
    return quantized(
        build.mul(build.cast(sums, DType.F32), factor), zero, kind_of(x if zero is None else zero)
    )
