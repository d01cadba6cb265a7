"""Fourier and cosine transforms: their stages, their rounding and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.fft
from numpy.typing import NDArray

import xlac
from xlac.debug.errors.approximation import Approximation
from xlac.debug.errors.propagate import of_node
from xlac.debug.errors.sums import Promise
from xlac.ir.composite import evaluate_expansion
from xlac.ir.graph import Node, walk
from xlac.ir.op import ShapeError
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.transforms.dct import Dct
from xlac.ops.transforms.fft import Fft, Transform
from xlac.ops.transforms.radices import RADIX, radices
from xlac.ops.transforms.real_fft import Irfft, Rfft
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


INFINITE = [Fft(), Fft(-1, True), Rfft(), Irfft(18), Dct(), Dct(-1, 3)]


@pytest.mark.parametrize("op", INFINITE, ids=lambda op: f"{op.mnemonic}{op.axis}")
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_lines_with_infinities_are_not_defined_and_others_are(op: Transform, value: float) -> None:
    """NaN by definition, where the bound permits anything; other lines are as without it."""
    whole = [RNG.normal(size=(3, 10)) for _ in op.operands]
    for operand in range(len(whole)):
        given = [x.copy() for x in whole]
        given[operand][1, 3] = value
        values = [(Approximation(x),) for x in given]
        node = Node.of(op, *(build.param(f"x{n}", DType.F64, x.shape) for n, x in enumerate(given)))
        with np.errstate(all="ignore"):
            results = [_several(op.evaluate(*arrays)) for arrays in (given, whole)]
        for found, wanted, bound in zip(*results, of_node(node, values, Promise()), strict=True):
            assert np.isnan(found[1]).all() and np.isinf(bound.bound[1]).all()
            assert (found[::2] == wanted[::2]).all() and np.isfinite(bound.bound[::2]).all()


def _several(results: Array | tuple[Array, ...]) -> tuple[Array, ...]:
    return results if isinstance(results, tuple) else (results,)


def test_imaginary_parts_that_are_not_read_may_be_infinite() -> None:
    real, imaginary = RNG.normal(size=(2, 2, 5))
    other = imaginary.copy()
    other[:, [0, 4]] = np.inf
    assert (Irfft(8).evaluate(real, other) == Irfft(8).evaluate(real, imaginary)).all()
    other = imaginary.copy()
    other[:, 4] = np.inf
    with np.errstate(all="ignore"):
        assert np.isnan(Irfft(9).evaluate(real, other)).all()


def test_the_radices_of_a_size_are_its_factors() -> None:
    for size in range(1, 3000):
        found = radices(size)
        assert np.prod(found) == size
        assert all(r <= RADIX or _is_prime(r) for r in found)


@pytest.mark.parametrize("size", [2 * 149, 2 * 50021, 1 << 20, 99991, 11 * 13 * 17 * 19, 3**9])
def test_a_graph_does_not_grow_with_the_size(size: int) -> None:
    for shape, axis in (((2, size), 1), ((size, 16), 0)):
        x, y = (build.param(name, DType.F32, shape) for name in "xy")
        results = Node.of(Fft(axis), x, y).op.expand(x, y)
        assert len(list(walk(results))) < 600 * np.log2(size)


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
