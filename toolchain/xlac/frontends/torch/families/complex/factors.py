"""Triangular and orthogonal factors of complex matrices, and what they solve."""

from __future__ import annotations

from xlac.frontends.torch.complex_tensors import ComplexTensor, aten_complex
from xlac.frontends.torch.errors import NotExpressible
from xlac.frontends.torch.families.math.linear_algebra import report
from xlac.frontends.torch.table import AtenCall
from xlac.ir.dims import Shape
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.complex.linalg import systems
from xlac.ops.complex.linalg.numbers import (
    Numbers,
    adjoint,
    conjugate,
    cut,
    diagonal,
    each,
    rank,
    real,
    sizes,
    swapped,
)
from xlac.ops.complex.linalg.systems import solved
from xlac.ops.complex.parts import both
from xlac.ops.linalg.lu import permutation_of
from xlac.ops.linalg.matrices import on_diagonal


def tensor(parts: Numbers) -> ComplexTensor:
    """Parts as a complex tensor."""
    a, b = parts
    return ComplexTensor(a, b)


def spread(x: Numbers, shape: Shape) -> Numbers:
    """Parts broadcast to a shape."""
    return each(lambda part: build.broadcast_to(part, shape), x)


def together(a: Numbers, b: Numbers) -> tuple[Numbers, Numbers]:
    """Matrices with the batch of both."""
    outer = build.broadcast_shapes([a[0].shape[:-2], b[0].shape[:-2]])
    one, two = (spread(v, (*outer, *v[0].shape[-2:])) for v in (a, b))
    return one, two


def empty(call: AtenCall, number: int) -> ComplexTensor:
    """The tensor of no elements that stands for a result that is not wanted."""
    nothing = call.filled_as(number, 0)
    return ComplexTensor(nothing, nothing)


# ---- Cholesky


@aten_complex("linalg_cholesky_ex")
def cholesky_ex(
    call: AtenCall, self: ComplexTensor, upper: bool = False, check_errors: bool = False
) -> tuple[ComplexTensor, Node]:
    """The triangular factor; NaNs for matrices that are not positive definite, which eager mode
    rejects.
    """
    factor = systems.cholesky(self.parts, not upper)
    along = diagonal(factor)[0]
    return tensor(factor), report(build.compare(along, "ne", along))


@aten_complex("cholesky")
def cholesky(call: AtenCall, self: ComplexTensor, upper: bool = False) -> ComplexTensor:
    """The triangular factor."""
    return tensor(systems.cholesky(self.parts, not upper))


@aten_complex("cholesky_solve")
def cholesky_solve(
    call: AtenCall, self: ComplexTensor, input2: ComplexTensor, upper: bool = False
) -> ComplexTensor:
    """The solution by a triangular factor."""
    b, factor = together(self.parts, input2.parts)
    return tensor(_by_factor(factor, b, upper))


@aten_complex("cholesky_inverse")
def cholesky_inverse(call: AtenCall, self: ComplexTensor, upper: bool = False) -> ComplexTensor:
    """The inverse of the matrix that has this Cholesky factor."""
    return tensor(_by_factor(self.parts, _identity(self.parts), upper))


def _by_factor(factor: Numbers, b: Numbers, upper: bool) -> Numbers:
    """The X for which the matrix of a Cholesky factor times X is b."""
    low = adjoint(factor) if upper else factor
    half = systems.triangular_solve(low, b, lower=True)
    return systems.triangular_solve(adjoint(low), half, lower=False)


def _identity(like: Numbers) -> Numbers:
    return real(build.cast(on_diagonal(like[0].shape), like[0].type.dtype), like)


# ---- triangular systems


