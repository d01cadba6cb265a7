"""Eigenvalues and eigenvectors of general square matrices, which are complex numbers."""

from __future__ import annotations

from xlac.frontends.complex.linalg import eigenvectors
from xlac.frontends.torch.complex_tensors import ComplexTensor, aten_complex
from xlac.frontends.torch.table import AtenCall
from xlac.ir.graph import Node


@aten_complex("linalg_eig")
def eig(call: AtenCall, A: ComplexTensor | Node) -> tuple[ComplexTensor, ComplexTensor]:
    """Eigenvalues, and the right eigenvectors as columns."""
    values, _, vectors, _ = eigenvectors.eig(_parts(A))
    return ComplexTensor(*values), ComplexTensor(*vectors)


@aten_complex("linalg_eigvals", "_linalg_eigvals")
def eigvals(call: AtenCall, A: ComplexTensor | Node) -> ComplexTensor:
    """Eigenvalues."""
    return ComplexTensor(*eigenvectors.eig(_parts(A))[0])


def _parts(a: ComplexTensor | Node) -> tuple[Node, ...]:
    return a.parts if isinstance(a, ComplexTensor) else (a,)
