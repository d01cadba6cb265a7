"""Linear algebra compiled for every target: judged by residuals, which no order of rounding
changes.
"""

from __future__ import annotations

import numpy as np
import pytest

import xlac
from xlac.ir.op import Array
from xlac.ops.error_bounds import RESIDUALS

FACTOR = {name: max(bound.factor for bound in bounds) for name, bounds in RESIDUALS.items()}
RNG = np.random.default_rng(8)


def norm(x: Array) -> float:
    return float(np.linalg.norm(x))


def turned(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)


@pytest.mark.parametrize(
    ("target", "dtype"), [("reference", np.float64), ("c", np.float32), ("cpu", np.float64)]
)
@pytest.mark.sampled(3)
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


@pytest.mark.parametrize(
    ("target", "dtype"), [("reference", np.float64), ("c", np.float32), ("cpu", np.float64)]
)
@pytest.mark.sampled(3)
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
