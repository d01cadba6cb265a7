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
