"""Matrix decompositions and solvers."""

from __future__ import annotations

from typing import Any

from xlac.frontends.torch.errors import NotExpressible
from xlac.frontends.torch.table import AtenCall, aten
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.control.custom_gradient import CustomGradient
from xlac.ops.linalg.eigh import Eigh
from xlac.ops.linalg.householder import HouseholderQr
from xlac.ops.linalg.lu import Lu, permutation_of
from xlac.ops.linalg.matrices import diagonal, swapped
from xlac.ops.linalg.qr import Qr
from xlac.ops.linalg.slogdet import Slogdet
from xlac.ops.linalg.svd import Svd
from xlac.ops.walks import closed
from xlac_sdk.dtypes import DType


def several(op: Any, *inputs: Node) -> tuple[Node, ...]:
    """The results of an operation with several."""
    return build.results(Node.of(op, *inputs))


def symmetric(x: Node) -> Node:
    """x, of which an operation reads one triangle only. PyTorch's gradient of such an x is
    symmetric: half of it in each triangle.
    """
    ct = build.param("ct", x.type.dtype, x.shape)
    back = build.mul(build.add(ct, swapped(ct)), 0.5)
    body = closed("symmetric", [x], [x])
    gradient = closed("symmetric_gradient", [x, x, ct], [back])
    return Node.of(CustomGradient(body, gradient, "symmetric"), x)


def report(wrong: Node) -> Node:
    """0, or the index (from 1) of the first true element along the last axis, as i32."""
    rank, count = wrong.type.rank, wrong.shape[-1]
    assert isinstance(count, int)
    if not count:
        return build.full(0, wrong.shape[:-1], DType.I32)
    number = build.add(build.iota(wrong.shape, rank - 1, DType.I32), 1)
    first = build.reduce(build.select(wrong, number, count + 1), "min", rank - 1)
    return build.select(build.compare(first, "gt", count), 0, first)


def zeros_of(packed: Node, count: int) -> Node:
    """Whether each of the first `count` diagonal elements of U is zero."""
    rank = packed.type.rank
    square = build.cut(build.cut(packed, rank - 2, 0, count), rank - 1, 0, count)
    return build.compare(diagonal(square), "eq", 0.0)


def factored(a: Node, pivot: bool) -> tuple[Node, Node, Node, int]:
    """The results of `lu`, and the number of pivots."""
    if not pivot:
        raise NotExpressible("LU without pivoting")
    packed, pivots, order = several(Lu(), a)
    count = pivots.shape[-1]
    assert isinstance(count, int)
    return packed, pivots, order, count


def lying(call: AtenCall, a: Node) -> Node:
    """A matrix, or its transpose where it lies in row-major order: of which of the two the
    derivatives of determinants read the factors (PyTorch 2.13, `linalg_det_backward`).
    """
    return swapped(a) if call.row_major and 1 in call.used else a


@aten("_linalg_det")
def det(call: AtenCall, A: Node) -> tuple[Node, ...]:
    """The determinant, and factors for the derivative."""
    a = lying(call, A)
    packed, pivots, _, _ = factored(a, True)
    return build.apply1("det", a), packed, build.add(pivots, 1)


@aten("_linalg_slogdet")
def slogdet(call: AtenCall, A: Node) -> tuple[Node, ...]:
    """The sign and the logarithm of the determinant, and factors for the derivative."""
    a = lying(call, A)
    packed, pivots, _, _ = factored(a, True)
    return *several(Slogdet(), a), packed, build.add(pivots, 1)


@aten("_linalg_solve_ex")
def solve(
    call: AtenCall, A: Node, B: Node, left: bool = True, check_errors: bool = False
) -> tuple[Node, ...]:
    """The X for which A X = B, or X A = B; B may be vectors. A singular A, which eager mode
    rejects, gives infinities and NaNs. The factors of A are for the derivative.
    """
    vector = len(call.shape) == 1 or B.shape == A.shape[:-1]
    b = build.reshape(B, (*B.shape, 1)) if vector else B
    outer = build.broadcast_shapes([A.shape[:-2], b.shape[:-2]])
    a, b = (build.broadcast_to(v, (*outer, *v.shape[-2:])) for v in (A, b))
    packed, pivots, order, count = factored(A, True)
    left = left or vector
    b = b if left else swapped(b)
    if 1 in call.used and not left:  # no second factorization, of the transpose
        lu, rows = (
            build.broadcast_to(v, (*outer, *v.shape[A.type.rank - 2 :])) for v in (packed, order)
        )
        solution = build.apply1("lu_solve", lu, rows, b, transpose=True)
    else:
        solution = build.apply1("solve", a if left else swapped(a), b)
    solution = build.reshape(solution if left else swapped(solution), call.shape)
    return solution, packed, build.add(pivots, 1), report(zeros_of(packed, count))


@aten("linalg_inv_ex")
def inv(call: AtenCall, A: Node, check_errors: bool = False) -> tuple[Node, Node]:
    """The inverse; infinities and NaNs for a singular A, which eager mode rejects."""
    packed, _, _, count = factored(A, True)
    return build.apply1("inv", A), report(zeros_of(packed, count))


