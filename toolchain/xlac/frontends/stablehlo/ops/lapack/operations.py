"""Those of real matrices that are operations of ours."""

from __future__ import annotations

from collections.abc import Callable

from xlac.frontends.stablehlo.custom import CUSTOM_CALLS
from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.text.elements import part_of
from xlac.frontends.stablehlo.text.syntax import TensorType
from xlac.ir.dims import Shape
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.complex.linalg.numbers import Numbers
from xlac.ops.linalg.eigh import Eigh
from xlac.ops.linalg.householder import HouseholderQr
from xlac.ops.linalg.lu import Lu
from xlac.ops.linalg.matrices import diagonal
from xlac.ops.linalg.svd import Svd
from xlac_sdk.dtypes import DType


def potrf(site: OperationSite) -> Built:
    """LAPACK's potrf, as JAX calls it for `cholesky`: the factor in triangle `uplo`, with what a
    has in the other triangle; and i32, 0 or the first row (from 1) where a is not positive
    definite.
    """
    site.takes(1)
    _, report = site.results(2)
    a, lower = site.number(0), letter(site, "uplo", "LU") == "L"
    factor = build.apply1("cholesky", a, lower=lower)
    along = diagonal(factor)
    whole = build.select(in_triangle(a.shape, lower), factor, a)
    return [whole, first_of(build.compare(along, "ne", along), report)]


def trsm(site: OperationSite) -> Built:
    """LAPACK's trsm, as JAX calls it for `triangular_solve`."""
    site.takes(2)
    return build.apply1(
        "triangular_solve",
        site.number(0),
        site.number(1),
        left=letter(site, "side", "LR") == "L",
        lower=letter(site, "uplo", "LU") == "L",
        unit=letter(site, "diag", "UN") == "U",
        transpose=letter(site, "trans_x", "NTC") != "N",
    )


def getrf(site: OperationSite) -> Built:
    """LAPACK's getrf, as JAX calls it for `lu`: the packed factors, the row of each pivot (from 1),
    and i32, 0 or the first column (from 1) where U has a 0 on its diagonal.
    """
    site.takes(1)
    report = site.results(3)[2]
    packed, pivots, _ = build.results(Node.of(Lu(), site.number(0)))
    count, rank = pivots.shape[-1], packed.type.rank
    square = build.cut(build.cut(packed, rank - 2, 0, count), rank - 1, 0, count)
    zeros = build.compare(diagonal(square), "eq", 0.0)
    return [packed, build.add(pivots, 1), first_of(zeros, report)]


def geqrf(site: OperationSite) -> Built:
    """LAPACK's geqrf, as JAX calls it for `qr`: Householder reflections that make a matrix
    triangular.
    """
    site.takes(1)
    site.results(2)
    return build.results(Node.of(HouseholderQr(), site.number(0)))


def orgqr(site: OperationSite) -> Built:
    """LAPACK's orgqr, as JAX calls it for `qr` and `householder_product`: the product of
    reflections.
    """
    site.takes(2)
    return build.apply1("householder_product", site.number(0), site.number(1))


def syevd(site: OperationSite) -> Built:
    """LAPACK's syevd, as JAX calls it for `eigh`: eigenvectors, eigenvalues, and i32, 0, or 1 where
    they were not found (for infinities and NaNs).
    """
    site.takes(1)
    report = site.results(3)[2]
    letter(site, "mode", "NV")
    op = Eigh(lower=letter(site, "uplo", "LU") == "L")
    values, vectors = build.results(Node.of(op, site.number(0)))
    return [vectors, values, unknown(values, report)]


def gesdd(site: OperationSite) -> Built:
    """LAPACK's gesdd, as JAX calls it for `svd`: the overwritten matrix, singular values, vectors,
    and i32, 0, or 1 where they were not found (for infinities and NaNs).
    """
    site.takes(1)
    a = site.number(0)

    def svd(full: bool) -> tuple[Numbers, Node, Numbers]:
        u, s, v = build.results(Node.of(Svd(full_matrices=full), a))
        return (u,), s, (v,)

    (u,), s, (v,), wrong = singular(site, svd)
    return [a, s, u, v, wrong]


def in_triangle(shape: Shape, lower: bool) -> Node:
    """True on the diagonal of matrices and below it, or above it."""
    row, column = (build.iota(shape, len(shape) - k) for k in (2, 1))
    return build.compare(row, "ge" if lower else "le", column)


def singular(
    site: OperationSite, svd: Callable[[bool], tuple[Numbers, Node, Numbers]]
) -> tuple[Numbers, Node, Numbers, Node]:
    """The results of gesdd, from a function that gives U, S and V*, square where it is asked for
    full ones: vectors as its mode wants them, singular values, and the report.
    """
    report, mode = site.results(5)[4], letter(site, "mode", "ASN")
    u, s, v = svd(mode == "A")
    if mode == "N":
        u, v = ((zeros,) * len(u) for zeros in _unwritten(site, s))
    return u, s, v, unknown(s, report)


def _unwritten(site: OperationSite, values: Node) -> list[Node]:
    """Zeros for the vectors of gesdd in mode N, which does not compute them. The text states sizes
    of square matrices or others.
    """
    zeros = []
    for stated in site.results(5)[2:4]:
        batch = values.shape[:-1]  # which may be open
        sizes = [size for size in stated.shape[len(batch) :] if size is not None]
        if len(sizes) != 2:
            site.fail("gives vectors of static sizes")
        zeros.append(build.full(0, (*batch, *sizes), values.type.dtype))
    return zeros


def unknown(values: Node, report: TensorType) -> Node:
    """1 where there are NaNs along the last axis, in the result type that the text states."""
    missing = build.reduce(build.compare(values, "ne", values), "or", values.type.rank - 1)
    return build.cast(missing, part_of(report.element).dtype)


def first_of(wrong: Node, report: TensorType) -> Node:
    """0, or the index (from 1) of the first true element along the last axis, in the result type
    that the text states.
    """
    rank, count = wrong.type.rank, wrong.shape[-1]
    assert isinstance(count, int)  # sizes of matrices are static
    dtype = part_of(report.element).dtype
    if not count:
        return build.full(0, wrong.shape[:-1], dtype)
    number = build.add(build.iota(wrong.shape, rank - 1, DType.I32), 1)
    first = build.reduce(build.select(wrong, number, count + 1), "min", rank - 1)
    return build.cast(build.select(build.compare(first, "gt", count), 0, first), dtype)


def letter(site: OperationSite, name: str, known: str) -> str:
    """A one-letter option of LAPACK, which JAX passes as a character code."""
    given = site.fields("mhlo.backend_config").get(name)
    option = chr(given) if isinstance(given, int) and 0 < given < 128 else ""
    if option not in known or not option:
        site.fail(f"{name} is one of {', '.join(known)}, as a number")
    return option


for _function in (potrf, trsm, getrf, geqrf, orgqr, syevd, gesdd):
    for _precision in "sd":
        CUSTOM_CALLS[f"lapack_{_precision}{_function.__name__}_ffi"] = _function
for _precision in "sd":  # another algorithm for the same
    CUSTOM_CALLS[f"lapack_{_precision}gesvd_ffi"] = gesdd
