"""Functions of matrices that are made of decompositions: pseudo-inverses, exponentials."""

from __future__ import annotations

import numpy as np

from xlac.frontends.torch.families.math.linear_algebra import several, unpacked
from xlac.frontends.torch.table import AtenCall, Scalar, aten
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.control.custom_gradient import CustomGradient
from xlac.ops.linalg.eigh import Eigh
from xlac.ops.linalg.lu import permutation_of
from xlac.ops.linalg.matrices import swapped
from xlac.ops.linalg.svd import Svd
from xlac.ops.walks import closed
from xlac_sdk.dtypes import DType


def product(x: Node, y: Node) -> Node:
    """The product of two stacks of matrices."""
    return build.apply1("matmul", x, y)


@aten("lu_unpack")
def lu_unpack(
    call: AtenCall,
    LU_data: Node,
    LU_pivots: Node,
    unpack_data: bool = True,
    unpack_pivots: bool = True,
) -> tuple[Node, ...]:
    """P, L and U with A = P L U, or empty tensors for those that are not asked for."""
    rows, columns = LU_data.shape[-2:]
    assert isinstance(rows, int) and isinstance(columns, int)
    order = permutation_of(build.sub(LU_pivots, 1), rows)
    parts = unpacked(LU_data, order, min(rows, columns))
    asked = (unpack_pivots, unpack_data, unpack_data)
    return tuple(
        part if wanted else call.filled_as(number, 0)
        for number, (part, wanted) in enumerate(zip(parts, asked, strict=True))
    )


@aten("cholesky_inverse")
def cholesky_inverse(call: AtenCall, self: Node, upper: bool = False) -> Node:
    """The inverse of the matrix that has this Cholesky factor."""
    eye = build.apply1("eye", rows=self.shape[-1], columns=self.shape[-1], dtype=call.dtype)
    right = build.broadcast_to(eye, self.shape)
    half = build.apply1("triangular_solve", self, right, lower=not upper, transpose=upper)
    return build.apply1("triangular_solve", self, half, lower=not upper, transpose=not upper)


@aten("linalg_pinv.atol_rtol_tensor")
def pinv(
    call: AtenCall,
    self: Node,
    atol: Node | None = None,
    rtol: Node | None = None,
    hermitian: bool = False,
) -> Node:
    """The pseudo-inverse: singular values of at most max(atol, rtol times the largest) count as 0.
    `rtol` is the larger extent times the epsilon unless one of the two is given.
    """
    rows, columns = self.shape[-2:]
    assert isinstance(rows, int) and isinstance(columns, int)
    if 0 in self.shape:
        return call.filled(0)
    if hermitian:
        values, right = several(Eigh(), self)
        left = swapped(right)
    else:
        u, values, vh = several(Svd(full_matrices=False), self)
        left, right = swapped(u), swapped(vh)
    inverse = inverses(call, values, max(rows, columns), atol, rtol)
    across = build.reshape(inverse, (*inverse.shape[:-1], 1, inverse.shape[-1]))
    inverse = product(build.mul(right, across), left)
    return with_pinv_gradient(self, inverse) if hermitian else inverse


def inverses(
    call: AtenCall, values: Node, extent: int, atol: Node | None, rtol: Node | None
) -> Node:
    """One over the singular values (or eigenvalues) of matrices, 0 for those that count as 0."""
    size = build.apply1("abs", values)
    largest = build.reduce(size, "max", size.type.rank - 1)
    least: Scalar = float(np.finfo(call.dtype.numpy).eps) * extent
    if rtol is not None:
        least = call.node(rtol, call.dtype)
    elif atol is not None:
        least = build.select(build.compare(atol, "gt", 0.0), 0.0, call.node(least, call.dtype))
    bound = build.mul(largest, call.node(least, call.dtype))
    if atol is not None:
        bound = build.maximum(bound, build.broadcast_to(call.node(atol, call.dtype), bound.shape))
    bound = build.reshape(bound, (*bound.shape, 1))
    kept = build.compare(size, "gt", build.broadcast_to(bound, size.shape))
    return build.select(kept, build.div(1.0, build.select(kept, values, 1.0)), 0.0)


def with_pinv_gradient(a: Node, inverse: Node) -> Node:
    """The pseudo-inverse of symmetric matrices, with PyTorch's gradient: that of any square matrix,
    which is not symmetric.
    """
    ct = build.param("ct", a.type.dtype, a.shape)
    over, turned = swapped(ct), swapped(inverse)
    inner = product(over, inverse)
    outer = product(inner, turned)
    back = build.sub(outer, swapped(product(inverse, inner)))
    back = build.sub(back, product(product(a, inverse), outer))
    rest = build.sub(over, product(inner, a))
    back = build.add(back, product(product(turned, inverse), rest))
    body = closed("pinv", [a], [inverse])
    gradient = closed("pinv_gradient", [a, inverse, ct], [back])
    return Node.of(CustomGradient(body, gradient, "pinv"), a)


@aten("linalg_matrix_exp")
def matrix_exp(call: AtenCall, self: Node) -> Node:
    """The exponential of matrices."""
    a = build.cast(self, DType.F64 if call.dtype is DType.F64 else DType.F32)
    return build.cast(build.apply1("expm", a), call.dtype)
