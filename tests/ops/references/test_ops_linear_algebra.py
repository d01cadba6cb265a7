"""Products, decompositions and solvers against NumPy and SciPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from reference_runs import close, normal, run

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
