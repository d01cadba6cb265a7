"""Matrix products."""

from __future__ import annotations

import math

import numpy as np

from xlac.frontends.torch.errors import NotExpressible
from xlac.frontends.torch.table import AtenCall, Scalar, aten
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
def mm(call: AtenCall, x: Node, y: Node) -> Node:
    """The product of matrices, or of batches of them."""
    return build.cast(product(x, y), call.dtype)


@aten("addmm", "baddbmm")
def addmm(call: AtenCall, x: Node, y: Node, z: Node, beta: Scalar = 1, alpha: Scalar = 1) -> Node:
    """beta x + alpha y z; with beta 0 x is not read, so its NaNs do not propagate."""
    dtype = call.dtype.compute
    products = product(y, z, dtype)
    if alpha != 1:
        products = build.mul(products, call.node(alpha, dtype))
    if beta != 0:
        base = call.filled(x, dtype)
        products = build.add(
            products, base if beta == 1 else build.mul(base, call.node(beta, dtype))
        )
    return build.cast(products, call.dtype)


@aten("addmv")
def addmv(
    call: AtenCall, x: Node, matrix: Node, vector: Node, beta: Scalar = 1, alpha: Scalar = 1
) -> Node:
    """beta x + alpha (matrix vector); with beta 0 x is not read, so its NaNs do not propagate."""
    column = build.reshape(vector, (*vector.shape, 1))
    products = build.reshape(product(matrix, column, call.dtype.compute), call.shape)
    products = (
        products if alpha == 1 else build.mul(products, call.node(alpha, products.type.dtype))
    )
    if beta != 0:
        products = build.add(
            products,
            build.mul(call.filled(x, products.type.dtype), call.node(beta, products.type.dtype)),
        )
    return build.cast(products, call.dtype)


@aten("mv")
def mv(call: AtenCall, matrix: Node, vector: Node) -> Node:
    """The product of a matrix and a vector."""
    return build.dot(matrix, vector, ((1,), (0,)))


@aten("dot", "vdot")
def dot(call: AtenCall, x: Node, y: Node) -> Node:
    """The inner product of two real vectors, also for `vdot`."""
    return build.dot(x, y, ((0,), (0,)))


@aten("linear")
def linear(call: AtenCall, x: Node, weight: Node, bias: Node | None = None) -> Node:
    """x times the transpose of the weight (out, in), plus the bias, with one rounding."""
    dtype = call.dtype.compute
    products = build.dot(x, weight, ((x.type.rank - 1,), (weight.type.rank - 1,)), ((), ()), dtype)
    if bias is not None:
        products = build.add(products, build.compute(bias))
    return build.cast(products, call.dtype)


@aten("matmul")
def matmul(call: AtenCall, x: Node, y: Node) -> Node:
    """The product by NumPy's rules: vectors, matrices, and batches that broadcast."""
    return build.apply1("matmul", x, y)


@aten("addbmm")
def addbmm(call: AtenCall, x: Node, y: Node, z: Node, beta: Scalar = 1, alpha: Scalar = 1) -> Node:
    """beta x + alpha times the sum of a batch of products."""
    dtype = call.dtype.compute
    products = build.dot(y, z, ((0, 2), (0, 1)), ((), ()), dtype)
    products = products if alpha == 1 else build.mul(products, call.node(alpha, dtype))
    if beta != 0:
        products = build.add(products, build.mul(call.filled(x, dtype), call.node(beta, dtype)))
    return build.cast(products, call.dtype)


@aten("_trilinear")
def trilinear(
    call: AtenCall,
    x: Node,
    y: Node,
    z: Node,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int = 1,
) -> Node:
    """The product of three tensors, each expanded by new axes first, summed over some axes."""
    parts = []
    for node, axes in zip((x, y, z), (expand1, expand2, expand3), strict=True):
        parts.append(
            build.apply1("unsqueeze", build.compute(node), axis=axes)
            if axes
            else build.compute(node)
        )
    total = build.mul(build.mul(parts[0], parts[1]), parts[2])
    return build.cast(build.reduce(total, "add", sumdim), call.dtype)


@aten("_cdist_forward")
def cdist(call: AtenCall, x: Node, y: Node, p: float, compute_mode: int | None = None) -> Node:
    """Distances between all rows of x and all rows of y, in the p-norm."""
    gap = build.sub(
        build.reshape(x, (*x.shape[:-1], 1, x.shape[-1])),
        build.reshape(y, (*y.shape[:-2], 1, *y.shape[-2:])),
    )
    return build.broadcast_to(_length(gap, float(p)), call.shape)


@aten("_pdist_forward")
def pdist(call: AtenCall, x: Node, p: float = 2) -> Node:
    """Distances between all pairs of rows, in the order (0, 1), (0, 2), …."""
    rows, _ = x.shape
    if not isinstance(rows, int):
        raise NotExpressible(f"pairs among {rows} rows")
    first, second = (build.constant(part.astype(np.int64)) for part in np.triu_indices(rows, 1))
    if not call.shape[0]:
        return build.full(0, call.shape, call.dtype)
    return _length(build.sub(build.take(x, first, 0), build.take(x, second, 0)), float(p))


@aten("linalg_solve_triangular")
def solve_triangular(
    call: AtenCall, a: Node, b: Node, upper: bool, left: bool = True, unitriangular: bool = False
) -> Node:
    """The solution X of a X = b, or of X a = b if not `left`; batches broadcast."""
    outer = build.broadcast_shapes([a.shape[:-2], b.shape[:-2]])
    a, b = (build.broadcast_to(v, (*outer, *v.shape[-2:])) for v in (a, b))
    return build.apply1("triangular_solve", a, b, left=left, lower=not upper, unit=unitriangular)


def _length(gap: Node, p: float) -> Node:
    size, axis = build.apply1("abs", gap), gap.type.rank - 1
    if p == 0:
        return build.reduce(build.cast(build.compare(size, "ne", 0), gap.type.dtype), "add", axis)
    if p == math.inf:
        return (
            build.reduce(build.maximum(size, 0.0), "max", axis)
            if gap.shape[-1] != 0
            else build.reduce(size, "add", axis)
        )
    if p == 1:
        return build.reduce(size, "add", axis)
    if p == 2:
        return build.sqrt(build.reduce(build.mul(gap, gap), "add", axis))
    return build.apply1("pow", build.reduce(build.apply1("pow", size, p), "add", axis), 1 / p)
