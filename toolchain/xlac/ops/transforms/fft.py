"""The discrete Fourier transform."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import Array, Sample, ShapeError, declare, normal_axis
from xlac.ir.types import Type, Types
from xlac.ops import build
from xlac.ops.checks import check_dtype, check_table
from xlac.ops.reduction.algebra import WIDE, Ints
from xlac_sdk.dtypes import DType

LONGEST = 1 << 14  # of an axis, whose transform is a product with a matrix of its square


@declare
class Fft(Composite):
    """The discrete Fourier transform along `axis` of complex numbers given as (real, imaginary): as
    many again.

    `inverse` turns it round and divides by the number of elements. It is a product with the matrix
    of the transform: meant to be right for any size, not fast for large ones.
    """

    mnemonic = "fft"
    operands = ("real", "imaginary")
    axis: int = -1
    inverse: bool = False

    def infer(self, *types: Type) -> Types:
        real, imaginary = types
        check_dtype(self.mnemonic, real, WIDE)
        if real != imaginary:
            raise ShapeError(
                f"fft needs two tensors of one type, got {real} and {imaginary}", operand=1
            )
        size: Dim = real.shape[normal_axis(self.axis, real.rank)]
        if not isinstance(size, int):
            raise ShapeError(f"fft needs to know the size of its axis, got {real}", operand=0)
        check_table(self.mnemonic, size * size, real, LONGEST**2)
        return real, real

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        real, imaginary = inputs
        axis, rank, dtype = normal_axis(self.axis, real.type.rank), real.type.rank, real.type.dtype
        size = real.shape[axis]
        assert isinstance(size, int)
        turn = (
            np.outer(np.arange(size), np.arange(size)) % max(1, size) * (2 * np.pi / max(1, size))
        )
        share = 1 / size if self.inverse and size else 1.0
        c = build.constant(np.cos(turn) * share, dtype)
        s = build.constant(np.sin(turn) * (share if self.inverse else -share), dtype)
        perm = [*range(axis), rank - 1, *range(axis, rank - 1)]

        def product(x: Node, matrix: Node) -> Node:
            return build.transpose(build.dot(x, matrix, ((axis,), (0,))), perm)

        return build.sub(product(real, c), product(imaginary, s)), build.add(
            product(real, s), product(imaginary, c)
        )

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        if 0 in arrays[0].shape:
            return arrays
        found = (np.fft.ifft if self.inverse else np.fft.fft)(
            arrays[0] + 1j * arrays[1], axis=self.axis
        )
        return found.real.astype(arrays[0].dtype), found.imag.astype(arrays[0].dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, int, bool]] = [
            ((8,), 0, False),
            ((7,), 0, True),
            ((3, 5), -1, False),
            ((5, 3), 0, True),
            ((0, 4), 1, False),
            ((3, 1), 1, True),
        ]
        found = [Sample((Type(DType.F32, s),) * 2, {"axis": a, "inverse": i}) for s, a, i in cases]
        return [*found, Sample((Type(DType.F64, (6,)),) * 2, {})]
