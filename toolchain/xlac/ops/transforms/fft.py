"""The discrete Fourier transform, of complex and of real numbers."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.dims import volume
from xlac.ir.graph import Node, pick
from xlac.ir.leading import AXES
from xlac.ir.op import Array, Sample, ShapeError, declare, normal_axis
from xlac.ir.types import Type, Types
from xlac.ops import build
from xlac.ops.checks import check_dtype, check_table
from xlac.ops.linalg.matrices import WIDE, Ints
from xlac.ops.transforms.complex_parts import whole
from xlac.ops.transforms.radices import PRIME, radices
from xlac.ops.transforms.stages import DftForm, transformed
from xlac_sdk.dtypes import DType

UNDEFINED: ContextVar[float] = ContextVar("undefined", default=np.nan)
"""The results of a line that has an infinity or a NaN, about which docs/SPEC.md says nothing."""


def complex_of(real: Array, imaginary: Array) -> Array:
    """Complex numbers of these parts, which stay as they are: `1j * infinity` has a NaN too."""
    numbers: Array = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    numbers.real, numbers.imag = real, imaginary
    return numbers


class Transform(Composite):
    """A transform along `axis`, in stages: see `stages.py`."""

    leading = {"axis": AXES}
    axis: int = -1

    def along(self, x: Type, operand: int = 0) -> int:
        """The number of elements of the transformed axis, which must be known."""
        check_dtype(self.mnemonic, x, WIDE, operand)
        size = x.shape[normal_axis(self.axis, x.rank)]
        if not isinstance(size, int):
            raise ShapeError(
                f"{self.mnemonic} needs to know the size of its axis, got {x}", operand=operand
            )
        return size

    def counted(self, size: int, x: Type) -> None:
        """Raises ShapeError for a size whose tables would be too large."""
        check_table(self.mnemonic, size, x)
        if max(radices(size), default=1) > PRIME:
            check_table(self.mnemonic, 8 * size, x)

    def resized(self, x: Type, size: int) -> Type:
        """The type with another size of the axis."""
        axis = normal_axis(self.axis, x.rank)
        return x.with_shape((*x.shape[:axis], size, *x.shape[axis + 1 :]))

    def read(self, *arrays: Array) -> Sequence[Array]:
        """The operands, with zeros for what has no part in the results."""
        return arrays

    def undefined(self, *arrays: Array) -> Array:
        """Whether each line has an infinity or a NaN, with an axis of one element."""
        whole = [np.isfinite(x).all(self.axis, keepdims=True) for x in self.read(*arrays)]
        return np.asarray(~np.logical_and.reduce(whole))

    def marked(self, results: Array, *arrays: Array) -> Array:
        """Results, with those of lines with an infinity or a NaN replaced by UNDEFINED."""
        lost = self.undefined(*arrays)
        return np.where(lost, results.dtype.type(UNDEFINED.get()), results)

    def lines(self, x: Node) -> Node:
        """x as (axes before, elements of the axis, axes after)."""
        axis = normal_axis(self.axis, x.type.rank)
        before, after = volume(x.shape[:axis]), volume(x.shape[axis + 1 :])
        return build.reshape(x, (before, x.shape[axis], after))

    def restored(self, x: Node, like: Type) -> Node:
        """The inverse of `lines`: a tensor of the shape of `like` but for the axis."""
        axis = normal_axis(self.axis, like.rank)
        return build.reshape(x, (*like.shape[:axis], x.shape[1], *like.shape[axis + 1 :]))


@declare
class Fft(Transform):
    """The discrete Fourier transform along `axis` of complex numbers given as (real, imaginary): as
    many again.

    `inverse` turns it round and divides by the number of elements. The error of an element grows
    with the logarithm of their number, relative to the largest result. Of a line that has an
    infinity or a NaN the results are not defined.
    """

    mnemonic = "fft"
    operands = ("real", "imaginary")
    axis: int = -1
    inverse: bool = False

    def infer(self, *types: Type) -> Types:
        real, imaginary = types
        size = self.along(real)
        if real != imaginary:
            raise ShapeError(
                f"fft needs two tensors of one type, got {real} and {imaginary}", operand=1
            )
        self.counted(size, real)
        return real, real

    def linear(self) -> Sequence[Sequence[str]]:
        return (("real", "imaginary"),)

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        changes = [
            build.like(0.0, x) if t is None else t
            for x, t in zip(node.inputs, tangents, strict=True)
        ]
        change = Node.of(self, *changes)
        return [pick(change, n) for n in (0, 1)]

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        """The matrix is symmetric, so that the transpose is the transform of conjugates."""
        type = node.inputs[0].type
        cts = [build.full(0.0, type.shape, type.dtype) if c is None else c for c in cotangents]
        transform = Node.of(Fft(self.axis, not self.inverse), *cts)
        size = float(max(1, self.along(type)))
        share = 1 / size if self.inverse else size
        return [build.mul(pick(transform, n), share) if on else None for n, on in enumerate(linear)]

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        real, imaginary = inputs
        if real.type.size == 0:
            return real, imaginary
        size = self.along(real.type)
        way = DftForm(self.inverse, 1 / size if self.inverse else 1.0)
        parts = transformed((self.lines(real), self.lines(imaginary)), way)
        return tuple(self.restored(part, real.type) for part in whole(parts))

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        if 0 in arrays[0].shape:
            return arrays
        transform = np.fft.ifft if self.inverse else np.fft.fft
        spectrum = transform(complex_of(*arrays), axis=self.axis)
        parts = (p.astype(arrays[0].dtype) for p in (spectrum.real, spectrum.imag))
        return tuple(self.marked(p, *arrays) for p in parts)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, int, bool]] = [
            ((8,), 0, False), ((7,), 0, True), ((3, 5), -1, False), ((5, 3), 0, True),
            ((0, 4), 1, False), ((4, 0), 1, True), ((3, 1), 1, True), ((64,), 0, False),
            ((2, 48, 3), 1, True), ((2, 149), 1, False), ((394, 2), 0, True),
        ]  # fmt: skip
        samples = [
            Sample((Type(DType.F32, s),) * 2, {"axis": a, "inverse": i}) for s, a, i in cases
        ]
        return [*samples, Sample((Type(DType.F64, (6,)),) * 2, {})]
