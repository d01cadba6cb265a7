"""Linear algebra compiled for every target: judged by residuals, which no order of rounding
changes.
"""

from __future__ import annotations

import numpy as np
import pytest

import xlac
from xlac.ir.op import Array
from xlac.ops.error_bounds import COMPLEX, RESIDUALS

FACTOR = {name: max(bound.factor for bound in bounds) for name, bounds in RESIDUALS.items()}
RNG = np.random.default_rng(8)
TARGETS = [  # the interpreter takes ten times as long
    pytest.param("reference", np.float64, marks=pytest.mark.long),
    ("c", np.float32),
    ("cpu", np.float64),
]


def norm(x: Array) -> float:
    return float(np.linalg.norm(x))


def turned(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)


@pytest.mark.parametrize(("target", "dtype"), TARGETS)
@pytest.mark.sampled(5)
def test_factors(target: str, dtype: type) -> None:
    """Each within the bound that the operation states; 35 is more than one block."""
    size = 35
    a, b = (RNG.normal(size=(2, size, n)).astype(dtype) for n in (size, 3))
    spd = (a @ turned(a) + np.eye(size)).astype(dtype)

    @xlac.jit(target=target)
    def f(a: Array, spd: Array, b: Array) -> object:
        return xlac.lu(a), xlac.cholesky(spd), xlac.qr(a), xlac.solve(a, b)

    (packed, _, order), low, (q, r), x = f(a, spd, b)
    eps = float(np.finfo(dtype).eps)
    left, right = np.tril(packed, -1) + np.eye(size), np.triu(packed)
    rows = np.take_along_axis(a, np.asarray(order)[..., None].astype(np.int64), -2)
    limit = FACTOR["lu"] * size * eps * (np.abs(left) @ np.abs(right))
    assert (np.abs(left @ right - rows) <= limit).all()
    limit = FACTOR["cholesky"] * size * eps * (np.abs(low) @ np.abs(turned(low)))
    assert (np.abs(low @ turned(low) - spd) <= limit).all()
    assert norm(q @ r - a) <= FACTOR["qr"] * size * size * eps * norm(a)
    assert norm(turned(q) @ q - np.eye(size)) <= FACTOR["qr"] * size * size * eps
    limit = FACTOR["solve"] * size * eps * (np.abs(left) @ np.abs(right) @ np.abs(x))
    rows = np.take_along_axis(b, np.asarray(order)[..., None].astype(np.int64), -2)
    assert (np.abs(left @ right @ x - rows) <= limit).all()


@pytest.mark.parametrize(("target", "dtype"), TARGETS)
@pytest.mark.sampled(5)
def test_values_and_vectors(target: str, dtype: type) -> None:
    a = RNG.normal(size=(2, 7, 5)).astype(dtype)
    symmetric = (turned(a) @ a).astype(dtype)

    @xlac.jit(target=target)
    def f(a: Array, symmetric: Array) -> object:
        return xlac.eigh(symmetric), xlac.svd(a, full_matrices=False)

    (values, vectors), (u, s, v) = f(a, symmetric)
    limit = FACTOR["svd"] * 5 * float(np.finfo(dtype).eps)
    whole = np.tril(symmetric) + turned(np.tril(symmetric, -1))
    assert norm(whole @ vectors - vectors * values[..., None, :]) <= limit * norm(whole)
    assert norm((u * s[..., None, :]) @ v - a) <= limit * norm(a)
    for rows in (turned(vectors), turned(u), v):
        assert norm(rows @ turned(rows) - np.eye(5)) <= limit
    assert (np.diff(values) >= 0).all() and (np.diff(s) <= 0).all()


@pytest.mark.parametrize("target", ["cpu", "c"])
@pytest.mark.parametrize(
    ("shape", "count"), [((300, 300), 300), ((2, 150, 140), 140), ((200, 180), 150), ((260, 9), 9)]
)
@pytest.mark.sampled(4)
def test_products_of_many_reflections(target: str, shape: tuple[int, ...], count: int) -> None:
    """More than are applied together, and fewer than there are columns."""
    packed, taus = np.linalg.qr(RNG.normal(size=shape), mode="raw")  # by columns, as LAPACK has it
    packed, taus = np.ascontiguousarray(turned(packed)), np.ascontiguousarray(taus[..., :count])
    q = xlac.jit(lambda p, t: xlac.householder_product(p, t), target=target)(packed, taus)
    eps = float(np.finfo(np.float64).eps)
    limit = FACTOR["qr"] * shape[-1] * shape[-2] * eps
    assert norm(turned(q) @ q - np.eye(shape[-1])) <= limit
    exact = np.broadcast_to(np.eye(*shape[-2:]), shape).copy()
    for k in reversed(range(count)):
        v = np.tril(packed, -1)[..., k] + np.eye(shape[-2])[k]
        exact -= taus[..., k, None, None] * v[..., None] * (v[..., None, :] @ exact)
    assert norm(q - exact) <= limit


