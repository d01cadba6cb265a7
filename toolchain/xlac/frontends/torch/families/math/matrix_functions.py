"""Functions of matrices that are made of decompositions: pseudo-inverses, exponentials."""

from __future__ import annotations

import numpy as np

from xlac.frontends.torch.families.math.linear_algebra import several, unpacked
from xlac.frontends.torch.table import AtenCall, Scalar, aten
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.control.control import While
from xlac.ops.control.custom_gradient import CustomGradient
from xlac.ops.linalg.eigh import Eigh
from xlac.ops.linalg.lu import permutation_of
from xlac.ops.linalg.matrices import part, swapped
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


PADE = {
    DType.F32: (3.925724783138660, (17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1)),
    DType.F64: (
        5.371920351148152,
        (
            64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800,
            129060195264000, 10559470521600, 670442572800, 33522128640, 1323241920, 40840800,
            960960, 16380, 182, 1,
        ),
    ),
}  # fmt: skip
"""Diagonal Padé approximants of exp: the largest 1-norm for which one is exact to rounding, and the
coefficients of its numerator (Higham, The scaling and squaring method for the matrix exponential
revisited, 2005, table 2.3 and (2.3)).
"""


@aten("linalg_matrix_exp")
def matrix_exp(call: AtenCall, self: Node) -> Node:
    """The exponential of matrices; its gradient at a, from ct, is the upper right block of the
    exponential of [[aᵀ, ct], [0, aᵀ]] (Al-Mohy and Higham, Computing the Fréchet derivative of the
    matrix exponential, 2009, (1.3)). It has no second derivative.
    """
    if 0 in self.shape:
        return self
    a = build.cast(self, DType.F64 if call.dtype is DType.F64 else DType.F32)
    size = a.shape[-1]
    assert isinstance(size, int)
    ct, turned = build.param("ct", a.type.dtype, a.shape), swapped(a)
    zeros = build.broadcast_to(build.constant(0, a.type.dtype), a.shape)
    upper = build.apply1("concat", turned, ct, axis=-1)
    lower = build.apply1("concat", zeros, turned, axis=-1)
    both = _exponential(build.apply1("concat", upper, lower, axis=-2))
    back = part(both, (0, size), (size, 2 * size))
    result = _exponential(a)
    body = closed("matrix_exp", [a], [result])
    gradient = closed("matrix_exp_gradient", [a, result, ct], [back])
    return build.cast(Node.of(CustomGradient(body, gradient, "matrix_exp"), a), call.dtype)


def _exponential(a: Node) -> Node:
    """A Padé approximant of exp(a / 2^k), squared k times."""
    bound, coefficients = PADE[a.type.dtype]
    norm = build.reduce(build.apply1("abs", a), "add", a.type.rank - 2)
    norm = build.reduce(norm, "max", norm.type.rank - 1)
    count = build.apply1("ceil", build.apply1("log2", build.div(norm, bound)))
    # beyond every finite norm; NaN and infinite matrices are not squared
    usual = build.apply1("and", build.compare(count, "gt", 0.0), build.compare(count, "lt", 1100.0))
    times = build.cast(build.select(usual, count, 0.0), DType.I32)
    scale = build.apply1("exp2", build.apply1("neg", build.cast(times, a.type.dtype)))
    a = build.mul(a, build.reshape(scale, (*scale.shape, 1, 1)))
    return _squared(_pade(a, coefficients), times)


def _pade(a: Node, coefficients: tuple[int, ...]) -> Node:
    """The approximant (V - U)⁻¹ (V + U) of exp(a), with odd powers in U and even ones in V; as
    I + 2 (V - U)⁻¹ U, which rounds only what is not I where a is small.
    """
    eye = build.apply1("eye", rows=a.shape[-1], columns=a.shape[-1], dtype=a.type.dtype)
    powers, square = [build.broadcast_to(eye, a.shape)], product(a, a)
    for _ in range(len(coefficients) // 2 - 1):
        powers.append(product(powers[-1], square) if len(powers) > 1 else square)

    def total(first: int) -> Node:
        terms = [
            build.mul(p, float(c)) for p, c in zip(powers, coefficients[first::2], strict=True)
        ]
        held = terms[-1]  # the smallest terms first
        for term in reversed(terms[:-1]):
            held = build.add(held, term)
        return held

    odd, even = product(a, total(1)), total(0)
    rest = build.apply1("solve", build.sub(even, odd), odd)
    return build.add(powers[0], build.mul(rest, 2.0))


def _squared(x: Node, times: Node) -> Node:
    """Each matrix squared `times` times; one loop for all."""
    most = build.reduce(times, "max", list(range(times.type.rank))) if times.shape else times
    step = build.constant(0, DType.I32)
    types = (step.type, x.type, most.type, times.type)

    def going(at: Node, held: Node, end: Node, each: Node) -> list[Node]:
        return [build.compare(at, "lt", end)]

    def turn(at: Node, held: Node, end: Node, each: Node) -> list[Node]:
        more = build.compare(each, "gt", build.broadcast_to(at, each.shape))
        more = build.broadcast_to(build.reshape(more, (*more.shape, 1, 1)), held.shape)
        return [build.add(at, 1), build.select(more, product(held, held), held), end, each]

    loop = While(build.graph("going", types, going), build.graph("turn", types, turn))
    return build.results(Node.of(loop, step, x, most, times))[1]
