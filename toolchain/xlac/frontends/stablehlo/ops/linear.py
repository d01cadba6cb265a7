"""Fourier transforms, Cholesky decomposition and triangular solves."""

from __future__ import annotations

from xlac.frontends.stablehlo.custom import CUSTOM_CALLS
from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.frontends.stablehlo.text.elements import part_of
from xlac.frontends.stablehlo.values import TypedTensor
from xlac.ir.graph import Node, pick
from xlac.ops import build
from xlac.ops.transforms.real_fft import Rfft
from xlac_sdk.dtypes import DType


@operation("fft")
def fft(site: OperationSite) -> Built:
    """A transform over the last axes, one for each length; of RFFT and IRFFT the last axis is that
    of real numbers.
    """
    site.takes(1)
    x, kind, lengths = site.tensor(0), site.word("fft_type"), site.integers("fft_length")
    rank = len(x.shape)
    axes = list(range(rank - len(lengths), rank))
    if not lengths or len(lengths) > min(3, rank) or kind not in ("FFT", "IFFT", "RFFT", "IRFFT"):
        site.fail(f"{kind} of lengths {list(lengths)} does not fit {x.parts[0].type}")
    if kind == "RFFT":
        half = Node.of(Rfft(rank - 1), site.real(0).node)
        parts = _transformed(pick(half, 0), pick(half, 1), axes[:-1], False)
        return TypedTensor(site.result.element, parts)
    if not x.element.complex:
        site.fail(f"{kind} takes complex numbers")
    real, imaginary = x.parts
    if kind != "IRFFT":
        return x.each(_transformed(real, imaginary, axes, kind == "IFFT"))
    real, imaginary = _transformed(real, imaginary, axes[:-1], True)
    found = build.apply1("irfft", real, imaginary, length=lengths[-1], axis=rank - 1)
    assert part_of(x.element).dtype is found.type.dtype
    return found


def _transformed(real: Node, imaginary: Node, axes: list[int], inverse: bool) -> tuple[Node, Node]:
    for axis in axes:
        found = build.apply("fft", real, imaginary, axis=axis, inverse=inverse)
        assert isinstance(found, tuple)
        real, imaginary = found
    return real, imaginary


@operation("cholesky")
def cholesky(site: OperationSite) -> Built:
    """The triangular factor; `lower` says which, the other triangle is 0."""
    site.takes(1)
    return build.apply1("cholesky", site.number(0), lower=site.flag("lower"))


@operation("triangular_solve")
def triangular_solve(site: OperationSite) -> Built:
    """triangular_solve; for real numbers the adjoint is the transpose."""
    site.takes(2)
    form = site.word("transpose_a", "NO_TRANSPOSE")
    return build.apply1(
        "triangular_solve",
        site.number(0),
        site.number(1),
        left=site.flag("left_side"),
        lower=site.flag("lower"),
        unit=site.flag("unit_diagonal"),
        transpose=form in ("TRANSPOSE", "ADJOINT"),
    )


# ---- what JAX lowers these to on a CPU --------------------------------------------------------


def potrf(site: OperationSite) -> Built:
    """LAPACK's factor, as JAX calls it for `cholesky`: the triangle `uplo`, 0 in the other, which
    LAPACK leaves as it is; and i32, 0 or the first row (from 1) where a is not positive definite.
    """
    site.takes(1)
    _, report = site.results(2)
    factor = build.apply1("cholesky", site.number(0), lower=_letter(site, "uplo", "LU") == "L")
    rows, rank = factor.shape[-1], len(factor.shape)
    assert isinstance(rows, int)  # cholesky takes matrices of a known size
    square = factor.shape
    on_diagonal = build.compare(build.iota(square, rank - 2), "eq", build.iota(square, rank - 1))
    wrong = build.apply1("and", build.compare(factor, "ne", factor), on_diagonal)
    number = build.add(build.cast(build.iota(square, rank - 1), DType.I32), 1)
    none = build.like(rows + 1, number)
    first = build.reduce(build.select(wrong, number, none), "min", (rank - 2, rank - 1))
    found = build.select(build.compare(first, "gt", rows), build.like(0, first), first)
    return [factor, build.cast(found, part_of(report.element).dtype)]


def trsm(site: OperationSite) -> Built:
    """LAPACK's solution with a triangular matrix, as JAX calls it for `triangular_solve`."""
    site.takes(2)
    return build.apply1(
        "triangular_solve",
        site.number(0),
        site.number(1),
        left=_letter(site, "side", "LR") == "L",
        lower=_letter(site, "uplo", "LU") == "L",
        unit=_letter(site, "diag", "UN") == "U",
        transpose=_letter(site, "trans_x", "NTC") != "N",
    )


def _letter(site: OperationSite, name: str, known: str) -> str:
    """A letter that an option of LAPACK is, which JAX gives as its number."""
    given = site.fields("mhlo.backend_config").get(name)
    letter = chr(given) if isinstance(given, int) and 0 < given < 128 else ""
    if letter not in known or not letter:
        site.fail(f"{name} is one of {', '.join(known)}, as a number")
    return letter


for _precision in "sd":
    CUSTOM_CALLS[f"lapack_{_precision}potrf_ffi"] = potrf
    CUSTOM_CALLS[f"lapack_{_precision}trsm_ffi"] = trsm
