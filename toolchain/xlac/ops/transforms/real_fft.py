"""The discrete Fourier transform of real numbers, and its inverse."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.op import Array, Sample, ShapeError, declare, normal_axis
from xlac.ir.types import Type, Types
from xlac.ops import build
from xlac.ops.linalg.matrices import Ints
from xlac.ops.transforms.complex_parts import multiplied, plus, stacked, times_i, whole
from xlac.ops.transforms.fft import Transform, complex_of
from xlac.ops.transforms.stages import DftForm, product_along, transformed
from xlac_sdk.dtypes import DType

LINE = 32
"""Real numbers up to which a line is a product with one matrix."""


def _reversed(x: Node, start: int, stop: int) -> Node:
    """Elements `start` to `stop` of lines in reverse order."""
    return build.apply1("flip", build.cut(x, 1, start, stop), axis=1)


def _zeros(*types: Type) -> tuple[Node, ...]:
    return tuple(build.full(0.0, type.shape, type.dtype) for type in types)


def mirrored(real: Node, imaginary: Node, axis: int, length: int) -> tuple[Node, Node]:
    """The spectrum of `length` real numbers along an axis from its first half; the second half is
    conjugate in reverse order.
    """
    parts = real, build.apply1("neg", imaginary)
    later = [
        build.apply1("flip", build.cut(p, axis, 1, (length + 1) // 2), axis=axis) for p in parts
    ]
    return build.concat([real, later[0]], axis), build.concat([imaginary, later[1]], axis)


@declare
class Rfft(Transform):
    """The first half of the discrete Fourier transform along `axis` of real numbers, as (real,
    imaginary).

    Of n numbers it has n // 2 + 1; the others are conjugates of these, in reversed order.
    """

    mnemonic = "rfft"
    operands = ("x",)
    axis: int = -1

    def infer(self, *types: Type) -> Types:
        (x,) = types
        size = self.along(x)
        if not size:
            raise ShapeError(f"rfft needs at least one element, got {x}", operand=0)
        self.counted(size, x)
        return (self.resized(x, size // 2 + 1),) * 2

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        (x,) = inputs
        size, half = self.along(x.type), self.along(x.type) // 2 + 1
        if x.type.size == 0:
            return _zeros(*[self.resized(x.type, half)] * 2)
        if size <= LINE:
            angle = DftForm(False).angles(np.outer(np.arange(size), np.arange(half)), size)
            return tuple(
                product_along(x, part, self.axis) for part in (np.cos(angle), np.sin(angle))
            )
        if size % 2:
            spectrum = whole(transformed((self.lines(x), None), DftForm(False)))
            parts = tuple(build.cut(part, 1, 0, half) for part in spectrum)
        else:
            parts = self._of_pairs(x)
        return tuple(self.restored(part, x.type) for part in parts)

    def _of_pairs(self, x: Node) -> tuple[Node, ...]:
        """An even number n of real numbers as n/2 complex ones: with z[j] = x[2j] + i x[2j+1] and
        Z its transform, the transforms of the even and of the odd ones are
        E = (Z[k] + conj Z[-k]) / 2 and O = (Z[k] - conj Z[-k]) / 2i, and X[k] = E + O exp(-2πik/n).
        """
        size, lines = self.along(x.type), self.lines(x)
        pairs = build.cut(lines, 1, 0, size, 2), build.cut(lines, 1, 1, size, 2)
        spectrum = whole(transformed(pairs, DftForm(False, 0.5)))
        first = [build.cut(part, 1, 0, 1) for part in spectrum]
        here = [build.cut(part, 1, 1, size // 2) for part in spectrum]
        there = [build.apply1("flip", part, axis=1) for part in here]
        even = build.add(here[0], there[0]), build.sub(here[1], there[1])
        odd = build.add(here[1], there[1]), build.sub(there[0], here[0])
        angle = -2 * np.pi / size * np.arange(1, size // 2)[:, None]
        inner = whole(plus(even, multiplied(odd, np.exp(1j * angle))))
        zeros = build.like(0.0, first[0])
        ends = [build.mul(end, 2.0) for end in (build.add(*first), build.sub(*first))]
        return (
            build.concat([ends[0], inner[0], ends[1]], 1),
            build.concat([zeros, inner[1], zeros], 1),
        )

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        spectrum = np.fft.rfft(arrays[0], axis=self.axis)
        parts = (p.astype(arrays[0].dtype) for p in (spectrum.real, spectrum.imag))
        return tuple(self.marked(p, *arrays) for p in parts)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, int]] = [
            ((8,), 0), ((7,), 0), ((1,), 0), ((2, 2), 1), ((3, 5), -1), ((6, 3), 0), ((0, 4), 1),
            ((2, 96, 2), 1), ((298,), 0), ((67,), 0),
        ]  # fmt: skip
        samples = [Sample((Type(DType.F32, s),), {"axis": a}) for s, a in cases]
        return [*samples, Sample((Type(DType.F64, (10,)),), {})]


@declare
class Irfft(Transform):
    """`length` real numbers from the first half of their discrete Fourier transform along `axis`,
    as `rfft` gives it: length // 2 + 1 elements.

    What would make them complex is not read: the imaginary parts of the first element, and of the
    last if `length` is even.
    """

    mnemonic = "irfft"
    operands = ("real", "imaginary")
    length: int
    axis: int = -1

    def infer(self, *types: Type) -> Type:
        real, imaginary = types
        size = self.along(real)
        if real != imaginary:
            raise ShapeError(
                f"irfft needs two tensors of one type, got {real} and {imaginary}", operand=1
            )
        if self.length < 1 or size != self.length // 2 + 1:
            raise ShapeError(
                f"irfft of {real} has no {self.length} elements: of n elements it needs the first "
                "n // 2 + 1",
                attribute="length",
            )
        self.counted(self.length, real)
        return self.resized(real, self.length)

    def expand(self, *inputs: Node) -> Node:
        real, imaginary = inputs
        if real.type.size == 0:
            return _zeros(self.resized(real.type, self.length))[0]
        if self.length <= LINE:
            return self._lines(real, imaginary)
        parts = self.lines(real), self._without_ends(self.lines(imaginary))
        if self.length % 2:
            return self.restored(self._whole(*parts), real.type)
        even, odd = self._pairs(*parts)
        joined = stacked(even, odd, axis=2)
        return build.reshape(joined, self.resized(real.type, self.length).shape)

    def _lines(self, real: Node, imaginary: Node) -> Node:
        """Each line as a product: of conjugates, of which only one is given, the sum is twice the
        real part.
        """
        size, half = self.length, self.length // 2 + 1
        angle = DftForm(True).angles(np.outer(np.arange(half), np.arange(size)), size)
        ends = [number for number in (0, size / 2) if number < half]
        weight = np.where(np.isin(np.arange(half), ends), 1.0, 2.0)[:, None] / size
        whole = product_along(real, weight * np.cos(angle), self.axis)
        stop = half - (size % 2 == 0)
        if stop <= 1:  # no imaginary part is read
            return whole
        axis = normal_axis(self.axis, real.type.rank)
        inner = product_along(
            build.cut(imaginary, axis, 1, stop), (weight * -np.sin(angle))[1:stop], axis
        )
        return build.add(whole, inner)

    def _without_ends(self, imaginary: Node) -> Node:
        """The imaginary parts with zeros where they are not read."""
        number = build.iota(imaginary.shape, 1)
        end = build.compare(number, "eq", 0)
        if self.length % 2 == 0:
            end = build.apply1("or", end, build.compare(number, "eq", self.length // 2))
        return build.select(end, 0.0, imaginary)

    def _whole(self, real: Node, imaginary: Node) -> Node:
        """The inverse transform of the complete spectrum."""
        spectrum = mirrored(real, imaginary, 1, self.length)
        return whole(transformed(spectrum, DftForm(True, 1 / self.length)))[0]

    def _pairs(self, real: Node, imaginary: Node) -> tuple[Node, Node]:
        """The inverse of `Rfft._of_pairs`: Z[k] = E + i O with E = X[k] + conj X[n/2-k] and
        O = (X[k] - conj X[n/2-k]) exp(2πik/n), of which the real parts of the inverse transform
        are the even elements and the imaginary ones the odd.
        """
        half = self.length // 2
        here = [build.cut(p, 1, 0, half) for p in (real, imaginary)]
        there = [_reversed(p, 1, half + 1) for p in (real, imaginary)]
        even = build.add(here[0], there[0]), build.sub(here[1], there[1])
        odd = build.sub(here[0], there[0]), build.add(here[1], there[1])
        angle = 2 * np.pi / self.length * np.arange(half)[:, None]
        x = plus(even, times_i(multiplied(odd, np.exp(1j * angle))))
        return whole(transformed(x, DftForm(True, 1 / self.length)))

    def read(self, *arrays: Array) -> Sequence[Array]:
        imaginary = np.moveaxis(arrays[1].copy(), self.axis, 0)
        imaginary[:1] = 0
        if self.length % 2 == 0:
            imaginary[-1:] = 0
        return arrays[0], np.moveaxis(imaginary, 0, self.axis)

    def evaluate(self, *arrays: Array) -> Array:
        signal: Array = np.fft.irfft(complex_of(*self.read(*arrays)), self.length, self.axis)
        return self.marked(signal.astype(arrays[0].dtype), *arrays)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, int, int]] = [
            ((5,), 0, 8), ((4,), 0, 7), ((1,), 0, 1), ((2, 2), 1, 2), ((3, 3), -1, 5),
            ((4, 3), 0, 6), ((0, 3), 1, 4), ((2, 49, 2), 1, 96), ((150,), 0, 298), ((34,), 0, 67),
        ]  # fmt: skip
        samples = [Sample((Type(DType.F32, s),) * 2, {"axis": a, "length": n}) for s, a, n in cases]
        return [*samples, Sample((Type(DType.F64, (6,)),) * 2, {"length": 10})]
