"""LAPACK's functions that JAX calls on a CPU, from operations on real and imaginary parts: those of
complex matrices, and those of both kinds that are no operation of ours.
"""

from __future__ import annotations

from xlac.frontends.stablehlo.custom import CUSTOM_CALLS
from xlac.frontends.stablehlo.ops.lapack.operations import (
    first_of,
    in_triangle,
    letter,
    singular,
    unknown,
)
from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.text.elements import part_of
from xlac.frontends.stablehlo.text.syntax import TensorType
from xlac.frontends.stablehlo.values import TypedTensor, Value
from xlac.ops import build
from xlac.ops.complex.linalg import reflections, spectra, systems, tridiagonal
from xlac.ops.complex.linalg.numbers import Numbers, adjoint, diagonal, each, rank, select, swapped
from xlac.ops.linalg.matrix_operation import singular_values, symmetric_eigen


def _complex(site: OperationSite, number: int) -> Numbers:
    """An operand, which must be complex."""
    operand = site.tensor(number)
    if not operand.element.complex:
        site.fail(f"operand {number} is not complex")
    return operand.parts


def _value(site: OperationSite, parts: Numbers) -> Value:
    """A complex or, of one part, a real result."""
    element = site.tensor(0).element
    return TypedTensor(element if len(parts) == 2 else part_of(element), parts)


def potrf(site: OperationSite) -> Built:
    """The factor in triangle `uplo`, with what a has in the other triangle, and the first row (from
    1) where a is not positive definite.
    """
    site.takes(1)
    _, report = site.results(2)
    a, lower = _complex(site, 0), letter(site, "uplo", "LU") == "L"
    factor = systems.cholesky(a, lower)
    along = diagonal(factor)[0]
    wrong = first_of(build.compare(along, "ne", along), report)
    whole = select(in_triangle(a[0].shape, lower), factor, a)
    return [_value(site, whole), TypedTensor(report.element, (wrong,))]


def trsm(site: OperationSite) -> Built:
    """Triangular systems, also with the transposed (`T`) and the adjoint matrix (`C`)."""
    site.takes(2)
    a, lower = _complex(site, 0), letter(site, "uplo", "LU") == "L"
    form = letter(site, "trans_x", "NTC")
    if form != "N":
        a, lower = adjoint(a) if form == "C" else swapped(a), not lower
    found = systems.triangular_solve(
        a,
        _complex(site, 1),
        left=letter(site, "side", "LR") == "L",
        lower=lower,
        unit=letter(site, "diag", "UN") == "U",
    )
    return _value(site, found)


def getrf(site: OperationSite) -> Built:
    """The packed factors, the row of each pivot (from 1), and the first column (from 1) where U has
    a 0 on its diagonal.
    """
    site.takes(1)
    _, second, report = site.results(3)
    packed, pivots, _ = systems.lu(_complex(site, 0))
    count, last = pivots.shape[-1], rank(packed)
    assert isinstance(count, int)
    square = each(lambda x: build.cut(build.cut(x, last - 2, 0, count), last - 1, 0, count), packed)
    real, imaginary = (build.compare(x, "eq", 0.0) for x in diagonal(square))
    zeros = first_of(build.apply1("and", real, imaginary), report)
    return [
        _value(site, packed),
        TypedTensor(second.element, (build.add(pivots, 1),)),
        TypedTensor(report.element, (zeros,)),
    ]


def geqrf(site: OperationSite) -> Built:
    """Householder reflections that make a matrix triangular."""
    site.takes(1)
    site.results(2)
    return [_value(site, parts) for parts in reflections.qr(_complex(site, 0))]


def ungqr(site: OperationSite) -> Built:
    """The product of reflections."""
    site.takes(2)
    found = reflections.householder_product(_complex(site, 0), _complex(site, 1))
    return _value(site, found)


def heevd(site: OperationSite) -> Built:
    """Eigenvectors, eigenvalues, and 1 where they were not found (for infinities and NaNs)."""
    site.takes(1)
    report = site.results(3)[2]
    letter(site, "mode", "NV")
    values, vectors = symmetric_eigen(_complex(site, 0), letter(site, "uplo", "LU") == "L")
    wrong = unknown(values, report)
    return [_value(site, vectors), _value(site, (values,)), TypedTensor(report.element, (wrong,))]


def gesdd(site: OperationSite) -> Built:
    """The overwritten matrix, singular values, vectors, and 1 where they were not found."""
    site.takes(1)
    a = _complex(site, 0)
    u, s, v, wrong = singular(site, lambda full: singular_values(a, full))
    report = TypedTensor(site.results(5)[4].element, (wrong,))
    return [_value(site, a), _value(site, (s,)), _value(site, u), _value(site, v), report]


