"""Square matrices made unitarily similar to Hessenberg, tridiagonal and triangular ones."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.graph import Node
from xlac.ir.op import UNDEFINED, Sample, declare
from xlac.ir.types import Type, Types
from xlac.ops import build
from xlac.ops.complex.linalg import reflections, schur, spectra
from xlac.ops.complex.linalg.numbers import each, real
from xlac.ops.linalg.matrices import Ints, check_square, on_diagonal
from xlac.ops.linalg.matrix_operation import MatrixOperation
from xlac.ops.linalg.spectral.tridiagonalize import tridiagonalized
from xlac_sdk.dtypes import DType

SMALL: Sequence[Ints] = ((1, 1), (0, 3, 3), (2, 0, 0))


def _samples(shapes: Sequence[Ints]) -> list[Sample]:
    """Real matrices of these shapes, and those with pairs of numbers."""
    single = [Sample((Type(DType.F32, s),), {}) for s in shapes]
    pairs = [Sample((Type(DType.F32, (*s, 2)),), {"complex": True}) for s in shapes]
    return [*single, *pairs, Sample((Type(DType.F64, shapes[0]),), {})]


@declare
class Hessenberg(MatrixOperation):
    """Square matrices a (…, n, n) as Q H Q', with unitary Q and zeros below the first subdiagonal
    of H: (H, Q).

    By reflections, as LAPACK's gehrd; the first row and column of Q are those of the identity.
    |Q H Q' - a| is within 6 n² eps |a|, |Q' Q - I| within 6 n² eps, in the Frobenius norm. With
    `complex`, all have a last axis of 2, and ' is the adjoint.
    """

    mnemonic = "hessenberg"
    operands = ("a",)

    def infer(self, *types: Type) -> Types:
        check_square(self.mnemonic, self.part(types[0]))
        return types[0], types[0]

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        packed, taus = reflections.hessenberg(self.numbers(inputs[0]))
        inside = each(lambda x: build.apply1("triu", x, k=-1), packed)
        return self.node(inside), self.node(reflections.turned(packed, taus))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return _samples([(4, 4), (2, 3, 3), *SMALL])


@declare
class Tridiagonal(MatrixOperation):
    """Symmetric matrices as Q T Q' with tridiagonal T: (diagonal, numbers beside it, orthogonal Q).

    The diagonal of T is (…, n), what is beside it (…, n - 1), for matrices (…, n, n). Only the
    `lower` (or upper) triangle of a is read. By reflections, as LAPACK's sytrd.
    |Q T Q' - a| is within 6 n² eps |a|, |Q' Q - I| within 6 n² eps, in the Frobenius norm. With
    `complex`, a, Hermitian, and Q have a last axis of 2; T is real.
    """

    mnemonic = "tridiagonal"
    operands = ("a",)
    lower: bool = True

    def infer(self, *types: Type) -> Types:
        a = self.part(types[0])
        size = check_square(self.mnemonic, a)
        beside = a.with_shape((*a.shape[:-2], max(size - 1, 0)))
        return a.with_shape(a.shape[:-1]), beside, types[0]

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        a = self.numbers(inputs[0])
        found = tridiagonalized(spectra.hermitian(a, self.lower))
        one = real(build.cast(on_diagonal(a[0].shape), a[0].type.dtype), a)
        return found.diagonal, found.beside, self.node(found.turned(one))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return _samples([(4, 4), (2, 3, 3), *SMALL])


@declare
class Schur(MatrixOperation):
    """Square matrices a (…, n, n) as Z T Z', with unitary Z and upper triangular T: (T, Z).

    T of real matrices has a block of two rows for each pair of conjugate eigenvalues, with equal
    numbers on the diagonal, and beside it numbers of opposite signs. By the QR iteration, of at
    most 30 n sweeps; eigenvalues are not sorted. |Z T Z' - a| is within 30 n eps |a|, |Z' Z - I|
    within 30 n eps, in the Frobenius norm. Infinities and NaNs make all NaN. With `complex`, all
    have a last axis of 2, and ' is the adjoint. It has no derivative.
    """

    mnemonic = "schur"
    operands = ("a",)
    derivatives = (UNDEFINED,)

    def infer(self, *types: Type) -> Types:
        check_square(self.mnemonic, self.part(types[0]))
        return types[0], types[0]

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        t, z, _ = schur.schur(self.numbers(inputs[0]))
        return self.node(t), self.node(z)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return _samples(SMALL)
