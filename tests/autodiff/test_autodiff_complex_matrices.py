"""Derivatives of operations on complex matrices, and of eigenvectors, similar matrices,
exponentials and least squares: beside differences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from differences import compare

from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops import build
from xlac_sdk.dtypes import DType

RNG = np.random.default_rng(11)
Values = dict[str, Array]


def applied(name: str, arrays: Values, **given: Any) -> tuple[list[Node], list[Node]]:
    """Parameters for arrays, and the results of an operation."""
    params = [build.param(n, DType.of(a.dtype), a.shape) for n, a in arrays.items()]
    found = build.apply(name, *params, **given)
    return params, list(found) if isinstance(found, tuple) else [found]


def definite(*shape: int) -> Array:
    """Positive definite Hermitian matrices, as pairs."""
    a = RNG.normal(size=(*shape, 2)) @ np.array([1.0, 1j])
    a = a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(shape[-1])
    return np.stack([a.real, a.imag], -1)


@pytest.mark.parametrize("lower", [True, False])
def test_cholesky(lower: bool) -> None:
    arrays = {"a": definite(2, 3, 3)}
    compare(*applied("cholesky", arrays, lower=lower, complex=True), arrays)


@pytest.mark.parametrize("number", range(16))
@pytest.mark.sampled(8)
def test_triangular_solve(number: int) -> None:
    flags = {
        name: bool(number >> bit & 1)
        for bit, name in enumerate(("left", "lower", "unit", "transpose"))
    }
    arrays = {"a": RNG.normal(size=(2, 3, 3, 2)), "b": RNG.normal(size=(2, 3, 3, 2))}
    arrays["a"][..., 0] += 3 * np.eye(3)
    compare(*applied("triangular_solve", arrays, complex=True, **flags), arrays)


@pytest.mark.parametrize("name", ["lu", "inv", "det", "slogdet", "solve", "qr"])
def test_systems(name: str) -> None:
    arrays = {"a": RNG.normal(size=(2, 4, 4, 2))}
    if name == "solve":
        arrays["b"] = RNG.normal(size=(2, 4, 3, 2))
    compare(*applied(name, arrays, complex=True), arrays, tolerance=1e-5)


@pytest.mark.parametrize("name", ["lu", "qr", "householder_qr"])
@pytest.mark.parametrize("shape", [(3, 5), (5, 3)])
def test_factors_of_other_shapes(name: str, shape: tuple[int, int]) -> None:
    arrays = {"a": RNG.normal(size=(*shape, 2))}
    compare(*applied(name, arrays, complex=True), arrays, tolerance=1e-5)


def with_phases_left_out(name: str, results: Sequence[Node], weights: Array) -> list[Node]:
    """What does not depend on the phases of vectors: values, and sums over pairs of columns and
    rows that belong together.
    """

    def column(x: Node, n: int) -> tuple[Node, Node]:
        rank = x.type.rank
        cut = build.cut(x, rank - 2, n, n + 1)
        a, b = (build.cut(cut, rank - 1, k, k + 1) for k in (0, 1))
        return build.reshape(a, x.shape[:-2]), build.reshape(b, x.shape[:-2])

    if name == "eigh":
        values, vectors = results
        a, b = column(vectors, 0)
        return [values, build.add(build.mul(a, a), build.mul(b, b))]
    u, s, v = results
    a, b = column(u, 1)
    turned = build.transpose(v, [1, 0, 2])
    c, d = column(turned, 1)  # of the conjugates of V
    size = a.shape[-1]
    other = c.shape[-1]
    shape = (size, other)
    a, b = (build.back(x, shape, (1,)) for x in (a, b))
    c, d = (build.back(x, shape, (0,)) for x in (c, d))
    real = build.sub(build.mul(a, c), build.mul(b, d))
    return [s, real, build.add(build.mul(a, d), build.mul(b, c))]


@pytest.mark.parametrize("lower", [True, False])
def test_eigh(lower: bool) -> None:
    arrays = {"a": RNG.normal(size=(4, 4, 2))}
    params, results = applied("eigh", arrays, lower=lower, complex=True)
    compare(params, with_phases_left_out("eigh", results, arrays["a"]), arrays, tolerance=1e-5)


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_svd(shape: tuple[int, int]) -> None:
    arrays = {"a": RNG.normal(size=(*shape, 2))}
    params, results = applied("svd", arrays, full_matrices=False, complex=True)
    compare(params, with_phases_left_out("svd", results, arrays["a"]), arrays, tolerance=1e-5)


COMPLEX: list[tuple[bool, Callable[..., Array]]] = [
    (False, lambda *s: RNG.normal(size=s)),
    (True, lambda *s: RNG.normal(size=(*s, 2))),
]


@pytest.mark.parametrize(("complex_", "draw"), COMPLEX)
@pytest.mark.parametrize("name", ["eig", "hessenberg", "tridiagonal", "expm", "pinv"])
@pytest.mark.sampled(4)
def test_other_operations(name: str, complex_: bool, draw: Callable[..., Array]) -> None:
    arrays = {"a": draw(2, 4, 4)}
    compare(*applied(name, arrays, complex=complex_), arrays, tolerance=1e-5)


@pytest.mark.parametrize(("complex_", "draw"), COMPLEX)
def test_derivatives_of_the_derivative_of_expm(complex_: bool, draw: Callable[..., Array]) -> None:
    arrays = {"a": draw(3, 3), "change": draw(3, 3)}
    compare(*applied("expm_derivative", arrays, complex=complex_), arrays, tolerance=1e-5)


@pytest.mark.parametrize(("complex_", "draw"), COMPLEX)
@pytest.mark.parametrize("shape", [(3, 3), (5, 2), (2, 4)])
@pytest.mark.sampled(6)
def test_least_squares(complex_: bool, draw: Callable[..., Array], shape: tuple[int, int]) -> None:
    arrays = {"a": draw(*shape), "b": draw(shape[0], 2)}
    compare(*applied("lstsq", arrays, complex=complex_), arrays, tolerance=1e-5)
    alone = {"a": arrays["a"]}
    compare(*applied("pinv", alone, complex=complex_), alone, tolerance=1e-5)


def test_schur_has_no_derivative() -> None:
    """It is refused by name, where a loop of the iteration would have given another reason."""
    arrays = {"a": RNG.normal(size=(3, 3))}
    with pytest.raises(Exception, match="schur"):
        compare(*applied("schur", arrays), arrays)
