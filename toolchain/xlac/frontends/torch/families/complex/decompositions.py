"""Determinants, orthogonal factors, and eigenvalues and singular values of complex matrices."""

from __future__ import annotations

from xlac.frontends.torch.complex_tensors import ComplexTensor, aten_complex
from xlac.frontends.torch.families.complex.factors import empty, factored, tensor
from xlac.frontends.torch.families.math.matrix_functions import inverses
from xlac.frontends.torch.table import AtenCall
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.complex import arithmetic
from xlac.ops.complex.linalg import reflections
from xlac.ops.complex.linalg.numbers import (
    Numbers,
    adjoint,
    as_pairs,
    cut,
    diagonal,
    each,
    multiplied,
    of_pairs,
    product,
    rank,
    scaled,
    sizes,
    swapped,
)
from xlac.ops.complex.parts import Parts, hypot
from xlac.ops.linalg.matrix_operation import singular_values, symmetric_eigen


def _multiplied(x: Parts) -> Parts:
    """The product of all numbers along the last axis, which is removed."""
    a, b = multiplied(x, x[0].type.rank - 1)
    return build.reshape(a, a.shape[:-1]), build.reshape(b, b.shape[:-1])


def _lying(call: AtenCall, a: Numbers) -> Numbers:
    """A matrix, or its transpose where it lies in row-major order: of which of the two the
    derivatives of determinants read the factors.
    """
    return swapped(a) if call.row_major and 1 in call.used else a


def _exchanges(pivots: Node, dtype: Node) -> Node:
    """1, or -1 for an odd number of exchanged rows (…)."""
    moved = build.compare(pivots, "ne", build.iota(pivots.shape, pivots.type.rank - 1))
    signs = build.select(moved, build.full(-1.0, pivots.shape, dtype.type.dtype), 1.0)
    return build.reduce(signs, "mul", pivots.type.rank - 1)


@aten_complex("_linalg_det")
def det(call: AtenCall, A: ComplexTensor) -> tuple[ComplexTensor, ComplexTensor, Node]:
    """The determinant, and factors for the derivative."""
    packed, pivots, _, _ = factored(_lying(call, A.parts))
    a, b = _multiplied(_down(packed))
    sign = _exchanges(pivots, a)
    found = ComplexTensor(build.mul(a, sign), build.mul(b, sign))
    return found, tensor(packed), build.add(pivots, 1)


@aten_complex("_linalg_slogdet")
def slogdet(call: AtenCall, A: ComplexTensor) -> tuple[ComplexTensor, Node, ComplexTensor, Node]:
    """The sign and the logarithm of the determinant, and factors for the derivative."""
    packed, pivots, _, _ = factored(_lying(call, A.parts))
    down = _down(packed)
    a, b = _multiplied(arithmetic.sign(down))
    sign = _exchanges(pivots, a)
    logarithm = build.reduce(build.log(hypot(*down)), "add", down[0].type.rank - 1)
    found = ComplexTensor(build.mul(a, sign), build.mul(b, sign))
    return found, logarithm, tensor(packed), build.add(pivots, 1)


def _down(packed: Numbers) -> Parts:
    a, b = diagonal(packed)
    return a, b


@aten_complex("geqrf")
def geqrf(call: AtenCall, self: ComplexTensor) -> tuple[ComplexTensor, ...]:
    """Householder reflections that make a matrix triangular."""
    return tuple(tensor(parts) for parts in reflections.qr(self.parts))


@aten_complex("linalg_householder_product")
def householder_product(call: AtenCall, input: ComplexTensor, tau: ComplexTensor) -> ComplexTensor:
    """The first columns of the product of reflections."""
    return tensor(reflections.householder_product(input.parts, tau.parts))


@aten_complex("linalg_qr")
def qr(call: AtenCall, A: ComplexTensor, mode: str = "reduced") -> tuple[ComplexTensor, ...]:
    """Orthonormal columns and a triangular factor; in mode "r" the former is an empty tensor."""
    (rows, columns), last = sizes(A.parts), rank(A.parts)
    packed, taus = reflections.qr(A.parts)
    count = rows if mode == "complete" else min(rows, columns)
    high = each(lambda x: build.apply1("triu", x), cut(packed, last - 2, 0, min(count, rows)))
    if mode == "r":
        return empty(call, 0), tensor(high)
    low = cut(packed, last - 1, 0, min(count, columns))
    if count > columns:  # columns without a reflection
        wide = [*[0] * (last - 1), count - columns]
        low = each(lambda x: build.pad(x, 0.0, [0] * last, wide), low)
    return tensor(reflections.householder_product(low, taus)), tensor(high)


@aten_complex("_linalg_eigh")
def eigh(
    call: AtenCall, A: ComplexTensor, UPLO: str = "L", compute_v: bool = True
) -> tuple[Node, ComplexTensor]:
    """Eigenvalues, and eigenvectors or an empty tensor."""
    values, vectors = symmetric_eigen(A.parts, UPLO.upper() == "L")
    return values, tensor(vectors) if compute_v else empty(call, 1)


@aten_complex("_linalg_svd")
def svd(
    call: AtenCall,
    A: ComplexTensor,
    full_matrices: bool = False,
    compute_uv: bool = True,
    driver: str | None = None,
) -> tuple[ComplexTensor, Node, ComplexTensor]:
    """Singular values, and vectors or empty tensors."""
    u, s, v = singular_values(A.parts, full_matrices and compute_uv)
    return (tensor(u), s, tensor(v)) if compute_uv else (empty(call, 0), s, empty(call, 2))


@aten_complex("linalg_pinv.atol_rtol_tensor")
def pinv(
    call: AtenCall,
    self: ComplexTensor,
    atol: Node | None = None,
    rtol: Node | None = None,
    hermitian: bool = False,
) -> ComplexTensor:
    """The pseudo-inverse, as for real matrices."""
    rows, columns = sizes(self.parts)
    if 0 in self.shape:
        return empty(call, 0)
    if hermitian:
        values, right = symmetric_eigen(self.parts, True)
        left = adjoint(right)
    else:
        u, values, vh = singular_values(self.parts, False)
        left, right = adjoint(u), adjoint(vh)
    inverse = inverses(call, values, max(rows, columns), atol, rtol)
    across = build.reshape(inverse, (*inverse.shape[:-1], 1, inverse.shape[-1]))
    return tensor(product(scaled(right, across), left))


@aten_complex("linalg_matrix_exp")
def matrix_exp(call: AtenCall, self: ComplexTensor) -> ComplexTensor:
    """The exponential of matrices."""
    a, b = of_pairs(build.apply1("expm", as_pairs(self.parts), complex=True))
    return ComplexTensor(a, b)