@aten("linalg_lu_factor_ex")
def lu_factor(
    call: AtenCall, A: Node, pivot: bool = True, check_errors: bool = False
) -> tuple[Node, ...]:
    """LAPACK's packed factors and pivots, which count from 1."""
    packed, pivots, _, count = factored(A, pivot)
    return packed, build.add(pivots, 1), report(zeros_of(packed, count))


@aten("linalg_lu")
def lu(call: AtenCall, A: Node, pivot: bool = True) -> tuple[Node, ...]:
    """P, L and U with A = P L U."""
    packed, _, order, count = factored(A, pivot)
    return unpacked(packed, order, count)


def unpacked(packed: Node, order: Node, count: int) -> tuple[Node, Node, Node]:
    """P, L and U, from packed factors and the row permutation."""
    rank = packed.type.rank
    low = build.cut(packed, rank - 1, 0, count)
    eye = build.apply1("eye", rows=low.shape[-2], columns=count, dtype=low.type.dtype)
    low = build.add(build.apply1("tril", low, k=-1), build.broadcast_to(eye, low.shape))
    square = (*packed.shape[:-1], packed.shape[-2])
    rows = build.back(order, square, (rank - 2,))
    exchange = build.compare(build.iota(square, rank - 2), "eq", rows)
    high = build.apply1("triu", build.cut(packed, rank - 2, 0, count))
    return build.cast(exchange, packed.type.dtype), low, high


@aten("linalg_lu_solve")
def lu_solve(
    call: AtenCall, LU: Node, pivots: Node, B: Node, left: bool = True, adjoint: bool = False
) -> Node:
    """The X for which A X = B, or X A = B, from A's factors."""
    outer = build.broadcast_shapes([LU.shape[:-2], B.shape[:-2]])
    order = permutation_of(build.sub(pivots, 1), LU.shape[-2])
    packed, b = (build.broadcast_to(v, (*outer, *v.shape[-2:])) for v in (LU, B))
    order = build.broadcast_to(order, packed.shape[:-1])
    b = b if left else swapped(b)
    solution = build.apply1("lu_solve", packed, order, b, transpose=adjoint == left)
    return solution if left else swapped(solution)


@aten("linalg_cholesky_ex")
def cholesky_ex(
    call: AtenCall, self: Node, upper: bool = False, check_errors: bool = False
) -> tuple[Node, Node]:
    """The triangular factor; NaNs for matrices that are not positive definite, which eager mode
    rejects.
    """
    factor = build.apply1("cholesky", symmetric(self), lower=not upper)
    along = diagonal(factor)
    return factor, report(build.compare(along, "ne", along))


@aten("cholesky")
def cholesky(call: AtenCall, self: Node, upper: bool = False) -> Node:
    """The triangular factor."""
    return build.apply1("cholesky", symmetric(self), lower=not upper)


@aten("cholesky_solve")
def cholesky_solve(call: AtenCall, self: Node, input2: Node, upper: bool = False) -> Node:
    """The solution by a triangular factor."""
    outer = build.broadcast_shapes([self.shape[:-2], input2.shape[:-2]])
    b, a = (build.broadcast_to(v, (*outer, *v.shape[-2:])) for v in (self, input2))
    half = build.apply1("triangular_solve", a, b, lower=not upper, transpose=upper)
    return build.apply1("triangular_solve", a, half, lower=not upper, transpose=not upper)


@aten("linalg_qr")
def qr(call: AtenCall, A: Node, mode: str = "reduced") -> tuple[Node, ...]:
    """Orthonormal columns and a triangular factor; in mode "r" the former is an empty tensor."""
    q, r = several(Qr(complete=mode == "complete"), A)
    return (q if mode != "r" else call.filled_as(0, 0), r)


@aten("geqrf")
def geqrf(call: AtenCall, self: Node) -> tuple[Node, ...]:
    """Householder reflections that make a matrix triangular."""
    return several(HouseholderQr(), self)


@aten("linalg_householder_product")
def householder_product(call: AtenCall, input: Node, tau: Node) -> Node:
    """The first columns of the product of reflections."""
    return build.apply1("householder_product", input, tau)


@aten("_linalg_eigh")
def eigh(call: AtenCall, A: Node, UPLO: str = "L", compute_v: bool = True) -> tuple[Node, ...]:
    """Eigenvalues, and eigenvectors or an empty tensor."""
    values, vectors = several(Eigh(lower=UPLO.upper() == "L"), symmetric(A))
    return values, vectors if compute_v else call.filled_as(1, 0)


@aten("_linalg_svd")
def svd(
    call: AtenCall,
    A: Node,
    full_matrices: bool = False,
    compute_uv: bool = True,
    driver: str | None = None,
) -> tuple[Node, ...]:
    """Singular values, and vectors or empty tensors."""
    u, s, v = several(Svd(full_matrices=full_matrices and compute_uv), A)
    return (u, s, v) if compute_uv else (call.filled_as(0, 0), s, call.filled_as(2, 0))


@aten("triangular_solve")
def triangular_solve(
    call: AtenCall,
    self: Node,
    A: Node,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> tuple[Node, Node]:
    """The solution of A X = self, and A."""
    outer = build.broadcast_shapes([self.shape[:-2], A.shape[:-2]])
    b, a = (build.broadcast_to(v, (*outer, *v.shape[-2:])) for v in (self, A))
    solution = build.apply1(
        "triangular_solve", a, b, lower=not upper, transpose=transpose, unit=unitriangular
    )
    return solution, a
