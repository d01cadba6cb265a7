"""Linear algebra of JAX: what it lowers to calls of LAPACK is ours, with JAX's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlac
from xlac_sdk.source import SourceError

jax = pytest.importorskip("jax")
jnp = jax.numpy

from jax.scipy import linalg as scipy_linalg

RNG = np.random.default_rng(4)


def absolute(found: Any) -> Any:
    """Vectors without their signs."""
    return jax.tree.map(jnp.abs, found)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "lu": jax.lax.linalg.lu,
    "solve": lambda a: jnp.linalg.solve(a, a @ a + 1),
    "solve of vectors": lambda a: jnp.linalg.solve(a, a[..., :1, :].swapaxes(-1, -2)),
    "inv": jnp.linalg.inv,
    "det": jnp.linalg.det,
    "slogdet": jnp.linalg.slogdet,
    "expm": scipy_linalg.expm,
    "gradient of solve": jax.grad(lambda a: (jnp.linalg.solve(a, a * 2 + 1) ** 2).sum()),
    "gradient of det": jax.grad(lambda a: jnp.linalg.det(a).sum()),
    "gradient of lu": jax.grad(lambda a: (jax.lax.linalg.lu(a)[0] ** 2).sum()),
    "qr": jnp.linalg.qr,
    "complete qr": lambda a: jnp.linalg.qr(a[..., :-1], mode="complete"),
    "eigh": lambda a: absolute(jnp.linalg.eigh(a + a.swapaxes(-1, -2))),
    "svd": lambda a: absolute(jnp.linalg.svd(a)),
    "singular values": lambda a: jnp.linalg.svd(a[..., 1:, :], compute_uv=False),
    "pinv": lambda a: jnp.linalg.pinv(a[..., :2]),
    "gradient of qr": jax.grad(lambda a: (jnp.linalg.qr(a)[1] ** 2).sum() + a.sum()),
    "gradient of eigh": jax.grad(lambda a: (jnp.linalg.eigh(a @ a.swapaxes(-1, -2))[0] ** 2).sum()),
    "gradient of svd": jax.grad(lambda a: (jnp.linalg.svd(a, full_matrices=False)[1] ** 3).sum()),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.sampled(4)
def test_results_are_those_of_jax(name: str) -> None:
    for shape, dtype in (((5, 5), np.float64), ((2, 4, 4), np.float32), ((1, 1), np.float64)):
        a = RNG.normal(size=shape).astype(dtype)
        with jax.enable_x64(True):
            found = jax.tree.leaves(xlac.from_jax(FUNCTIONS[name], a)(a))
            wanted = jax.tree.leaves(jax.jit(FUNCTIONS[name])(a))
        exact = 1e-10 if dtype is np.float64 else 2e-3
        for x, y in zip(found, wanted, strict=True):
            assert x.dtype == y.dtype and x.shape == y.shape
            np.testing.assert_allclose(x, y, exact, exact)


def test_matrices_without_an_answer_are_nan() -> None:
    a = np.array([[1.0, np.nan], [2.0, 3.0]], np.float32)
    for function in (jnp.linalg.eigh, jnp.linalg.svd):
        for found in jax.tree.leaves(xlac.from_jax(function, a)(a)):
            assert np.isnan(found).all()


COMPLEX: dict[str, Callable[[Any], Any]] = {
    "cholesky": lambda a: jnp.linalg.cholesky(a @ a.swapaxes(-1, -2).conj() + 2 * jnp.eye(4)),
    "solve": lambda a: jnp.linalg.solve(a, a @ a + 1),
    "inv": jnp.linalg.inv,
    "det": jnp.linalg.det,
    "expm": lambda a: scipy_linalg.expm(a / 4),
    "lstsq": lambda a: jnp.linalg.lstsq(a[0, :, :3], a[1, :, :2])[0],
    "qr": jnp.linalg.qr,
    "eigenvalues": lambda a: jnp.linalg.eigvalsh(a + a.swapaxes(-1, -2).conj()),
    "singular values": lambda a: jnp.linalg.svd(a[..., 1:, :], compute_uv=False),
    "hessenberg": lambda a: scipy_linalg.hessenberg(a, calc_q=True),
    "tridiagonal": lambda a: jax.lax.linalg.tridiagonal(a + a.swapaxes(-1, -2).conj())[1:],
    "tridiagonal_solve": lambda a: jax.lax.linalg.tridiagonal_solve(
        a[:, 0].at[:, 0].set(0), a[:, 1], a[:, 2].at[:, -1].set(0), a
    ),
    "gradient of det": jax.grad(lambda a: jnp.abs(jnp.linalg.det(a)).sum()),
}


@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.sampled(5)
def test_results_of_complex_matrices_are_those_of_jax(name: str, dtype: Any) -> None:
    a = (RNG.normal(size=(2, 4, 4)) + 1j * RNG.normal(size=(2, 4, 4))).astype(dtype)
    with jax.enable_x64(True):
        found = jax.tree.leaves(xlac.from_jax(COMPLEX[name], a)(a))
        wanted = jax.tree.leaves(jax.jit(COMPLEX[name])(a))
    exact = 1e-10 if dtype is np.complex128 else 2e-3
    for x, y in zip(found, wanted, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_allclose(x, y, exact, exact)


@pytest.mark.parametrize("name", ["hessenberg", "tridiagonal", "tridiagonal_solve"])
@pytest.mark.sampled(3)
def test_results_of_real_matrices_are_those_of_jax(name: str) -> None:
    a = RNG.normal(size=(2, 4, 4))
    with jax.enable_x64(True):
        found = jax.tree.leaves(xlac.from_jax(COMPLEX[name], a)(a))
        wanted = jax.tree.leaves(jax.jit(COMPLEX[name])(a))
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, 1e-10, 1e-10)


SPECTRA: dict[str, Callable[[Any], Any]] = {
    "eig": lambda a: jax.lax.linalg.eig(a, compute_left_eigenvectors=True),
    "eigvals": jnp.linalg.eigvals,
    "schur": lambda a: jax.lax.linalg.schur(a),
    "complex schur": lambda a: scipy_linalg.schur(a, output="complex"),
    "roots": lambda a: jnp.roots(a[0, 0], strip_zeros=False),
    "sqrtm": lambda a: scipy_linalg.sqrtm(a[0] @ a[0].conj().T),
    "gradient of eigvals": jax.grad(lambda a: jnp.abs(jnp.linalg.eigvals(a)).sum()),
}


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("dtype", [np.float64, np.complex64])
@pytest.mark.sampled(7)
def test_spectra_of_general_matrices_are_those_of_jax(name: str, dtype: Any) -> None:
    """What neither signs nor the order of eigenvalues change."""
    a = RNG.normal(size=(2, 4, 4)).astype(dtype)
    if dtype is np.complex64:
        a = (a + 1j * RNG.normal(size=a.shape)).astype(dtype)

    def found(called: Any) -> list[Any]:
        results = [np.asarray(x) for x in jax.tree.leaves(called(a))]
        if name == "eig":
            w, u, v = results
            made = [v * w[..., None, :] @ np.linalg.inv(v), u @ np.linalg.inv(u * w[..., None, :])]
            return [np.sort_complex(w.astype(complex)), made[0], np.conj(made[1])]
        if "schur" in name:
            t, z = results
            return [z @ t @ np.conj(np.swapaxes(z, -1, -2)), np.tril(t, -2)]
        return [np.sort_complex(x) if x.ndim < 2 or name == "eigvals" else x for x in results]

    with jax.enable_x64(True):
        ours, theirs = found(xlac.from_jax(SPECTRA[name], a)), found(jax.jit(SPECTRA[name]))
    exact = 1e-10 if dtype is np.float64 else 2e-3
    for x, y in zip(ours, theirs, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_allclose(x, y, exact, exact)


def test_sorted_schur_forms_are_refused() -> None:
    with pytest.raises((SourceError, NotImplementedError), match="sort"):
        xlac.from_jax(lambda a: jax.lax.linalg.schur(a, sort_eig_vals=True), np.eye(2))(np.eye(2))
