"""Fourier and cosine transforms: their stages, their rounding and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.fft
from numpy.typing import NDArray

import xlac
from xlac.ir.composite import evaluate_expansion
from xlac.ir.op import ShapeError
from xlac.ir.types import Type
from xlac.ops.transforms.dct import Dct
from xlac.ops.transforms.fft import Fft, Transform
from xlac.ops.transforms.real_fft import Irfft, Rfft
from xlac.ops.transforms.stages import RADIX, radices
from xlac_sdk.dtypes import DType

Array = NDArray[Any]
RNG = np.random.default_rng(5)
SIZES = [*range(1, 68), 96, 127, 128, 149, 193, 210, 256, 331, 1000, 1009, 298, 745, 4096]


def close(found: Array, wanted: Array, size: int) -> None:
    """Within eps log2(n) of the largest element."""
    bound = np.finfo(found.real.dtype).eps * max(4.0, 2 * np.log2(size))
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= bound * np.abs(wanted).max()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.sampled(12)
def test_stages_are_the_transform(size: int) -> None:
    x, y = RNG.normal(size=(2, 3, size))
    bins = size // 2 + 1
    for inverse, reference in ((False, np.fft.fft), (True, np.fft.ifft)):
        real, imaginary = evaluate_expansion(Fft(-1, inverse), [x, y])
        close(real + 1j * imaginary, reference(x + 1j * y), size)
    real, imaginary = evaluate_expansion(Rfft(-1), [x])
    close(real + 1j * imaginary, np.fft.rfft(x), size)
    half = x[:, :bins], y[:, :bins]
    found = evaluate_expansion(Irfft(size), [*half])
    close(np.asarray(found), np.fft.irfft(half[0] + 1j * half[1], size), size)


@pytest.mark.parametrize("form", [2, 3])
@pytest.mark.parametrize("ortho", [False, True])
def test_cosine_transforms_are_those_of_scipy(form: int, ortho: bool) -> None:
    for size in (1, 2, 3, 4, 5, 8, 31, 100, 149, 1024):
        x = RNG.normal(size=(2, size))
        wanted = scipy.fft.dct(x, type=form, norm="ortho" if ortho else None)
        op = Dct(-1, form, ortho)
        close(np.asarray(evaluate_expansion(op, [x])), wanted, size)
        close(np.asarray(op.evaluate(x)), wanted, size)


@pytest.mark.parametrize("size", [64, 1000, 1009, 16384, 99991])
@pytest.mark.parametrize("scale", [1.0, 1e30])
@pytest.mark.sampled(3)
def test_rounding_grows_with_the_logarithm(size: int, scale: float) -> None:
    x, y = (RNG.normal(size=(2, size)) * scale).astype(np.float32)
    real, imaginary = xlac.jit(lambda a, b: xlac.fft(a, b))(x, y)
    wanted = np.fft.fft(x.astype(np.float64) + 1j * y)
    gap = np.hypot(real - wanted.real, imaginary - wanted.imag).max()
    assert gap <= 2.0**-23 * np.log2(size) * np.abs(wanted).max()


def test_the_radices_of_a_size_are_its_factors() -> None:
    for size in range(1, 3000):
        found = radices(size)
        assert np.prod(found) == size
        assert all(r <= RADIX or size <= 32 or _is_prime(r) for r in found)


def _is_prime(number: int) -> bool:
    return all(number % d for d in range(2, int(number**0.5) + 1))


@pytest.mark.parametrize("op", [Fft(), Rfft(), Irfft(1 << 62), Dct()])
def test_sizes_that_need_large_tables_are_refused_at_once(op: Transform) -> None:
    for size in (1 << 62, (1 << 61) - 1, (1 << 25) - 39):
        types = [Type(DType.F32, (size,))] * len(op.operands)
        with pytest.raises(ShapeError):
            op.infer(*types)


def test_what_does_not_fit_is_refused() -> None:
    x, y = Type(DType.F32, (3, 8)), Type(DType.F32, (3, 5))
    with pytest.raises(ShapeError, match="two tensors of one type"):
        Fft().infer(x, y)
    with pytest.raises(ShapeError, match="no 12 elements"):
        Irfft(12).infer(y, y)
    with pytest.raises(ShapeError, match="at least one element"):
        Rfft().infer(Type(DType.F32, (3, 0)))
    with pytest.raises(ShapeError, match="types 2 and 3"):
        Dct(form=4).infer(x)
    with pytest.raises(ShapeError, match="rfft takes"):
        Rfft().infer(Type(DType.I32, (8,)))


def test_a_spectrum_has_an_open_batch_and_a_gradient() -> None:
    def power(x: xlac.Tensor) -> xlac.Tensor:
        real, imaginary = xlac.rfft(x)
        return xlac.sum(real * real + imaginary * imaginary)

    slope = xlac.grad(power)
    for batch in (1, 2, 5):
        x = RNG.normal(size=(batch, 96))
        counts = np.full(49, 1.0)
        counts[[0, 48]] = 2.0  # the others are half of a pair of conjugates
        wanted = np.fft.irfft(np.fft.rfft(x) * counts, 96) * 96
        np.testing.assert_allclose(slope(x), wanted, rtol=1e-10, atol=1e-9)
