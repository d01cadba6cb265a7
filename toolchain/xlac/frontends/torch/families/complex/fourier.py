"""Discrete Fourier transforms: the three operations that all of `torch.fft` consists of."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlac.frontends.torch.complex_tensors import ComplexTensor, aten_complex
from xlac.frontends.torch.errors import NotExpressible
from xlac.frontends.torch.table import AtenCall
from xlac.ir.dims import Dim, Shape
from xlac.ir.graph import Node, pick
from xlac.ir.op import normal_axis
from xlac.ops import build
from xlac.ops.complex.parts import Parts, scaled
from xlac.ops.transforms.real_fft import Rfft


def known(size: Dim) -> int:
    """A length, which must be known. Raises NotExpressible."""
    if not isinstance(size, int):
        raise NotExpressible(f"a Fourier transform of the open length {size}")
    return size


def transformed(x: Parts, axes: Sequence[int], inverse: bool) -> Parts:
    """Transforms along axes, one after another."""
    real, imaginary = x
    for axis in axes:
        parts = build.apply("fft", real, imaginary, axis=axis, inverse=inverse)
        assert isinstance(parts, tuple)
        real, imaginary = parts
    return real, imaginary


def share(normalization: int, shape: Shape, axes: Sequence[int], inverse: bool) -> float:
    """What a transform is multiplied by, for PyTorch's `normalization`: 0 is none, 1 a division by
    the root of the number of elements, 2 by the number. Ours divides by the number if `inverse`.
    """
    count = math.prod(known(shape[axis]) for axis in axes)
    ours = count if inverse else 1
    return float(ours / (1, math.sqrt(count), count)[normalization])


def normal(x: Parts, factor: float) -> Parts:
    """Parts times a factor."""
    return x if factor == 1.0 else scaled(x, factor)


@aten_complex("_fft_c2c")
def c2c(
    call: AtenCall, x: ComplexTensor, dim: Sequence[int], normalization: int, forward: bool
) -> ComplexTensor:
    """The transform of complex numbers, or its inverse."""
    axes = [normal_axis(axis, x.real.type.rank) for axis in dim]
    factor = share(normalization, x.shape, axes, not forward)
    return ComplexTensor(*normal(transformed(x.parts, axes, not forward), factor))


@aten_complex("_fft_r2c")
def r2c(
    call: AtenCall, x: Node, dim: Sequence[int], normalization: int, onesided: bool
) -> ComplexTensor:
    """The transform of real numbers, or its first half along the last of the axes."""
    axes = [normal_axis(axis, x.type.rank) for axis in dim]
    factor = share(normalization, x.shape, axes, False)
    if not onesided:
        parts = transformed((x, build.like(0.0, x)), axes, False)
        return ComplexTensor(*normal(parts, factor))
    half = Node.of(Rfft(axes[-1]), x)
    parts = transformed((pick(half, 0), pick(half, 1)), axes[:-1], False)
    return ComplexTensor(*normal(parts, factor))


@aten_complex("_fft_c2r")
def c2r(
    call: AtenCall, x: ComplexTensor, dim: Sequence[int], normalization: int, last_dim_size: Dim
) -> Node:
    """Real numbers from the first half of their transform along the last of the axes."""
    axes = [normal_axis(axis, x.real.type.rank) for axis in dim]
    factor = share(normalization, call.shape, axes, True)
    real, imaginary = transformed(x.parts, axes[:-1], True)
    length = known(last_dim_size)
    signal = build.apply1("irfft", real, imaginary, length=length, axis=axes[-1])
    return signal if factor == 1.0 else build.mul(signal, factor)
