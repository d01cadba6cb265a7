"""Fourier transforms, Cholesky decomposition and triangular solves."""

from __future__ import annotations

from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.frontends.stablehlo.text.elements import part_of
from xlac.frontends.stablehlo.values import TypedTensor
from xlac.ir.graph import Node, pick
from xlac.ops import build
from xlac.ops.transforms.real_fft import Rfft


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
    signal = build.apply1("irfft", real, imaginary, length=lengths[-1], axis=rank - 1)
    assert part_of(x.element).dtype is signal.type.dtype
    return signal


def _transformed(real: Node, imaginary: Node, axes: list[int], inverse: bool) -> tuple[Node, Node]:
    for axis in axes:
        transform = build.apply("fft", real, imaginary, axis=axis, inverse=inverse)
        assert isinstance(transform, tuple)
        real, imaginary = transform
    return real, imaginary


@operation("cholesky")
def cholesky(site: OperationSite) -> Built:
    """The triangular factor; `lower` says which, the other triangle is 0."""
    site.takes(1)
    return build.apply1("cholesky", site.number(0), lower=site.flag("lower"))


@operation("triangular_solve")
def triangular_solve(site: OperationSite) -> Built:
    """triangular_solve, of halves in f32; for real numbers the adjoint is the transpose."""
    site.takes(2)
    form = site.word("transpose_a", "NO_TRANSPOSE")
    solution = build.apply1(
        "triangular_solve",
        build.compute(site.number(0)),
        build.compute(site.number(1)),
        left=site.flag("left_side"),
        lower=site.flag("lower"),
        unit=site.flag("unit_diagonal"),
        transpose=form in ("TRANSPOSE", "ADJOINT"),
    )
    return build.cast(solution, site.number(1).type.dtype)
