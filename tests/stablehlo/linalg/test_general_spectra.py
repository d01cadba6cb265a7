"""Schur's form and eigenvectors of general matrices, by residuals: random ones, and those on which
iterations and back substitution are known to fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.op import Array
from xlac.ops import build
from xlac.ops.complex.linalg.eigenvectors import eig
from xlac.ops.complex.linalg.numbers import Numbers
from xlac.ops.complex.linalg.schur import eigenvalues, schur
from xlac_sdk.dtypes import DType

Program = Callable[[Array], list[Array]]


def program(
    function: Callable[[Numbers], list[Node]], like: Array, target: str | None = None
) -> Program:
    """A function of real or complex matrices, compiled, or interpreted if there is no target. It
    takes matrices and gives the real and imaginary parts of its results.
    """
    part = like.real.dtype
    names = ["real", "imaginary"] if np.iscomplexobj(like) else ["real"]
    params = tuple(build.param(name, DType.of(part), like.shape) for name in names)
    outputs = {f"y{n}": node for n, node in enumerate(function(params))}
    graph = Graph("spectra", params, outputs)
    compiled = xlac.compile(xlac.Model(graph, {}), target=target) if target else None

    def called(a: Array) -> list[Array]:
        given = [np.ascontiguousarray(x) for x in (a.real, a.imag)][: len(names)]
        if compiled is not None:
            return [np.asarray(x) for x in compiled(*given).values()]
        with np.errstate(all="ignore"):
            return list(interpret(graph, dict(zip(names, given, strict=True))).values())

    return called


def merged(numbers: tuple[Numbers, ...]) -> list[Node]:
    """All parts of several results."""
    return [part for parts in numbers for part in parts]


def joined(parts: list[Array]) -> list[Array]:
    """Complex numbers of real and imaginary parts."""
    return [a + 1j * b for a, b in zip(parts[::2], parts[1::2], strict=True)]


def adjoint(x: Array) -> Array:
    return np.conj(np.swapaxes(x, -1, -2))


def matrices(size: int, kind: type, seed: int) -> Iterator[tuple[str, Array]]:
    """Named matrices of one size, f64 or c128."""
    rng = np.random.default_rng(seed)

    def drawn() -> Array:
        a = rng.normal(size=(size, size))
        return a + 1j * rng.normal(size=a.shape) if kind is complex else a

    below = np.diag(np.ones(size - 1), -1)
    jordan = 2 * np.eye(size) + below.T
    unitary = np.linalg.qr(drawn())[0]
    yield "random", drawn()
    yield "integers", np.round(drawn())
    yield "one Jordan block", jordan
    yield "a rotated Jordan block", unitary @ jordan @ adjoint(unitary)
    yield "zero", np.zeros((size, size))
    yield "the identity", np.eye(size)
    yield "ones", np.ones((size, size))
    yield "a cyclic shift", np.roll(np.eye(size), 1, 0)
    yield "a companion matrix", below + np.eye(1, size, 0).T * rng.normal(size=size)
    yield "roots 1, 2, …", below - np.eye(1, size, 0).T * np.poly(np.arange(1, size + 1))[1:]
    yield "large", drawn() * 1e150
    yield "small", drawn() * 1e-150
    yield "lower triangular", np.tril(drawn())
    yield "upper triangular", np.triu(drawn())
    half = drawn()
    yield "skew", half - adjoint(half)
    yield "symmetric", half + adjoint(half)
    yield "unitary", unitary
    yield "graded", drawn() * 10.0 ** -np.arange(size)[:, None]


def judged(a: Array, t: Array, z: Array) -> None:
    """Schur's form is within its bounds, in the form that is promised."""
    size = a.shape[-1]
    limit = 30 * size * float(np.finfo(t.dtype).eps)
    norm = np.linalg.norm(a, axis=(-2, -1))
    assert np.all(np.linalg.norm(z @ t @ adjoint(z) - a, axis=(-2, -1)) <= limit * norm)
    assert np.all(np.linalg.norm(adjoint(z) @ z - np.eye(size), axis=(-2, -1)) <= limit)
    low = np.diagonal(t, -1, -2, -1)
    assert not np.tril(t, -2).any()
    if np.iscomplexobj(t):
        assert not low.any()
        return
    assert not (low[..., :-1] * low[..., 1:]).any()
    high, d = np.diagonal(t, 1, -2, -1), np.diagonal(t, 0, -2, -1)
    block = low != 0
    assert np.all((low * high < 0)[block]) and np.all((d[..., :-1] == d[..., 1:])[block])


@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize("size", [2, 3, 5, 8])
@pytest.mark.sampled(8)
def test_what_iterations_fail_on(kind: type, size: int) -> None:
    like = np.zeros((size, size), kind)
    forms = program(lambda a: merged(schur(a)[:2]), like)
    vectors = program(lambda a: merged(eig(a)[:3]), like)
    for name, a in matrices(size, kind, size):
        found = forms(a)
        judged(a, *(joined(found) if kind is complex else found))
        w, u, v = joined(vectors(a))
        norm = np.linalg.norm(a) or 1.0
        limit = 30 * size * float(np.finfo(float).eps)
        scaled, values = a / norm, w / norm
        assert np.linalg.norm(scaled @ v - v * values, axis=0).max() <= limit, name
        assert np.linalg.norm(adjoint(scaled) @ u - u * values.conj(), axis=0).max() <= limit, name
        for x in (u, v):
            assert np.allclose(np.linalg.norm(x, axis=0), 1.0), name
            largest = np.abs(x) >= (1 - 1e-12) * np.abs(x).max(0)
            assert np.all((largest & (x.imag == 0) & (x.real > 0)).any(0)), name
        if kind is float:
            assert np.array_equal(w[w.imag > 0], w[w.imag < 0].conj()), name


@pytest.mark.parametrize("kind", [np.float64, np.complex64, np.float32, np.complex128])
@pytest.mark.sampled(4)
def test_compiled_forms(kind: type) -> None:
    """A batch whose matrices need sweeps of different numbers, for cpu."""
    a = np.random.default_rng(2).normal(size=(3, 6, 6)).astype(kind)
    a[1] = np.eye(6)
    a[2] = np.roll(np.eye(6), 1, 0)
    found = program(lambda a: merged(schur(a)[:2]), a, "cpu")(a)
    judged(a, *(joined(found) if np.iscomplexobj(a) else found))


@pytest.mark.parametrize("kind", [float, complex])
def test_matrices_without_an_answer(kind: type) -> None:
    """Infinities and NaNs make the results of their own matrix NaN; there may be no matrix."""
    like = np.zeros((3, 2, 2), kind)

    def both(a: Numbers) -> list[Node]:
        t, z, found = schur(a)
        values, _, vectors, also = eig(a)
        report = [build.cast(x, DType.I32) for x in (found, also)]
        return [*t, *z, *eigenvalues(t), *values, *vectors, *report]

    a = np.stack([np.eye(2), np.eye(2), np.eye(2)]).astype(kind)
    a[1, 0, 1], a[2, 1, 1] = np.nan, np.inf
    *found, one, two = program(both, like)(a)
    assert one.tolist() == two.tolist() == [1, 0, 0]
    for x in found:
        assert np.isfinite(x[0]).all() and np.isnan(x[1:]).all()
    for shape in ((0, 0), (2, 0, 0), (0, 3, 3)):
        made: Any = program(both, np.zeros(shape, kind))(np.zeros(shape, kind))
        assert [x.shape for x in made[:2]] == [shape, shape] and made[-1].shape == shape[:-2]