def gehrd(site: OperationSite) -> Built:
    """Reflections that make a matrix zero below its first subdiagonal, for `hessenberg`; JAX gives
    the whole range of rows. The report is 0.
    """
    site.takes(1)
    report = site.results(3)[2]
    a = site.tensor(0)
    size, fields = a.shape[-1], site.fields("mhlo.backend_config")
    if fields.get("low", 1) != 1 or fields.get("high", size) != size:
        site.fail("low and high are 1 and the number of rows")
    packed, taus = reflections.hessenberg(a.parts)
    return [_value(site, packed), _value(site, taus), _nothing(site, report)]


def hetrd(site: OperationSite) -> Built:
    """Reflections that make a Hermitian matrix, of which the lower triangle is read, tridiagonal:
    the packed matrix, its diagonal and subdiagonal, and factors. The report is 0.
    """
    site.takes(1)
    report = site.results(5)[4]
    if letter(site, "uplo", "LU") != "L":
        site.fail("uplo U is not supported", "call jax.lax.linalg.tridiagonal with lower=True")
    a = site.tensor(0).parts
    packed, taus = reflections.hessenberg(spectra.hermitian(a, True))
    rows = packed[0].shape[-1]
    assert isinstance(rows, int)
    last = rank(packed)
    below = build.cut(packed[0], last - 2, min(1, rows), rows)
    beside = diagonal((build.cut(below, last - 1, 0, max(rows - 1, 0)),))
    kept = each(lambda x: build.apply1("tril", x), packed)
    above = each(lambda x: build.apply1("triu", x, k=1), a)
    whole = tuple(build.add(x, y) for x, y in zip(kept, above, strict=True))
    return [
        _value(site, whole),
        _value(site, diagonal(packed[:1])),
        _value(site, beside),
        _value(site, taus),
        _nothing(site, report),
    ]


def gtsv(site: OperationSite) -> Built:
    """Tridiagonal systems: the operands, of which LAPACK overwrites all, with the solution as the
    fourth. The report is 1 where it is not
    finite, as for singular matrices, which JAX makes NaN.
    """
    site.takes(4)
    report = site.results(5)[4]
    low, d, high, b = (x.parts for x in site.tensors())
    size, axis = d[0].shape[-1], rank(d) - 1
    if not isinstance(size, int) or any(
        x[0].shape[-1] not in (size, size - 1) for x in (low, high)
    ):
        site.fail("diagonals have n or n - 1 numbers")
    below, above = low, high
    if low[0].shape[-1] == size:  # the first is outside of the matrix
        below = each(lambda x: build.cut(x, axis, 1, size), low)
    if high[0].shape[-1] == size:
        above = each(lambda x: build.cut(x, axis, 0, size - 1), high)
    found = tridiagonal.tridiagonal_solve(below, d, above, b)
    beyond = [build.apply1("not", build.apply1("isfinite", x)) for x in found]
    wrong = beyond[0] if len(beyond) == 1 else build.apply1("or", *beyond)
    for _ in range(2):
        wrong = build.reduce(wrong, "or", wrong.type.rank - 1)
    told = TypedTensor(report.element, (build.cast(wrong, report.element.dtype),))
    return [*(_value(site, x) for x in (low, d, high, found)), told]


def _nothing(site: OperationSite, report: TensorType) -> Value:
    """Zeros as a report: nothing can be wrong."""
    batch = site.tensor(0).shape[: len(report.shape)]
    return TypedTensor(report.element, (build.full(0, batch, report.element.dtype),))


for _function in (potrf, trsm, getrf, geqrf, ungqr, heevd, gesdd):
    for _precision in "cz":
        CUSTOM_CALLS[f"lapack_{_precision}{_function.__name__}_ffi"] = _function
for _precision in "cz":  # another algorithm for the same
    CUSTOM_CALLS[f"lapack_{_precision}gesvd_ffi"] = gesdd
for _precision, _name in (("s", "sytrd"), ("d", "sytrd"), ("c", "hetrd"), ("z", "hetrd")):
    CUSTOM_CALLS[f"lapack_{_precision}gehrd_ffi"] = gehrd
    CUSTOM_CALLS[f"lapack_{_precision}gtsv_ffi"] = gtsv
    CUSTOM_CALLS[f"lapack_{_precision}{_name}_ffi"] = hetrd