def numbers(x: Array) -> Array:
    return np.asarray(x[..., 0] + 1j * x[..., 1])


def adjoint(x: Array) -> Array:
    return np.conj(turned(x))


@pytest.mark.parametrize(("target", "dtype"), TARGETS)
@pytest.mark.parametrize("pairs", [False, True], ids=["real", "complex"])
@pytest.mark.sampled(6)
def test_general_matrices(target: str, dtype: type, pairs: bool) -> None:
    """Eigenvectors and similar matrices, of real and of complex numbers."""
    size = 7
    given = RNG.normal(size=(2, size, size, *([2] if pairs else []))).astype(dtype)
    a = numbers(given.astype(np.float64)) if pairs else given.astype(np.float64)

    @xlac.jit(target=target)
    def f(a: Array) -> object:
        forms = (op(a, complex=pairs) for op in (xlac.schur, xlac.hessenberg, xlac.tridiagonal))
        return xlac.eig(a, complex=pairs), *forms

    (values, vectors), (t, z), (h, q), (down, beside, p) = f(given)
    if pairs:
        t, z, h, q, p = map(numbers, (t, z, h, q, p))
    values, vectors = numbers(values), numbers(vectors)
    eps = float(np.finfo(dtype).eps) * (COMPLEX if pairs else 1)
    limit = FACTOR["eig"] * size * eps
    assert norm(a @ vectors - vectors * values[..., None, :]) <= limit * norm(a)
    assert norm(z @ t @ adjoint(z) - a) <= FACTOR["schur"] * size * eps * norm(a)
    limit = FACTOR["hessenberg"] * size * size * eps
    assert norm(q @ h @ adjoint(q) - a) <= limit * norm(a)
    whole = np.tril(a, -1) + adjoint(np.tril(a, -1)) + a.real * np.eye(size)
    middle = np.einsum("bi,ij->bij", down, np.eye(size))
    middle[:, range(1, size), range(size - 1)] = beside
    middle[:, range(size - 1), range(1, size)] = beside
    assert norm(p @ middle @ adjoint(p) - whole) <= limit * norm(whole)
    for unitary in (z, q, p):
        assert norm(adjoint(unitary) @ unitary - np.eye(size)) <= limit


@pytest.mark.parametrize(("target", "dtype"), TARGETS)
@pytest.mark.sampled(5)
def test_factors_of_complex_matrices(target: str, dtype: type) -> None:
    """Within the bound of real ones times what is stated."""
    size = 5
    pairs, right = (RNG.normal(size=(2, size, n, 2)).astype(dtype) for n in (size, 2))
    a, b = numbers(pairs.astype(np.float64)), numbers(right.astype(np.float64))
    definite = a @ adjoint(a) + np.eye(size)
    spd = np.stack([definite.real, definite.imag], -1).astype(dtype)

    @xlac.jit(target=target)
    def f(a: Array, spd: Array, b: Array) -> object:
        return (
            xlac.cholesky(spd, complex=True),
            xlac.qr(a, complex=True),
            xlac.solve(a, b, complex=True),
            xlac.eigh(spd, complex=True),
            xlac.svd(a, complex=True),
            xlac.expm(a, complex=True),
            xlac.lstsq(a, b, complex=True),
        )

    low, (q, r), x, (values, vectors), (u, s, v), e, least = f(pairs, spd, right)
    low, q, r, x, vectors, u, v, e, least = map(numbers, (low, q, r, x, vectors, u, v, e, least))
    eps = float(np.finfo(dtype).eps) * COMPLEX
    definite = numbers(spd.astype(np.float64))
    limit = FACTOR["cholesky"] * size * eps * norm(low) ** 2
    assert norm(low @ adjoint(low) - definite) <= limit
    assert norm(q @ r - a) <= FACTOR["qr"] * size * size * eps * norm(a)
    limit = FACTOR["eigh"] * size * eps
    assert norm(definite @ vectors - vectors * values[..., None, :]) <= limit * norm(definite)
    assert norm((u * s[..., None, :]) @ v - a) <= limit * norm(a)
    condition = float(np.linalg.cond(a).max())
    for solution in (x, least):
        assert norm(a @ solution - b) <= limit * condition * norm(b)
    powers, term = np.eye(size) + 0 * a, np.eye(size) + 0 * a
    for k in range(1, 60):
        term = term @ a / k
        powers = powers + term
    assert norm(e - powers) <= 100 * limit * np.exp(np.linalg.norm(a, 2, (-2, -1)).max())