@aten_complex("triangular_solve")
def triangular_solve(
    call: AtenCall,
    self: ComplexTensor,
    A: ComplexTensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> tuple[ComplexTensor, ComplexTensor]:
    """The solution of A X = self, and A."""
    b, a = together(self.parts, A.parts)
    turned, low = (swapped(a), upper) if transpose else (a, not upper)
    solution = systems.triangular_solve(turned, b, lower=low, unit=unitriangular)
    return tensor(solution), tensor(a)


@aten_complex("linalg_solve_triangular")
def solve_triangular(
    call: AtenCall,
    A: ComplexTensor,
    B: ComplexTensor,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> ComplexTensor:
    """The solution of A X = B, or X A = B."""
    a, b = together(A.parts, B.parts)
    return tensor(systems.triangular_solve(a, b, left=left, lower=not upper, unit=unitriangular))


# ---- LU


def factored(a: Numbers, pivot: bool = True) -> tuple[Numbers, Node, Node, Node]:
    """The packed factors, pivots from 0, rows in their order, and LAPACK's report."""
    if not pivot:
        raise NotExpressible("LU without pivoting")
    packed, pivots, order = systems.lu(a)
    count = pivots.shape[-1]
    assert isinstance(count, int)
    square = cut(cut(packed, rank(packed) - 2, 0, count), rank(packed) - 1, 0, count)
    zero = both(*(build.compare(part, "eq", 0.0) for part in diagonal(square)))
    return packed, pivots, order, report(zero)


@aten_complex("linalg_lu_factor_ex")
def lu_factor(
    call: AtenCall, A: ComplexTensor, pivot: bool = True, check_errors: bool = False
) -> tuple[ComplexTensor, Node, Node]:
    """LAPACK's packed factors and pivots, which count from 1."""
    packed, pivots, _, wrong = factored(A.parts, pivot)
    return tensor(packed), build.add(pivots, 1), wrong


@aten_complex("linalg_lu")
def lu(call: AtenCall, A: ComplexTensor, pivot: bool = True) -> tuple[ComplexTensor, ...]:
    """P, L and U with A = P L U."""
    packed, _, order, _ = factored(A.parts, pivot)
    return _unpacked(packed, order)


def _unpacked(packed: Numbers, order: Node) -> tuple[ComplexTensor, ...]:
    """P, L and U, from packed factors and the rows in their order."""
    last, (rows, columns) = rank(packed), sizes(packed)
    count = min(rows, columns)
    low = each(lambda x: build.apply1("tril", x, k=-1), cut(packed, last - 1, 0, count))
    one = build.cast(on_diagonal(low[0].shape), low[0].type.dtype)
    low = build.add(low[0], one), low[1]
    square = (*packed[0].shape[:-1], rows)
    places = build.back(order, square, (last - 2,))
    exchange = build.compare(build.iota(square, last - 2), "eq", places)
    high = each(lambda x: build.apply1("triu", x), cut(packed, last - 2, 0, count))
    exchange = build.cast(exchange, packed[0].type.dtype)
    return tensor(real(exchange, packed)), tensor(low), tensor(high)


@aten_complex("lu_unpack")
def lu_unpack(
    call: AtenCall,
    LU_data: ComplexTensor,
    LU_pivots: Node,
    unpack_data: bool = True,
    unpack_pivots: bool = True,
) -> tuple[ComplexTensor, ...]:
    """P, L and U with A = P L U, or empty tensors for those that are not asked for."""
    order = permutation_of(build.sub(LU_pivots, 1), LU_data.shape[-2])
    parts = _unpacked(LU_data.parts, order)
    asked = (unpack_pivots, unpack_data, unpack_data)
    return tuple(
        part if wanted else empty(call, number)
        for number, (part, wanted) in enumerate(zip(parts, asked, strict=True))
    )


@aten_complex("linalg_lu_solve")
def lu_solve(
    call: AtenCall,
    LU: ComplexTensor,
    pivots: Node,
    B: ComplexTensor,
    left: bool = True,
    adjoint: bool = False,
) -> ComplexTensor:
    """The X for which A X = B, or X A = B, from A's factors."""
    packed, b = together(LU.parts, B.parts)
    order = permutation_of(build.sub(pivots, 1), LU.shape[-2])
    order = build.broadcast_to(order, packed[0].shape[:-1])
    if left:
        return tensor(solved(packed, order, b, "H" if adjoint else "N"))
    if adjoint:  # X A* = B is conj(A) X' = B'
        return tensor(swapped(solved(conjugate(packed), order, swapped(b), "N")))
    return tensor(swapped(solved(packed, order, swapped(b), "T")))


@aten_complex("_linalg_solve_ex")
def solve(
    call: AtenCall,
    A: ComplexTensor,
    B: ComplexTensor,
    left: bool = True,
    check_errors: bool = False,
) -> tuple[ComplexTensor, ComplexTensor, Node, Node]:
    """The X for which A X = B, or X A = B; B may be vectors. A singular A, which eager mode
    rejects, gives infinities and NaNs. The factors of A are for the derivative.
    """
    vector = len(call.shape) == 1 or B.shape == A.shape[:-1]
    b = each(lambda x: build.reshape(x, (*x.shape, 1)), B.parts) if vector else B.parts
    packed, pivots, order, wrong = factored(A.parts)
    wide, b = together(packed, b)
    rows = build.broadcast_to(order, wide[0].shape[:-1])
    if left or vector:
        found = solved(wide, rows, b, "N")
    else:
        found = swapped(solved(wide, rows, swapped(b), "T"))
    found = each(lambda x: build.reshape(x, call.shape), found)
    return tensor(found), tensor(packed), build.add(pivots, 1), wrong


@aten_complex("linalg_inv_ex")
def inv(call: AtenCall, A: ComplexTensor, check_errors: bool = False) -> tuple[ComplexTensor, Node]:
    """The inverse; infinities and NaNs for a singular A, which eager mode rejects."""
    packed, _, order, wrong = factored(A.parts)
    return tensor(solved(packed, order, _identity(A.parts), "N")), wrong
