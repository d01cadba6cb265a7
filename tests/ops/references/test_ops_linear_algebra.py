"""Products, decompositions and solvers against NumPy and SciPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from reference_runs import close, normal, run

from xlac.ir.op import Array, ShapeError
from xlac_sdk.dtypes import DType


def test_dot_is_einsum() -> None:
    a, b = normal(2, 3, 4, 5), normal(4, 2, 6, 5)
    found = run(
        "dot", a, b, batch_lhs=(0,), batch_rhs=(1,), contract_lhs=(2, 3), contract_rhs=(0, 3)
    )
    close(found, np.einsum("bijk,jbck->bic", a, b))


def test_wider_results() -> None:
    a = np.full((1, 1000), 100, np.int8)
    assert run("dot", a, a, contract_lhs=(1,), contract_rhs=(1,), out_dtype=DType.I32) == 10_000_000


def test_einsum_covers_numpy() -> None:
    a, b = normal(2, 3, 4), normal(4, 3, 2)
    for equation in (
        "ijk,kji->",
        "ijk,kjl->il",
        "ijk,kli->jl",
        "ijk,kji->j",
        "i...k,k...l->i...l",
        "ij...,...jl->...l",
    ):
        close(run("einsum", a, b, equation=equation), np.einsum(equation, a, b))


@pytest.mark.parametrize(
    "left, lower, unit, transpose", list(itertools.product((True, False), repeat=4))
)
def test_triangular_solve(left: bool, lower: bool, unit: bool, transpose: bool) -> None:
    a, b = normal(2, 4, 4) + 3 * np.eye(4), normal(2, 4, 3)
    b = b if left else b.transpose(0, 2, 1)
    x = run("triangular_solve", a, b, left=left, lower=lower, unit=unit, transpose=transpose)
    part = np.tril(a) if lower else np.triu(a)
    if unit:
        part = part - np.einsum("bii,ij->bij", part, np.eye(4)) + np.eye(4)
    part = part.transpose(0, 2, 1) if transpose else part
    close(part @ x if left else x @ part, b)


def test_cholesky() -> None:
    half = normal(2, 4, 4)
    a = half @ half.transpose(0, 2, 1) + np.eye(4)
    close(run("cholesky", np.tril(a)), np.linalg.cholesky(a))
    close(run("cholesky", np.triu(a), lower=False), np.linalg.cholesky(a).transpose(0, 2, 1))


def factors(a: Array, packed: Array, permutation: Array) -> tuple[Array, Array, Array]:
    """L, U and the rows of a in their order."""
    count = min(a.shape[-2:])
    low = np.tril(packed[..., :count], -1) + np.eye(a.shape[-2], count)
    rows = np.take_along_axis(a, permutation[..., None].astype(np.int64), -2)
    return low, np.triu(packed[..., :count, :]), rows


@pytest.mark.parametrize(
    "shape", [(7, 7), (4, 9), (9, 4), (3, 5, 5), (2, 2, 40, 40), (1, 3), (3, 1)]
)
def test_lu(shape: tuple[int, ...]) -> None:
    a = normal(*shape)
    packed, pivots, permutation = run("lu", a)
    low, high, rows = factors(a, packed, permutation)
    close(low @ high, rows)
    assert np.all(np.abs(low) <= 1.0) and pivots.dtype == permutation.dtype == np.int32
    for at in np.ndindex(*shape[:-2]):
        made = list(range(shape[-2]))
        for k, pivot in enumerate(pivots[at]):
            assert pivot >= k
            made[k], made[pivot] = made[pivot], made[k]
        assert made == permutation[at].tolist()


def test_lu_of_singular_matrices() -> None:
    """A column of zeros is left as it is, as LAPACK does; the first of equal pivots is taken."""
    a = np.array([[0.0, 2.0, 1.0], [0.0, -2.0, 3.0], [0.0, 1.0, 1.0]])
    packed, pivots, permutation = run("lu", a)
    low, high, rows = factors(a, packed, permutation)
    assert np.array_equal(packed[:, 0], [0.0, 0.0, 0.0]) and pivots.tolist() == [0, 1, 2]
    close(low @ high, rows)
    packed, pivots, _ = run("lu", np.array([[1.0, 2.0], [np.nan, 3.0]]))
    assert pivots.tolist() == [1, 1] and np.isnan(packed).tolist() == [[True, False], [True, True]]
    _, pivots, _ = run("lu", np.array([[-1.0, 2.0], [1.0, 3.0]]))
    assert pivots.tolist() == [0, 1]


@pytest.mark.parametrize("shape", [(6, 6), (3, 5, 5), (1, 1), (2, 0, 3, 3), (2, 0, 0)])
def test_systems_are_numpys(shape: tuple[int, ...]) -> None:
    a, b = normal(*shape), normal(*shape[:-1], 2)
    close(run("solve", a, b), np.linalg.solve(a, b))
    close(run("inv", a), np.linalg.inv(a))
    close(run("det", a), np.linalg.det(a))
    for found, wanted in zip(run("slogdet", a), np.linalg.slogdet(a), strict=True):
        close(found, wanted)
    packed, _, permutation = run("lu", a)
    close(run("lu_solve", packed, permutation, b), np.linalg.solve(a, b))
    turned = np.swapaxes(a, -1, -2)
    found = run("lu_solve", packed, permutation, b, transpose=True)
    close(found, np.linalg.solve(turned, b))


def test_determinants_of_extreme_matrices() -> None:
    singular = np.array([[1.0, 2.0], [2.0, 4.0]])
    assert run("det", singular) == 0.0
    assert [float(v) for v in run("slogdet", singular)] == [0.0, -np.inf]
    assert not np.isfinite(run("inv", singular)).any()
    large = np.diag(np.full(5, -1e200))
    assert [float(v) for v in run("slogdet", large)] == [-1.0, pytest.approx(1000 * np.log(10))]
    assert run("det", large) == -np.inf
    assert np.isnan(run("det", np.array([[np.nan, 1.0], [1.0, 1.0]])))


def test_matrices_that_are_refused() -> None:
    for name in ("lu", "inv", "det", "slogdet", "cholesky"):
        with pytest.raises(ShapeError, match=f"{name} takes f64, f32"):
            run(name, np.zeros((2, 2), np.float16))
        with pytest.raises(ShapeError, match=f"{name} needs .*matrices of known size"):
            run(name, np.zeros(3))
    with pytest.raises(
        ShapeError, match=r"inv needs square matrices of known size, got f64\[2, 3\]"
    ):
        run("inv", np.zeros((2, 3)))
    with pytest.raises(ShapeError, match=r"f64\[3, 1\] does not fit f64\[2, 2\]"):
        run("solve", np.zeros((2, 2)), np.zeros((3, 1)))
    with pytest.raises(ShapeError, match=r"needs a permutation i32\[2\]"):
        run("lu_solve", np.zeros((2, 2)), np.zeros(3, np.int32), np.zeros((2, 1)))


@pytest.mark.parametrize("size", [33, 70])
def test_blocks(size: int) -> None:
    """Sizes above those that are computed a column after the other."""
    half, b = normal(size, size), normal(size, 3)
    a = half @ half.T + np.eye(size)
    low = run("cholesky", a)
    close(low, np.linalg.cholesky(a))
    for lower, transpose in itertools.product((True, False), repeat=2):
        x = run("triangular_solve", low if lower else low.T, b, lower=lower, transpose=transpose)
        close((low if lower else low.T).T @ x if transpose else (low if lower else low.T) @ x, b)


def orthonormal(rows: Array) -> None:
    """Asserts that rows are orthogonal and of length 1."""
    made = rows @ np.swapaxes(rows, -1, -2)
    close(made, np.broadcast_to(np.eye(rows.shape[-2]), made.shape))


@pytest.mark.parametrize("shape", [(5, 5), (3, 6), (6, 3), (2, 4, 4), (40, 21), (1, 1), (2, 1, 3)])
@pytest.mark.parametrize("complete", [True, False])
def test_qr(shape: tuple[int, ...], complete: bool) -> None:
    a = normal(*shape)
    q, r = run("qr", a, complete=complete)
    wanted = np.linalg.qr(a, "complete" if complete else "reduced")
    assert q.shape == wanted[0].shape and np.array_equal(r, np.triu(r))
    close(q @ r, a)
    close(
        np.swapaxes(q, -1, -2) @ q,
        np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], *q.shape[-1:] * 2)),
    )
    if not complete:
        close(q, wanted[0])


def test_qr_of_columns_that_depend_on_others() -> None:
    """Numbers below the normal ones, which lose digits, are reflected as exactly as others."""
    a = np.ones((33, 33), np.float32)
    q, _ = run("qr", a)
    close(q.T @ q, np.eye(33), 1e-5)
    q, r = run("qr", np.zeros((3, 2)))
    assert np.array_equal(q, np.eye(3, 2)) and not r.any()


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (5, 5), (2, 4, 4), (13, 13)])
def test_eigh(shape: tuple[int, ...]) -> None:
    a = normal(*shape)
    whole = np.tril(a) + np.swapaxes(np.tril(a, -1), -1, -2)
    values, vectors = run("eigh", a)
    close(values, np.linalg.eigvalsh(whole))
    close(whole @ vectors, vectors * values[..., None, :])
    orthonormal(np.swapaxes(vectors, -1, -2))
    close(run("eigh", np.swapaxes(a, -1, -2), lower=False)[0], values)


def test_eigh_of_extreme_matrices() -> None:
    for size in (1e-300, 1e300):
        close(run("eigh", np.array([[2.0, 1.0], [1.0, 2.0]]) * size)[0] / size, [1.0, 3.0])
    assert np.array_equal(run("eigh", np.zeros((3, 3)))[1], np.eye(3))
    close(run("eigh", np.ones((4, 4)))[0], [0.0, 0.0, 0.0, 4.0])
    for wrong in (np.inf, np.nan):
        both = np.stack([np.eye(2), np.array([[1.0, 0.0], [wrong, 1.0]])])
        values, vectors = run("eigh", both)
        assert np.isnan(values[1]).all() and np.isnan(vectors[1]).all()
        assert np.array_equal(values[0], [1.0, 1.0])


@pytest.mark.parametrize(
    "shape", [(4, 4), (5, 3), (3, 5), (2, 4, 2), (1, 1), (1, 3), (9, 9), (2, 0, 2)]
)
@pytest.mark.parametrize("full", [True, False])
def test_svd(shape: tuple[int, ...], full: bool) -> None:
    a = normal(*shape)
    u, s, v = run("svd", a, full_matrices=full)
    wanted = np.linalg.svd(a, full_matrices=full)
    assert [x.shape for x in (u, s, v)] == [x.shape for x in wanted]
    count = s.shape[-1]
    close(s, wanted[1])
    close((u[..., :count] * s[..., None, :]) @ v[..., :count, :], a)
    orthonormal(np.swapaxes(u, -1, -2))
    orthonormal(v)


def test_svd_of_extreme_matrices() -> None:
    for a in (np.ones((5, 5)), np.zeros((4, 3)), np.diag([1e-200, 0.0, 1e200])):
        u, s, v = run("svd", a)
        size = max(np.abs(a).max(), 1.0)
        close((u[:, : len(s)] * (s / size)) @ v, a / size)
        close(u.T @ u, np.eye(len(u)))
        close(v @ v.T, np.eye(len(v)))
    assert all(np.isnan(x).all() for x in run("svd", np.full((2, 2), np.inf)))
