"""Fourier transforms, Cholesky decomposition and triangular solves."""

from __future__ import annotations

from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.frontends.stablehlo.text.elements import part_of
from xlac.frontends.stablehlo.values import TypedTensor
from xlac.ir.graph import Node
from xlac.ops import build


@operation("fft")
def fft(site: OperationSite) -> Built:
    """A transform over the last axes, one for each length. RFFT returns the non-redundant half of
    the spectrum; IRFFT first restores the other half.
    """
    site.takes(1)
    x, kind, lengths = site.tensor(0), site.word("fft_type"), site.integers("fft_length")
    rank = len(x.shape)
    axes = list(range(rank - len(lengths), rank))
    if not lengths or len(lengths) > min(3, rank) or kind not in ("FFT", "IFFT", "RFFT", "IRFFT"):
        site.fail(f"{kind} of lengths {list(lengths)} does not fit {x.parts[0].type}")
    if kind == "RFFT":
        parts = (site.real(0).node, build.like(0.0, site.real(0).node))
        real, imaginary = _transformed(*parts, axes, False)
        last = lengths[-1] // 2 + 1
        return TypedTensor(
            site.result.element, tuple(build.cut(p, rank - 1, 0, last) for p in (real, imaginary))
        )
    if not x.element.complex:
        site.fail(f"{kind} takes complex numbers")
    real, imaginary = x.parts
    if kind != "IRFFT":
        return x.each(_transformed(real, imaginary, axes, kind == "IFFT"))
    real, imaginary = _transformed(real, imaginary, axes[:-1], True)
    found, _ = _transformed(*_mirrored(real, imaginary, lengths[-1]), axes[-1:], True)
    assert part_of(x.element).dtype is found.type.dtype
    return found


def _transformed(real: Node, imaginary: Node, axes: list[int], inverse: bool) -> tuple[Node, Node]:
    for axis in axes:
        found = build.apply("fft", real, imaginary, axis=axis, inverse=inverse)
        assert isinstance(found, tuple)
        real, imaginary = found
    return real, imaginary


def _mirrored(real: Node, imaginary: Node, length: int) -> tuple[Node, Node]:
    """Extends the last axis to a length by conjugate symmetry; the imaginary parts of the first and
    the middle element are ignored.
    """
    axis = real.type.rank - 1
    have = length // 2 + 1
    line = build.iota(real.shape, axis)
    alone = build.compare(line, "eq", 0)
    if length % 2 == 0:
        alone = build.apply1("or", alone, build.compare(line, "eq", have - 1))
    imaginary = build.select(alone, 0.0, imaginary)
    if length <= 2:
        return build.cut(real, axis, 0, length), build.cut(imaginary, axis, 0, length)

    def rest(x: Node) -> Node:
        return build.apply1("flip", build.cut(x, axis, 1, length - have + 1), axis=axis)

    return build.concat([real, rest(real)], axis), build.concat(
        [imaginary, build.apply1("neg", rest(imaginary))], axis
    )


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
