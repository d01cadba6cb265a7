"""`xlac.from_jax` beside `jax.jit`: new shapes and types, conversions, kinds of results, pickles,
transformations, and programs of `jax.export`.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.frontends.jax import devices
from xlac.frontends.loader import load
from xlac.runtime import programs
from xlac_sdk.source import SourceError

jax = pytest.importorskip("jax")
jnp = jax.numpy
X = np.float32([1, 2, 3])


def scaled(x: Any, y: Any = 2.0) -> Any:
    return {"y": x * y, "n": x.shape[0] if x.ndim else 0}


def same(found: Any, wanted: Any) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), 1e-6)


CALLS: dict[str, tuple[Any, ...]] = {
    "the examples": (X,),
    "another shape": (np.ones((2, 5), np.float32),),
    "f64 becomes f32": (np.arange(3.0),),
    "i64 becomes i32": (np.arange(3), 3),
    "bf16 and a weak number": (jnp.ones(3, jnp.bfloat16), 0.5),
    "bf16 and f32": (jnp.ones(3, jnp.bfloat16), np.float32(0.5)),
    "a number": (1.5, 2),
    "bools": (np.array([True, False]), True),
    "an array of no axes": (np.float32(2), X),
    "a weak array": (X.astype(np.float16), jnp.asarray(2.0)),
}


@pytest.mark.parametrize("start", [(), (X,)], ids=["without examples", "with examples"])
def test_new_types_compile_anew_as_jit_does(start: tuple[Any, ...]) -> None:
    f, wanted = xlac.from_jax(scaled, *start), jax.jit(scaled)
    for _ in range(2):
        for args in CALLS.values():
            same(f(*args), wanted(*args))
    assert f.programs == len(CALLS) - 1  # f64 becomes the examples' f32


def test_so_many_programs_are_kept_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "PROGRAMS", 3)
    f = xlac.from_jax(lambda x: x + 1)
    for n in (*range(6), *range(6)):
        assert f(np.ones(n, np.float32)).shape == (n,)
        assert f.programs <= 3


def test_an_argument_that_is_only_measured_counts() -> None:
    f = xlac.from_jax(lambda x, y: x * y.shape[0], X, X)
    assert f(X, X[:2]).tolist() == (X * 2).tolist()


def test_results_are_arrays_of_jax_on_request() -> None:
    f = xlac.from_jax(scaled, X, results="jax")
    found = f(X)
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(found))
    same(found, jax.jit(scaled)(X))
    second = f(found["y"])
    same(second, jax.jit(scaled)(found["y"]))
    with pytest.raises(SourceError, match="numpy"):
        xlac.from_jax(scaled, X, results="nump")


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "complex64", "int4", "key"])
def test_results_of_jax_are_placed_as_device_put_places_them(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = jax.random.key(3) if kind == "key" else jnp.asarray([1, 2, 3], kind)
    assert devices.quick() is not None  # with this version of JAX

    def function(x: Any) -> Any:
        return (jax.random.clone(x) if kind == "key" else x + x), jnp.float32(2.5)

    f = xlac.from_jax(function, x, results="jax")
    quick = f(x)
    with jax.default_device(jax.devices()[0]):
        usual = f(x)
    monkeypatch.setattr(devices, "quick", lambda: None)
    for found, one, other in zip(quick, usual, f(x), strict=True):
        assert (found == one).all() and (found == other).all()
        assert found.dtype == other.dtype
        assert kind == "key" or found.weak_type == other.weak_type
        assert found.devices() == one.devices() and found.committed == other.committed


def test_pickles_are_compiled_again() -> None:
    f = pickle.loads(pickle.dumps(xlac.from_jax(scaled, X, results="jax")))
    same(f(X), jax.jit(scaled)(X))
    g = xlac.from_jax(power, X, 3, jit={"static_argnums": 1})
    again = pickle.loads(pickle.dumps(g))
    assert again(X, 2).tolist() == (X**2).tolist() and repr(again) != repr(g)
    lazy = pickle.loads(pickle.dumps(xlac.from_jax(scaled)))
    same(lazy(X), jax.jit(scaled)(X))


def power(x: Any, n: int) -> Any:
    return x**n


@pytest.mark.parametrize("way", ["grad", "vmap", "jit"])
def test_transformations_of_a_program_are_refused_in_words(way: str) -> None:
    f = xlac.from_jax(lambda x: (x * x).sum(), X)
    with pytest.raises(SourceError, match="is a value that JAX traces") as caught:
        getattr(jax, way)(f)(jnp.asarray(X))
    assert "xlac.from_jax(jax.grad(f)" in str(caught.value)


def test_arrays_that_jax_deleted_and_numbers_that_are_too_large() -> None:
    f = xlac.from_jax(lambda x: x + 1, X)
    gone = jnp.asarray(X) + 0
    gone.delete()
    with pytest.raises(SourceError, match="input 'x' was deleted"):
        f(gone)
    wave = jnp.ones(3, jnp.complex64) * 2
    g = xlac.from_jax(lambda x: x + 1, wave)
    wave.delete()
    with pytest.raises(SourceError, match="input 'x' was deleted"):
        g(wave)
    with pytest.raises(SourceError, match="too large"):
        f(1 << 40)
    with pytest.raises(SourceError, match="there is no program yet"):
        _ = xlac.from_jax(lambda x: x + 1).model


def exported(*shapes: Any) -> Any:
    types = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    return jax.export.export(jax.jit(lambda x, y: {"z": x + y.sum()}))(*types)


def test_programs_of_jax_export() -> None:
    program = exported((3,), (2,))
    same(xlac.from_jax(program)(X, X[:2]), program.call(X, X[:2]))
    assert xlac.compile(program)(X, X[:2]).tolist() == program.call(X, X[:2])["z"].tolist()


def test_files_of_jax_export(tmp_path: Path) -> None:
    n, m = jax.export.symbolic_shape("n, m")
    program = exported((n, m), (n,))
    file = tmp_path / "f.jaxexport"
    file.write_bytes(program.serialize())
    dims = {"n": "1..8", "m": 3}
    assert {k: (s.min, s.max) for k, s in load(file, dims=dims).dims.items()} == {"n": (1, 8)}
    found = xlac.compile(str(file), dims=dims)
    for rows in (1, 5):
        x, y = np.ones((rows, 3), np.float32), np.ones(rows, np.float32)
        assert found(x, y).tolist() == program.call(x, y)["z"].tolist()
    for text in (b"", b"junk" * 40, program.serialize()[:200]):
        file.write_bytes(text)
        with pytest.raises(SourceError, match=r"XL7215|XL1023"):
            xlac.compile(str(file))
