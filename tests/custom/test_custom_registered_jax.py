"""Registered operations in JAX: called, differentiated, mapped, in functions that xlac takes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from custom_ops import random
from registered_ops import ROOT, forgotten, gated, run_chapter

import xlac
from xlac_sdk.source import SourceError

jax = pytest.importorskip("jax")
A, B = random(4, 6), random(6, seed=1)


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with forgotten():
        yield


def test_it_is_a_function_with_a_derivative() -> None:
    op = gated().jax
    np.testing.assert_array_equal(op(A, B, slope=2.0), A * B * 2)
    loss = jax.grad(lambda a, b: (op(a, b, slope=3.0) ** 2).sum(), argnums=(0, 1))
    plain = jax.grad(lambda a, b: ((a * b * 3.0) ** 2).sum(), argnums=(0, 1))
    for mine, wanted in zip(jax.jit(loss)(A, B), plain(A, B), strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-5)


def test_it_is_mapped() -> None:
    op, many = gated().jax, random(3, 4, 6)
    got = jax.vmap(lambda a: op(a, B, slope=2.0))(many)
    np.testing.assert_array_equal(got, many * B * 2)


def test_from_jax_has_the_operation() -> None:
    op = gated().jax

    def function(a: jax.Array, b: jax.Array) -> jax.Array:
        return op(a, b, slope=4.0) + 1

    made = xlac.from_jax(function, A, B, allow_kernels=True)
    np.testing.assert_array_equal(made(A, B), A * B * 4 + 1)
    slope = xlac.from_jax(jax.grad(lambda a, b: function(a, b).sum()), A, B, allow_kernels=True)
    np.testing.assert_allclose(slope(A, B), np.broadcast_to(B * 4, A.shape), rtol=1e-6)


def test_it_is_a_target_of_foreign_calls() -> None:
    op = gated()
    assert op.jax
    called = jax.ffi.ffi_call("xlac.gated", jax.ShapeDtypeStruct(A.shape, np.float32))

    def function(a: jax.Array, b: jax.Array) -> jax.Array:
        return called(a * 2, b, slope=np.float64(3)) + 1

    wanted = A * 2 * B * np.float32(3) + 1
    np.testing.assert_array_equal(jax.jit(function)(A, B), wanted)
    np.testing.assert_array_equal(xlac.from_jax(function, A, B, allow_kernels=True)(A, B), wanted)


def test_mistakes_in_foreign_calls_reach_the_caller() -> None:
    assert gated().jax
    whole = jax.ShapeDtypeStruct(A.shape, np.float32)
    called = jax.ffi.ffi_call("xlac.gated", whole)
    with pytest.raises(Exception, match=r"unknown attribute 'slop'.*XL2005"):
        jax.block_until_ready(called(A, B, slop=np.float64(3)))
    with pytest.raises(Exception, match="attribute 'slope' is no number"):
        jax.block_until_ready(called(A, B, slope=np.ones(3)))
    short = jax.ffi.ffi_call("xlac.gated", jax.ShapeDtypeStruct((4, 5), np.float32))
    with pytest.raises(Exception, match=r"has results float32\[4, 5\], and not float32\[4, 6\]"):
        jax.block_until_ready(short(A, B))


def test_open_sizes_are_refused() -> None:
    (rows,) = jax.export.symbolic_shape("rows")
    with pytest.raises(SourceError, match=r"need known sizes.*XL7212"):
        xlac.from_jax(gated().jax, jax.ShapeDtypeStruct((rows, 6), np.float32), B)


def test_the_chapters_snippets_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    run_chapter("jax")
