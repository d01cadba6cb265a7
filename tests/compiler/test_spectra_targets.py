"""Eigenvalues and singular values of matrices that are hard for divide and conquer: several equal
values, values that differ by rounding errors or by many orders of magnitude, and none at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

import xlac
from xlac.ir.op import Array
from xlac.ops.error_bounds import COMPLEX, RESIDUALS

EIGH, SVD = (RESIDUALS[name][0].factor for name in ("eigh", "svd"))
RNG = np.random.default_rng(8)
GLUE = np.tile([1] * 7 + [1e-8], 100)

Make = Callable[[int], Array]


def unitary(n: int, pairs: bool) -> Array:
    a = RNG.normal(size=(n, n)) + (1j * RNG.normal(size=(n, n)) if pairs else 0)
    return np.asarray(np.linalg.qr(a)[0])


def with_values(values: Array, pairs: bool = False) -> Array:
    q = unitary(len(values), pairs)
    return np.asarray((q * values) @ np.conj(q.T))


def tridiagonal(diagonal: Array, beside: float | Array) -> Array:
    between = np.broadcast_to(beside, len(diagonal) - 1)
    return np.asarray(np.diag(diagonal) + np.diag(between, 1) + np.diag(between, -1))


def normal(n: int) -> Array:
    return RNG.normal(size=(n, n))


SYMMETRIC: Mapping[str, Make] = {
    "normal": normal,
    "zeros": lambda n: np.zeros((n, n)),
    "identity": np.eye,
    "ones": lambda n: np.ones((n, n)),
    "diagonal": lambda n: np.diag(RNG.normal(size=n)),
    "projection": lambda n: with_values(np.arange(n) % 2 * 1.0),
    "two values": lambda n: with_values(np.where(np.arange(n) < n // 3, 1.0, -1.0)),
    "graded": lambda n: np.outer(10.0 ** -np.arange(n), 10.0 ** -np.arange(n)),
    "geometric": lambda n: with_values(10.0 ** -(np.arange(n) / 2)),
    "Hilbert": lambda n: 1 / (np.arange(n)[:, None] + np.arange(n) + 1.0),
    "huge": lambda n: normal(n) * 1e36,
    "tiny": lambda n: normal(n) * 1e-36,
    "Toeplitz": lambda n: tridiagonal(np.full(n, 2.0), -1.0),
    "Wilkinson": lambda n: tridiagonal(np.abs(np.arange(n) - n // 2) * 1.0, 1.0),
    "glued": lambda n: tridiagonal(np.abs(np.arange(n) % 8 - 4.0), GLUE[: n - 1]),
    "nearly one": lambda n: np.eye(n) + 1e-10 * normal(n),
    "joined by rounding errors": lambda n: tridiagonal(np.ones(n), 1e-16),
    "NaN": lambda n: np.where(np.arange(n * n).reshape(n, n) == n * n - n, np.nan, normal(n)),
    "infinite": lambda n: np.where(np.arange(n * n).reshape(n, n) == n * n - n, -np.inf, normal(n)),
    "normal again": normal,
}  # fmt: skip


def judged(name: str, a: Array, values: Array, vectors: Array, limit: float) -> None:
    """Asserts that vectors are orthogonal, and the residual small, both within a limit."""
    if not np.isfinite(a).all():
        assert np.isnan(values).all() and np.isnan(vectors).all()
        return
    scale = float(np.abs(a).max()) or 1.0
    a, values = a / scale, values.astype(np.float64) / scale
    rest = np.linalg.norm(a @ vectors - vectors * values)
    assert rest <= limit * np.linalg.norm(a), name
    assert np.linalg.norm(np.conj(vectors.T) @ vectors - np.eye(len(a))) <= limit, name
    assert (np.diff(values) >= 0).all(), name
    off = np.abs(values - np.linalg.eigvalsh(a)).max()
    assert off <= limit * np.abs(a).sum(1).max(), name


@pytest.mark.parametrize(
    ("target", "dtype", "size"),
    [
        ("cpu", np.float32, 40), ("cpu", np.float64, 40), ("cpu", np.float64, 2),
        pytest.param("cpu", np.float32, 70, marks=pytest.mark.long),
        ("c", np.float32, 17), ("c", np.float64, 33),
        ("reference", np.float64, 3),
    ],
)  # fmt: skip
@pytest.mark.sampled(12)
def test_hard_symmetric_matrices(target: str, dtype: type, size: int) -> None:
    a = np.stack([make(size) for make in SYMMETRIC.values()]).astype(dtype)
    a = np.tril(a) + np.swapaxes(np.tril(a, -1), -1, -2)
    values, vectors = map(np.asarray, xlac.jit(lambda a: xlac.eigh(a), target=target)(a))
    limit = EIGH * size * float(np.finfo(dtype).eps)
    for number, name in enumerate(SYMMETRIC):
        wide = (x[number].astype(np.float64) for x in (a, values, vectors))
        judged(name, *wide, limit)


@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 40), (np.float64, 17)])
@pytest.mark.sampled(2)
def test_hard_hermitian_matrices(dtype: type, size: int) -> None:
    spectra = {
        "projection": np.arange(size) % 2 * 1.0,
        "geometric": 10.0 ** -(np.arange(size) / 2),
        "one": np.ones(size),
        "normal": RNG.normal(size=size),
    }
    whole = np.stack([with_values(v, pairs=True) for v in spectra.values()])
    whole = (
        np.tril(whole, -1)
        + np.conj(np.swapaxes(np.tril(whole, -1), -1, -2))
        + whole.real * np.eye(size)
    )
    pairs = np.stack([whole.real, whole.imag], -1).astype(dtype)
    values, vectors = map(np.asarray, xlac.jit(lambda a: xlac.eigh(a, complex=True))(pairs))
    limit = COMPLEX * EIGH * size * float(np.finfo(dtype).eps)
    for number, name in enumerate(spectra):
        given, found = (x[number].astype(np.float64) for x in (pairs, vectors))
        a, v = (x[..., 0] + 1j * x[..., 1] for x in (given, found))
        judged(name, a, values[number], v, limit)


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3), (1, 1), (3, 1, 1)])
def test_few_numbers(shape: tuple[int, ...]) -> None:
    values, vectors = xlac.jit(lambda a: xlac.eigh(a))(np.full(shape, 7.0))
    assert np.shape(values) == shape[:-1] and np.shape(vectors) == shape


GENERAL: Mapping[str, Make] = {
    **SYMMETRIC,
    "orthogonal": lambda n: unitary(n, False),
    "rank one": lambda n: np.outer(RNG.normal(size=n), RNG.normal(size=n)),
    "half the rank": lambda n: normal(n)[:, : n // 2] @ normal(n)[: n // 2],
    "shift": lambda n: np.eye(n, k=1),
    "triangle": lambda n: np.triu(np.ones((n, n))),
    "Kahan": lambda n: 0.9 ** np.arange(n)[:, None] * (1.4 * np.eye(n) - 0.4 * np.tri(n).T),
    "graded rows": lambda n: normal(n) * 10.0 ** -np.arange(n)[:, None],
    "graded columns": lambda n: normal(n) * 10.0 ** -np.arange(n),
    "geometric values": lambda n: unitary(n, False) @ with_values(10.0 ** -(np.arange(n) / 2)),
    "some columns": lambda n: normal(n) * (np.arange(n) % 2),
    "normal once more": normal,
}  # fmt: skip


def decomposed(name: str, a: Array, u: Array, s: Array, v: Array, limit: float) -> None:
    """Asserts that vectors are orthogonal, and the residual small, both within a limit; v as
    rows.
    """
    if not np.isfinite(a).all():
        assert all(np.isnan(x).all() for x in (u, s, v))
        return
    scale = float(np.abs(a).max()) or 1.0
    a, s = a / scale, s.astype(np.float64) / scale
    count = len(s)
    rest = (u[:, :count] * s) @ v[:count] - a
    assert np.linalg.norm(rest) <= limit * np.linalg.norm(a), name
    for rows in (np.conj(u.T), v):
        off = np.linalg.norm(rows @ np.conj(rows.T) - np.eye(len(rows)))
        assert off <= limit, name
    assert (s >= 0).all() and (np.diff(s) <= 0).all(), name
    exact = np.linalg.svd(a, compute_uv=False)
    assert np.abs(s - exact).max() <= limit * exact[0], name


@pytest.mark.parametrize(
    ("target", "dtype", "shape", "full"),
    [
        ("cpu", np.float32, (40, 40), True), ("cpu", np.float64, (40, 40), False),
        ("cpu", np.float64, (2, 2), True), ("cpu", np.float32, (70, 70), False),
        ("cpu", np.float64, (33, 17), True), ("cpu", np.float32, (9, 20), False),
        ("c", np.float32, (17, 17), True), ("c", np.float64, (33, 33), False),
        ("reference", np.float64, (3, 3), True),
    ],
)  # fmt: skip
@pytest.mark.sampled(12)
def test_hard_general_matrices(
    target: str, dtype: type, shape: tuple[int, int], full: bool
) -> None:
    rows, columns = shape
    a = np.stack([make(max(shape))[:rows, :columns] for make in GENERAL.values()]).astype(dtype)
    f = xlac.jit(lambda a: xlac.svd(a, full_matrices=full), target=target)
    u, s, v = map(np.asarray, f(a))
    limit = SVD * min(shape) * float(np.finfo(dtype).eps)
    for number, name in enumerate(GENERAL):
        wide = [x[number].astype(np.float64) for x in (a, u, s, v)]
        decomposed(name, wide[0], wide[1], wide[2], wide[3], limit)


@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 40), (np.float64, 17)])
@pytest.mark.sampled(2)
def test_hard_complex_matrices(dtype: type, size: int) -> None:
    values = {
        "unitary": np.ones(size),
        "half the rank": np.arange(size) % 2 * 1.0,
        "geometric": 10.0 ** -(np.arange(size) / 2),
    }
    whole = np.stack([(unitary(size, True) * s) @ unitary(size, True) for s in values.values()])
    pairs = np.stack([whole.real, whole.imag], -1).astype(dtype)
    found = xlac.jit(lambda a: xlac.svd(a, complex=True))(pairs)
    u, s, v = (np.asarray(x, np.float64) for x in found)
    limit = COMPLEX * SVD * size * float(np.finfo(dtype).eps)
    for number, name in enumerate(values):
        made = (x[number].astype(np.float64) for x in (pairs, u, v))
        a, left, right = (x[..., 0] + 1j * x[..., 1] for x in made)
        decomposed(name, a, left, s[number], right, limit)
