"""Derivatives of linear algebra: beside differences, and of singular matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from differences import compare, evaluated

from xlac.autodiff.gradient import linearize
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops import build
from xlac_sdk.dtypes import DType

RNG = np.random.default_rng(3)


def applied(name: str, arrays: dict[str, Array], **given: Any) -> tuple[list[Node], list[Node]]:
    """Parameters for arrays, and the results of an operation."""
    params = [build.param(n, DType.of(a.dtype), a.shape) for n, a in arrays.items()]
    found = build.apply(name, *params, **given)
    return params, list(found) if isinstance(found, tuple) else [found]


def positive(*shape: int) -> Array:
    half: Array = RNG.normal(size=shape)
    return half @ np.swapaxes(half, -1, -2) + np.eye(shape[-1])


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 3)])
def test_cholesky(shape: tuple[int, ...], lower: bool) -> None:
    arrays = {"a": positive(*shape)}
    compare(*applied("cholesky", arrays, lower=lower), arrays)


@pytest.mark.parametrize("number", range(16))
@pytest.mark.sampled(4)
def test_triangular_solve(number: int) -> None:
    flags = {
        name: bool(number >> bit & 1)
        for bit, name in enumerate(("left", "lower", "unit", "transpose"))
    }
    arrays = {"a": RNG.normal(size=(2, 3, 3)) + 3 * np.eye(3), "b": RNG.normal(size=(2, 3, 3))}
    compare(*applied("triangular_solve", arrays, **flags), arrays)


@pytest.mark.parametrize("shape", [(5, 5), (3, 6), (6, 3), (2, 4, 4)])
def test_lu(shape: tuple[int, ...]) -> None:
    arrays = {"a": RNG.normal(size=shape)}
    compare(*applied("lu", arrays), arrays)


@pytest.mark.parametrize("name", ["inv", "det", "slogdet", "solve"])
def test_what_lu_solves(name: str) -> None:
    arrays = {"a": RNG.normal(size=(2, 5, 5))}
    if name == "solve":
        arrays["b"] = RNG.normal(size=(2, 5, 3))
    compare(*applied(name, arrays), arrays, tolerance=1e-5)


@pytest.mark.parametrize("a", [
    [[1.0, 2.0], [2.0, 4.0]], [[0.0, 1.0], [0.0, 2.0]], [[0.0]],
    [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]],
])  # fmt: skip
def test_determinants_of_singular_matrices(a: list[list[float]]) -> None:
    """The gradient is the matrix of cofactors."""
    values = np.array(a)
    params, outputs = applied("det", {"a": values})
    found = linearize(outputs, params).transposed([build.constant(1.0, DType.F64)])
    (gradient,) = evaluated(params, found, {"a": values})
    count = len(a)
    cofactors = [
        [
            (-1) ** (i + j)
            * np.linalg.det(np.delete(np.delete(values, i, 0), j, 1).reshape((count - 1,) * 2))
            for j in range(count)
        ]
        for i in range(count)
    ]
    wanted = np.array(cofactors)
    if values[0, 0] == 0.0 and count > 1:  # U's first number is 0: it is said not to hold
        assert not np.isfinite(gradient).all()
    else:
        np.testing.assert_allclose(gradient, wanted, 1e-12, 1e-12)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 3, 3)])
@pytest.mark.parametrize("complete", [True, False])
def test_qr(shape: tuple[int, ...], complete: bool) -> None:
    """A complete Q with more rows than columns has the derivative of the reflections."""
    arrays = {"a": RNG.normal(size=shape)}
    compare(*applied("qr", arrays, complete=complete), arrays, tolerance=1e-5)


@pytest.mark.parametrize("lower", [True, False])
def test_eigh(lower: bool) -> None:
    arrays = {"a": RNG.normal(size=(2, 4, 4))}
    compare(*applied("eigh", arrays, lower=lower), arrays, tolerance=1e-5)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_svd(shape: tuple[int, ...]) -> None:
    arrays = {"a": RNG.normal(size=shape)}
    compare(*applied("svd", arrays, full_matrices=False), arrays, tolerance=1e-5)
