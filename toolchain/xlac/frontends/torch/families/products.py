"""Matrix products."""

from __future__ import annotations

from xlac.frontends.torch.table import Call, Scalar, aten
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType


def product(x: Node, y: Node, out: DType | None = None) -> Node:
    """x y for matrices, or for stacks of them with one leading axis."""
    batch = ((0,), (0,)) if x.type.rank == 3 else ((), ())
    wide = x.type.dtype is DType.BOOL
    a, b = (build.cast(v, DType.U8) if wide else v for v in (x, y))
    return build.dot(a, b, ((x.type.rank - 1,), (y.type.rank - 2,)), batch, out)


@aten("mm", "bmm")
def mm(call: Call, x: Node, y: Node) -> Node:
    return build.cast(product(x, y), call.dtype)


@aten("addmm", "baddbmm")
def addmm(call: Call, x: Node, y: Node, z: Node, beta: Scalar = 1, alpha: Scalar = 1) -> Node:
    """beta x + alpha y z; a beta of 0 leaves x out, whatever it holds."""
    dtype = call.dtype.compute
    found = product(y, z, dtype)
    if alpha != 1:
        found = build.mul(found, call.node(alpha, dtype))
    if beta != 0:
        base = call.filled(x, dtype)
        found = build.add(found, base if beta == 1 else build.mul(base, call.node(beta, dtype)))
    return build.cast(found, call.dtype)


@aten("addmv")
def addmv(call: Call, x: Node, matrix: Node, vector: Node, beta: Scalar = 1, alpha: Scalar = 1) -> Node:
    column = build.reshape(vector, (*vector.shape, 1))
    found = build.reshape(product(matrix, column, call.dtype.compute), call.shape)
    found = found if alpha == 1 else build.mul(found, call.node(alpha, found.type.dtype))
    if beta != 0:
        found = build.add(found, build.mul(call.filled(x, found.type.dtype), call.node(beta, found.type.dtype)))
    return build.cast(found, call.dtype)


@aten("mv")
def mv(call: Call, matrix: Node, vector: Node) -> Node:
    return build.dot(matrix, vector, ((1,), (0,)))


@aten("dot", "vdot")
def dot(call: Call, x: Node, y: Node) -> Node:
    return build.dot(x, y, ((0,), (0,)))


@aten("linear")
def linear(call: Call, x: Node, weight: Node, bias: Node | None = None) -> Node:
    dtype = call.dtype.compute
    found = build.dot(x, weight, ((x.type.rank - 1,), (weight.type.rank - 1,)), ((), ()), dtype)
    if bias is not None:
        found = build.add(found, build.compute(bias))
    return build.cast(found, call.dtype)


@aten("matmul")
def matmul(call: Call, x: Node, y: Node) -> Node:
    return build.apply1("matmul", x, y)
