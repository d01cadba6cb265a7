"""What operations on matrices of real or complex numbers have in common."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.graph import Node
from xlac.ir.op import Array, ShapeError
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.complex.linalg.numbers import Numbers, as_pairs, each, of_pairs
from xlac.ops.linalg.matrices import gathered


@dataclass(frozen=True)
class MatrixOperation(Composite):
    """An operation on matrices, with a batch on all axes before them.

    With `complex`, the last axis of an operand is (real part, imaginary part), and so is that of
    results that are complex.
    """

    leading = {}
    complex: bool = field(default=False, kw_only=True)

    def part(self, operand: Type, number: int = 0) -> Type:
        """The type of the parts of numbers of a type. Raises ShapeError."""
        if not self.complex:
            return operand
        if not operand.rank or operand.shape[-1] != 2:
            raise ShapeError(
                f"{self.mnemonic} of complex numbers needs a last axis of 2, the real and the "
                f"imaginary parts, got {operand}",
                operand=number,
                attribute="complex",
            )
        return operand.with_shape(operand.shape[:-1])

    def paired(self, part: Type) -> Type:
        """The type of numbers whose parts have a type."""
        return part.with_shape((*part.shape, 2)) if self.complex else part

    def numbers(self, x: Node) -> Numbers:
        """The parts of an operand."""
        return of_pairs(x) if self.complex else (x,)

    def node(self, x: Numbers) -> Node:
        """Numbers as a result."""
        return as_pairs(x) if self.complex else x[0]

    def array(self, x: Array) -> Array:
        """An operand in NumPy's form."""
        return np.asarray(x[..., 0] + 1j * x[..., 1]) if self.complex else x

    def pairs(self, x: Array, like: Array) -> Array:
        """NumPy's numbers as a result, of the element type of an operand."""
        whole = np.stack([x.real, x.imag], -1) if self.complex else np.asarray(x)
        return whole.astype(like.dtype)


def triangular_solved(a: Numbers, b: Numbers, **attributes: bool) -> Numbers:
    """The operation `triangular_solve`, one node that is linear in b, as tangents have to be: its
    expansion for complex numbers divides in a way that is not.
    """
    if len(a) == 1:
        return (build.apply1("triangular_solve", a[0], b[0], **attributes),)
    pairs = as_pairs(a), as_pairs(b)
    return of_pairs(build.apply1("triangular_solve", *pairs, complex=True, **attributes))


def lu_solved(packed: Numbers, order: Node, b: Numbers) -> Numbers:
    """The X for which a X = b, by the results of `lu`, linear in b."""
    rows = each(lambda x: gathered(x, order), b)
    half = triangular_solved(packed, rows, unit=True)
    return triangular_solved(packed, half, lower=False)


def symmetric_eigen(a: Numbers, lower: bool) -> tuple[Node, Numbers]:
    """The results of `eigh`, one node."""
    if len(a) == 1:
        values, vectors = _several(build.apply("eigh", a[0], lower=lower))
        return values, (vectors,)
    values, vectors = _several(build.apply("eigh", as_pairs(a), lower=lower, complex=True))
    return values, of_pairs(vectors)


def singular_values(a: Numbers, full: bool) -> tuple[Numbers, Node, Numbers]:
    """The results of `svd`, one node."""
    if len(a) == 1:
        u, s, v = _several(build.apply("svd", a[0], full_matrices=full))
        return (u,), s, (v,)
    u, s, v = _several(build.apply("svd", as_pairs(a), full_matrices=full, complex=True))
    return of_pairs(u), s, of_pairs(v)


def _several(found: Node | tuple[Node, ...]) -> tuple[Node, ...]:
    assert isinstance(found, tuple)
    return found
