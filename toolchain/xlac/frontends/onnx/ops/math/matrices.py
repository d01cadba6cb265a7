"""Products of matrices: MatMul, Gemm, Einsum, MatMulInteger, Det (ONNX operator sets 1 to 26)."""

from __future__ import annotations

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType


@operator("MatMul")
def matmul(call: OperatorCall) -> Node:
    """NumPy's matmul."""
    return build.apply1("matmul", call[0], call[1])


@operator("Gemm")
def gemm(call: OperatorCall) -> Node:
    """alpha op(A) op(B) + beta C, with C broadcast."""
    a, b, c = call[0], call[1], call.get(2)
    dtype = a.type.dtype
    if a.type.rank != 2 or b.type.rank != 2:
        call.fail(f"A and B are matrices, got {a.type} and {b.type}")
    product = build.dot(
        a, b, ((0,) if call.attr("transA", 0) else (1,), (1,) if call.attr("transB", 0) else (0,))
    )
    product = scaled(product, call.attr("alpha", 1.0))
    if c is None or call.attr("beta", 1.0) == 0:
        return product
    return build.cast(build.add(product, scaled(c, call.attr("beta", 1.0))), dtype)


def scaled(x: Node, factor: float) -> Node:
    """x times a number; integers are multiplied in f64 if the number is fractional."""
    if factor == 1:
        return x
    if x.type.dtype.is_float or factor == int(factor):
        return build.mul(x, build.constant(factor, x.type.dtype))
    return build.cast(
        build.mul(build.cast(x, DType.F64), build.constant(factor, DType.F64)), x.type.dtype
    )


@operator("Einsum", since=12)
def einsum(call: OperatorCall) -> Node:
    """ONNX's equations have the meaning of xlac's."""
    return build.apply1("einsum", *call, equation=call.attr("equation"))


@operator("MatMulInteger", since=10)
def matmul_integer(call: OperatorCall) -> Node:
    """The exact product of 8-bit matrices as i32, with the zero points subtracted."""
    a = unbiased(call[0], call.get(2), -2)
    b = unbiased(call[1], call.get(3), -1)
    return build.apply1("matmul", a, b)


def unbiased(x: Node, zero: Node | None, axis: int) -> Node:
    """x as i32 minus its zero point: a scalar, or one for each row (axis -2) or column (axis
    -1).
    """
    wide = build.cast(x, DType.I32)
    if zero is None:
        return wide
    zero = build.cast(zero, DType.I32)
    if axis == -2 and zero.type.rank == 1 and x.type.rank > 1:
        zero = build.reshape(zero, [*zero.shape, 1])
    return build.sub(wide, zero)


@operator("Det", since=11)
def determinant(call: OperatorCall) -> Node:
    """det, of halves in f32."""
    x = call[0]
    n = x.shape[-1] if x.type.rank > 1 else None
    if not isinstance(n, int) or x.shape[-2] != n or not x.type.dtype.is_float:
        call.fail(f"takes square matrices of known size, got {x.type}")
    return build.cast(build.apply1("det", build.compute(x)), x.type.dtype)
