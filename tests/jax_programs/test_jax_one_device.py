"""What JAX has for several devices and for the host, in a program of one device without Python."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.frontends.loader import load
from xlac.frontends.stablehlo import CUSTOM_CALLS
from xlac.integrations.jax import CallbackWarning
from xlac.ops import build
from xlac_sdk.source import SourceError

jax = pytest.importorskip("jax")
jnp, lax = jax.numpy, jax.lax
P = jax.sharding.PartitionSpec
X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


def same(function: Callable[..., Any], *args: Any, tolerance: float = 1e-6) -> None:
    found, wanted = xlac.from_jax(function, *args)(*args), jax.jit(function)(*args)
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    kind = np.complex128 if found.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(np.asarray(found, kind), np.asarray(wanted, kind), tolerance)


COLLECTIVES: dict[str, Callable[[Any], Any]] = {
    "psum": lambda x: lax.psum(x, "i") * 2,
    "pmean and pmax": lambda x: lax.pmean(x, "i") + lax.pmax(x, "i"),
    "all_gather": lambda x: lax.all_gather(x, "i", tiled=True),
    "psum_scatter": lambda x: lax.psum_scatter(x, "i", tiled=True),
    "all_to_all": lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True),
    "ppermute": lambda x: lax.ppermute(x, "i", [(0, 0)]),
    "ppermute from nobody": lambda x: lax.ppermute(x, "i", []) + 1,
    "axis_index": lambda x: x + lax.axis_index("i"),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_groups_of_one_device_exchange_nothing(name: str) -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("i",))
    same(
        jax.shard_map(
            COLLECTIVES[name], mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False
        ),
        X,
    )


def test_groups_of_several_devices_are_refused(tmp_path: Any) -> None:
    file = tmp_path / "f.mlir"
    file.write_text(
        """module {
  func.func @main(%arg0: tensor<2xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.all_gather"(%arg0) <{all_gather_dim = 0 : i64,
      replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<2xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}"""
    )
    with pytest.raises(SourceError, match="XL7208"):
        load(file)


def test_calls_of_python_are_left_out_by_permission(capsys: pytest.CaptureFixture[str]) -> None:
    def function(x: Any) -> Any:
        jax.debug.print("x {}", x)
        return x * 2

    with pytest.warns(CallbackWarning, match="calls of Python functions are left out"):
        f = xlac.from_jax(function, X, drop_callbacks=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (f(X) == X * 2).all()
    assert capsys.readouterr().out == ""
    kept = jax.ShapeDtypeStruct(X.shape, X.dtype)
    sine = xlac.from_jax(lambda x: jax.pure_callback(np.sin, kept, x), X, drop_callbacks=True)
    np.testing.assert_allclose(sine(X), np.sin(X), 1e-6)  # which has results


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32"])
def test_upper_halves_of_products(dtype: str) -> None:
    info = np.iinfo(dtype)
    values = np.array([info.min, info.min + 1, 0, 1, 77, info.max // 3, info.max], dtype)
    x, y = (v.reshape(-1).astype(dtype) for v in np.meshgrid(values, values))
    found = xlac.from_jax(lax.mulhi, x, y)(x, y)
    exact = [int(a) * int(b) >> info.bits for a, b in zip(x, y, strict=True)]
    assert found.tolist() == exact


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_upper_halves_of_products_of_64_bits(dtype: str) -> None:
    info = np.iinfo(dtype)
    values = np.array([info.min, info.min + 1, 0, 1, 2**33 + 5, info.max // 3, info.max], dtype)
    x, y = (v.reshape(-1) for v in np.meshgrid(values, values))
    with jax.enable_x64(True):
        found = xlac.from_jax(lax.mulhi, x, y)(x, y)
    exact = [int(a) * int(b) >> 64 for a, b in zip(x, y, strict=True)]
    assert found.tolist() == exact


def test_complex_angles_and_solves_of_halves() -> None:
    z = (X + 1j * X[::-1]).astype(np.complex64)
    same(lax.atan2, z, z[::-1] + 1, tolerance=1e-5)
    matrix = (np.eye(3) + np.tril(np.ones((3, 3)))).astype(jnp.bfloat16)
    same(
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
        matrix,
        np.ones((3, 2), jnp.bfloat16),
        tolerance=2**-7,
    )


def test_the_custom_call_of_the_chapter(monkeypatch: pytest.MonkeyPatch) -> None:
    chapter = Path(__file__).parents[2] / "docs/STABLEHLO.md"
    section = chapter.read_text(encoding="utf-8").partition("## Custom calls")[2]
    monkeypatch.setitem(CUSTOM_CALLS, "acme.scaled", lambda site: site.operands)
    exec(section.partition("```python\n")[2].partition("```")[0], {})  # noqa: S102 - ours


def test_what_a_builder_of_a_user_gives_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CUSTOM_CALLS, "my.wrong", lambda site: site.number(0).type)
    call = jax.ffi.ffi_call("my.wrong", jax.ShapeDtypeStruct(X.shape, X.dtype))
    with pytest.raises(SourceError, match="its builder gives Type, not a Node"):
        xlac.from_jax(lambda x: call(x), X)


def test_targets_of_custom_call_that_users_register(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CUSTOM_CALLS, "my.scale", lambda site: build.mul(site.number(0), 2.0))

    def function(x: Any) -> Any:
        return jax.ffi.ffi_call("my.scale", jax.ShapeDtypeStruct(x.shape, x.dtype))(x) + 1

    assert (xlac.from_jax(function, X)(X) == X * 2 + 1).all()
