"""Operations on matrices of complex numbers, whose parts are the last axis, beside NumPy; and those
that real matrices have too: eigenvectors, similar matrices, exponentials, least squares.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from reference_runs import close, normal, run

from xlac.ir.op import Array, ShapeError
from xlac.ops import OPS
from xlac.ops.linalg.matrix_operation import MatrixOperation


def drawn(*shape: int, kind: str = "complex") -> Array:
    return normal(*shape) + 1j * normal(*shape) if kind == "complex" else normal(*shape)


def pairs(x: Array) -> Array:
    """Complex numbers as their parts; real ones as they are."""
    return np.stack([x.real, x.imag], -1) if np.iscomplexobj(x) else x


def numbers(x: Array) -> Array:
    return np.asarray(x[..., 0] + 1j * x[..., 1])


def adjoint(x: Array) -> Array:
    return np.conj(np.swapaxes(x, -1, -2))


def called(name: str, *arrays: Array, **given: Any) -> Any:
    """The results of an operation on complex or real matrices, as NumPy has them."""
    complex_ = np.iscomplexobj(arrays[0])
    found = run(name, *map(pairs, arrays), complex=complex_, **given)
    several = found if isinstance(found, list) else [found]
    count = len(several)
    real = {"eigh": {0}, "svd": {1}, "slogdet": {1}, "tridiagonal": {0, 1}, "lu": {1, 2}}
    always = name == "eig"
    made = [
        numbers(x) if always or (complex_ and n not in real.get(name, ())) else x
        for n, x in enumerate(several)
    ]
    return made if count > 1 else made[0]


def unitary(x: Array) -> None:
    close(adjoint(x) @ x, np.broadcast_to(np.eye(x.shape[-1]), x.shape[:-2] + x.shape[-1:] * 2))


SHAPES = [(1, 1), (2, 2), (5, 5), (2, 4, 4), (2, 0, 0), (0, 3, 3)]


@pytest.mark.parametrize("shape", [*SHAPES, (35, 35)])
def test_systems_of_complex_numbers(shape: tuple[int, ...]) -> None:
    a, b = drawn(*shape), drawn(*shape[:-1], 2)
    close(called("solve", a, b), np.linalg.solve(a, b))
    close(called("inv", a), np.linalg.inv(a))
    close(called("det", a), np.linalg.det(a), 1e-9)
    for found, wanted in zip(called("slogdet", a), np.linalg.slogdet(a), strict=True):
        close(found, wanted)
    packed, _, order = called("lu", a)
    low = np.tril(packed, -1) + np.eye(shape[-1])
    rows = np.take_along_axis(a, order[..., None].astype(np.int64), -2)
    close(low @ np.triu(packed), rows)
    found = run("lu_solve", pairs(packed), order, pairs(b), complex=True, transpose=True)
    close(numbers(found), np.linalg.solve(np.swapaxes(a, -1, -2), b))
    definite = a @ adjoint(a) + np.eye(shape[-1])
    lower = called("cholesky", np.tril(definite))
    close(lower, np.linalg.cholesky(definite))
    assert not np.diagonal(lower, axis1=-2, axis2=-1).imag.any()  # not even by rounding
    upper = called("cholesky", np.triu(definite), lower=False)
    close(upper, adjoint(np.linalg.cholesky(definite)))


@pytest.mark.parametrize("flags", list(itertools.product((True, False), repeat=4)))
def test_triangular_systems_of_complex_numbers(flags: tuple[bool, ...]) -> None:
    left, lower, unit, transpose = flags
    a, b = drawn(2, 4, 4) + 3 * np.eye(4), drawn(2, 4, 4)
    x = called("triangular_solve", a, b, left=left, lower=lower, unit=unit, transpose=transpose)
    part = np.tril(a) if lower else np.triu(a)
    if unit:
        part = part - np.einsum("bii,ij->bij", part, np.eye(4)) + np.eye(4)
    part = np.swapaxes(part, -1, -2) if transpose else part
    close(part @ x if left else x @ part, b)


@pytest.mark.parametrize("shape", [(5, 5), (3, 6), (6, 3), (2, 4, 4), (1, 3), (2, 0, 2)])
@pytest.mark.parametrize("complete", [True, False])
def test_orthogonal_factors_of_complex_numbers(shape: tuple[int, ...], complete: bool) -> None:
    a = drawn(*shape)
    q, r = called("qr", a, complete=complete)
    close(q @ r, a)
    unitary(q)
    close(np.diagonal(r, axis1=-2, axis2=-1).imag, np.zeros((*r.shape[:-2], min(r.shape[-2:]))))
    wanted = np.linalg.qr(a, "complete" if complete else "reduced")
    close(q[..., : min(shape[-2:])], wanted[0][..., : min(shape[-2:])])
    u, s, v = called("svd", a, full_matrices=complete)
    close(s, np.linalg.svd(a, compute_uv=False))
    count = s.shape[-1]
    close((u[..., :count] * s[..., None, :]) @ v[..., :count, :], a)
    unitary(u)
    unitary(adjoint(v))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lower", [True, False])
def test_hermitian_matrices(shape: tuple[int, ...], lower: bool) -> None:
    a = drawn(*shape)
    whole = np.tril(a, -1) if lower else np.triu(a, 1)
    whole = whole + adjoint(whole) + a.real * np.eye(shape[-1])
    values, vectors = called("eigh", a, lower=lower)
    close(values, np.linalg.eigvalsh(whole))
    close(whole @ vectors, vectors * values[..., None, :])
    unitary(vectors)


def tridiagonal(down: Array, beside: Array) -> Array:
    made = np.zeros((*down.shape, down.shape[-1]))
    for at in np.ndindex(*down.shape[:-1]):
        made[at] = np.diag(down[at])
        if len(beside[at]):
            made[at] += np.diag(beside[at], 1) + np.diag(beside[at], -1)
    return made


@pytest.mark.parametrize("shape", [*SHAPES, (12, 12)])
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_similar_matrices(shape: tuple[int, ...], kind: str) -> None:
    a = drawn(*shape, kind=kind)
    for name, below in (("hessenberg", -1), ("schur", 0 if kind == "complex" else -1)):
        form, q = called(name, a)
        close(q @ form @ adjoint(q), a)
        unitary(q)
        assert np.array_equal(form, np.triu(form, below))
    for lower in (True, False):
        down, beside, q = called("tridiagonal", a, lower=lower)
        whole = np.tril(a, -1) if lower else np.triu(a, 1)
        whole = whole + adjoint(whole) + a.real * np.eye(shape[-1])
        close(q @ tridiagonal(down, beside) @ adjoint(q), whole)
        unitary(q)


@pytest.mark.parametrize("shape", [*SHAPES, (12, 12)])
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_eig(shape: tuple[int, ...], kind: str) -> None:
    a = drawn(*shape, kind=kind)
    values, vectors = called("eig", a)
    close(a @ vectors, vectors * values[..., None, :])
    close(np.linalg.norm(vectors, axis=-2), np.ones(shape[:-1]))
    if not vectors.size:
        return
    place = np.argmax(np.abs(vectors), -2)[..., None, :]
    largest = np.take_along_axis(vectors, place, -2)
    assert (largest.imag == 0).all() and (largest.real > 0).all()
    wanted = np.linalg.eigvals(a)
    close(np.sort_complex(np.round(values, 9)), np.sort_complex(np.round(wanted, 9)), 1e-8)


def taylor(a: Array) -> Array:
    """The exponential by its series, of a small part of a."""
    parts, term = 2.0**-12 * a, np.broadcast_to(np.eye(a.shape[-1]), a.shape).astype(a.dtype)
    total = term.copy()
    for k in range(1, 12):
        term = term @ parts / k
        total = total + term
    for _ in range(12):
        total = total @ total
    return total


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("size", [0.01, 1.0, 9.0])
def test_expm(shape: tuple[int, ...], kind: str, size: float) -> None:
    a = drawn(*shape, kind=kind)
    a = a * (size / np.maximum(np.linalg.norm(a, axis=(-2, -1), keepdims=True), 1e-9))
    wanted = taylor(a)
    scale = max(1.0, float(np.abs(wanted).max(initial=0)))
    close(called("expm", a) / scale, wanted / scale, 1e-9)


def test_the_derivative_of_expm_takes_changes_of_any_size() -> None:
    a, change = normal(3, 3), normal(3, 3)
    found = run("expm_derivative", a, change)
    close(run("expm_derivative", a, change * 1e150) / 1e150, found, 1e-12)
    close(run("expm_derivative", a, change * 1e-150) / 1e-150, found, 1e-12)
    close(run("expm_derivative", a * 0, change), change)
    close(run("expm_derivative", a, change * 0), change * 0)


def of_rank(rows: int, columns: int, rank: int, kind: str) -> Array:
    return drawn(rows, rank, kind=kind) @ drawn(rank, columns, kind=kind)


def systems(kind: str) -> Iterator[Array]:
    yield from (drawn(*s, kind=kind) for s in ((4, 4), (5, 2), (2, 5), (2, 3, 2), (1, 1)))
    yield of_rank(5, 4, 2, kind)
    yield np.zeros((3, 2), complex if kind == "complex" else float)


@pytest.mark.parametrize("kind", ["real", "complex"])
def test_least_squares(kind: str) -> None:
    for a in systems(kind):
        b = drawn(*a.shape[:-1], 3, kind=kind)
        inverse = np.linalg.pinv(a, max(a.shape[-2:]) * 2.3e-16)
        close(called("pinv", a), inverse, 1e-9)
        close(called("lstsq", a, b), inverse @ b, 1e-9)
    a = np.diag([1.0, 1e-3])
    close(run("pinv", a, rcond=0.01), np.diag([1.0, 0.0]))
    close(run("lstsq", a, np.ones((2, 1)), rcond=0.01), [[1.0], [0.0]])


def test_the_parts_of_complex_numbers_are_the_last_axis() -> None:
    for name, op in OPS.items():
        if not issubclass(op, MatrixOperation):
            continue
        arrays = [np.zeros((2, 2, 3))] * len(op.operands)
        with pytest.raises(ShapeError, match=f"{name} of complex numbers needs a last axis of 2"):
            run(name, *arrays, complex=True)
