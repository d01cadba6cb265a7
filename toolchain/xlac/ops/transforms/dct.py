"""The discrete cosine transform."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.graph import Node, pick
from xlac.ir.op import Array, Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.linalg.matrices import Ints
from xlac.ops.transforms.complex_parts import multiplied, whole
from xlac.ops.transforms.fft import Transform, complex_of
from xlac.ops.transforms.real_fft import Irfft, Rfft
from xlac_sdk.dtypes import DType


@declare
class Dct(Transform):
    """The discrete cosine transform along `axis`, of form 2 or 3 as SciPy's.

    Form 2 is y[k] = 2 Σ x[j] cos(πk (2j + 1) / 2n), and form 3 is
    y[k] = x[0] + 2 Σ x[j] cos(πj (2k + 1) / 2n), j from 1 on. One turns the other round, but for a
    factor of 2n; `ortho` scales both so that there is none (y[0] of form 2 by 1/√4n, the others by
    1/√2n).
    """

    mnemonic = "dct"
    operands = ("x",)
    axis: int = -1
    form: int = 2
    ortho: bool = False

    def infer(self, *types: Type) -> Type:
        (x,) = types
        size = self.along(x)
        if self.form not in (2, 3):
            raise ShapeError(f"dct has types 2 and 3, not {self.form}", attribute="form")
        if not size:
            raise ShapeError(f"dct needs at least one element, got {x}", operand=0)
        self.counted(size, x)
        return x

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        if x.type.size == 0:
            return x
        change = self._second if self.form == 2 else self._third
        return self.restored(change(self.lines(x), self.along(x.type)), x.type)

    def _second(self, x: Node, size: int) -> Node:
        """By the transform V of the even elements followed by the odd ones, reversed (Makhoul):
        with V rotated by a quarter of a step, y[k] is twice its real part and y[n-k] minus twice
        its imaginary part.
        """
        odd = build.apply1("flip", build.cut(x, 1, 1, size, 2), axis=1)
        ordered = build.concat([build.cut(x, 1, 0, size, 2), odd], 1)
        parts = Node.of(Rfft(1), ordered)
        angle = -np.pi / (2 * size) * np.arange(size // 2 + 1)[:, None]
        share = np.full((size // 2 + 1, 1), np.sqrt(2 / size) if self.ortho else 2.0)
        share[0] *= np.sqrt(0.5) if self.ortho else 1.0
        turned = multiplied((pick(parts, 0), pick(parts, 1)), share * np.exp(1j * angle))
        real, imaginary = whole(turned)
        last = build.cut(build.apply1("neg", imaginary), 1, 1, (size + 1) // 2)
        return build.concat([real, build.apply1("flip", last, axis=1)], 1)

    def _third(self, x: Node, size: int) -> Node:
        """The inverse of `_second`, step by step."""
        half = size // 2 + 1
        padded = build.pad(
            build.apply1("flip", build.cut(x, 1, 1, size), axis=1), 0.0, (0, 1, 0), (0, 0, 0)
        )
        later = build.apply1("neg", build.cut(padded, 1, 0, half))
        angle = np.pi / (2 * size) * np.arange(half)[:, None]
        share = np.full((half, 1), np.sqrt(size / 2) if self.ortho else float(size))
        share[0] *= np.sqrt(2.0) if self.ortho else 1.0
        parts = multiplied((build.cut(x, 1, 0, half), later), share * np.exp(1j * angle))
        ordered = Node.of(Irfft(size, 1), *whole(parts))
        odd = build.apply1("flip", build.cut(ordered, 1, (size + 1) // 2, size), axis=1)
        return _interleaved(build.cut(ordered, 1, 0, (size + 1) // 2), odd)

    def evaluate(self, *arrays: Array) -> Array:
        if 0 in arrays[0].shape:
            return arrays[0]
        x = np.moveaxis(arrays[0].astype(np.float64), self.axis, -1)
        size = x.shape[-1]
        turn = np.exp(-0.5j * np.pi / size * np.arange(size))
        share = np.full(size, np.sqrt(0.5 / size) if self.ortho else 1.0)
        share[0] *= np.sqrt(0.5) if self.ortho else 1.0
        even = (size + 1) // 2
        if self.form == 2:
            ordered = np.concatenate([x[..., ::2], x[..., 1::2][..., ::-1]], -1)
            values = 2 * (np.fft.fft(ordered) * turn).real * share
        else:
            y = x / share * (1 / (2 * size) if self.ortho else 1.0)
            later = np.concatenate([np.zeros_like(y[..., :1]), y[..., :0:-1]], -1)
            ordered = np.fft.ifft(complex_of(y, -later) / turn).real * size
            values = np.empty_like(y)
            values[..., ::2], values[..., 1::2] = ordered[..., :even], ordered[..., : even - 1 : -1]
        moved: Array = np.moveaxis(values, -1, self.axis)
        return self.marked(moved.astype(arrays[0].dtype), *arrays)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, int]] = [
            ((8,), 0), ((7,), 0), ((1,), 0), ((2, 2), 1), ((3, 5), -1), ((6, 3), 0), ((0, 4), 1),
            ((2, 96, 2), 1),
        ]  # fmt: skip
        samples = [
            Sample((Type(DType.F32, s),), {"axis": a, "form": form, "ortho": ortho})
            for s, a in cases
            for form, ortho in ((2, False), (3, False), (2, True), (3, True))
        ]
        return [*samples, Sample((Type(DType.F64, (10,)),), {})]


def _interleaved(even: Node, odd: Node) -> Node:
    """Interleaves elements of lines of two tensors; the first may have one more."""
    lines, count, after = odd.shape
    assert isinstance(count, int)
    pairs = build.concat(
        [build.reshape(p, (lines, count, 1, after)) for p in (build.cut(even, 1, 0, count), odd)], 2
    )
    joined = build.reshape(pairs, (lines, 2 * count, after))
    if even.shape == odd.shape:
        return joined
    return build.concat([joined, build.cut(even, 1, count, count + 1)], 1)
