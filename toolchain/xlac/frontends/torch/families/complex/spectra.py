"""Eigenvalues and eigenvectors of general square matrices, which are complex numbers."""

from __future__ import annotations

from xlac.frontends.torch.complex_tensors import ComplexTensor, aten_complex
from xlac.frontends.torch.families.complex.factors import factored
from xlac.frontends.torch.table import AtenCall
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.complex.linalg import eigenvectors
from xlac.ops.complex.linalg.numbers import (
    Numbers,
    adjoint,
    back,
    conjugate,
    diagonal,
    div,
    product,
    rank,
    select,
    sub,
)
from xlac.ops.complex.linalg.systems import solved
from xlac.ops.control.custom_gradient import CustomGradient
from xlac.ops.linalg.matrices import on_diagonal
from xlac.ops.walks import closed


@aten_complex("linalg_eig")
def eig(call: AtenCall, A: ComplexTensor | Node) -> tuple[ComplexTensor, ComplexTensor]:
    """Eigenvalues, and the right eigenvectors as columns."""
    values, vectors = differentiable(_parts(A))
    return ComplexTensor(*values), ComplexTensor(*vectors)


@aten_complex("linalg_eigvals", "_linalg_eigvals")
def eigvals(call: AtenCall, A: ComplexTensor | Node) -> ComplexTensor:
    """Eigenvalues."""
    return ComplexTensor(*differentiable(_parts(A))[0])


def _parts(a: ComplexTensor | Node) -> tuple[Node, ...]:
    return a.parts if isinstance(a, ComplexTensor) else (a,)


def differentiable(a: Numbers) -> tuple[Numbers, Numbers]:
    """Eigenvalues and eigenvectors with PyTorch's gradient, which is right for functions that do
    not depend on the phases of the vectors, where the eigenvalues differ.
    """
    values, _, vectors, _ = eigenvectors.eig(a)
    if 0 in a[0].shape:
        return values, vectors
    results = (*values, *vectors)
    given = [build.param(f"ct{n}", x.type.dtype, x.shape) for n, x in enumerate(results)]
    gradient = _gradient(values, vectors, (given[0], given[1]), (given[2], given[3]))
    body = closed("eig", a, results)
    backwards = closed("eig_gradient", [*a, *results, *given], gradient[: len(a)])
    found = build.results(Node.of(CustomGradient(body, backwards, "eig"), *a))
    return tuple(found[:2]), tuple(found[2:])


def _gradient(values: Numbers, vectors: Numbers, ct: Numbers, cts: Numbers) -> Numbers:
    """The cotangent of a = V w V⁻¹ (vectors of length 1): V⁻* (diag(ct) + B / E) V*, where
    B = V* cts - V* V Re diag(V* cts), E[i, j] = conj(w[j] - w[i]), and B is 0 on the diagonal.
    """
    turned, last = adjoint(vectors), rank(vectors)
    shape = vectors[0].shape
    inner = product(turned, cts)
    along = build.back(diagonal(inner)[0], shape, (last - 2,))
    inner = sub(inner, product(turned, tuple(build.mul(x, along) for x in vectors)))
    apart = conjugate(sub(back(values, shape, (last - 2,)), back(values, shape, (last - 1,))))
    where = on_diagonal(shape)
    one, zero = (build.full(n, shape, vectors[0].type.dtype) for n in (1.0, 0.0))
    apart = select(where, (one, zero), apart)
    inner = select(where, back(ct, shape, (last - 2,)), div(inner, apart))
    packed, _, order, _ = factored(turned)
    return solved(packed, order, product(inner, turned), "N")
