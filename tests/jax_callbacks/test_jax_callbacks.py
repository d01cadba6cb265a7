"""Calls of Python functions from JAX (`pure_callback`, `io_callback`, `jax.debug`) as steps of a
program.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xlac
from xlac.driver import lower
from xlac.exporters import onnx, spec, stablehlo
from xlac.frontends.loader import load
from xlac_sdk.host.registry import find
from xlac_sdk.source import SourceError, UnsupportedError
from xlac_sdk.target import Request

jax = pytest.importorskip("jax")
jnp, lax = jax.numpy, jax.lax
io_callback = pytest.importorskip("jax.experimental").io_callback

X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
F32 = jax.ShapeDtypeStruct((), np.float32)
TARGETS = ("cpu", "reference")


def like(x: Any) -> Any:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def host_sine(x: Any) -> Any:
    return jax.pure_callback(lambda a: np.sin(np.asarray(a)), like(x), x, vmap_method="sequential")


class Log:
    """What Python functions were called with, in order."""

    def __init__(self) -> None:
        self.lines: list[Any] = []

    def note(self, *values: Any) -> None:
        self.lines.append([np.asarray(v).tolist() for v in values])

    def shown(self, x: Any) -> Any:
        self.note(x)
        return np.asarray(x) + np.float32(1)


@pytest.mark.parametrize("target", TARGETS)
def test_functions_give_results(target: str) -> None:
    def function(x: Any) -> Any:
        def both(a: Any) -> Any:
            return np.asarray(a).sum(0), np.int32(7)

        kinds = jax.ShapeDtypeStruct((3,), np.float32), jax.ShapeDtypeStruct((), np.int32)
        total, _ = jax.pure_callback(both, kinds, host_sine(x) * 2)  # the second is not used
        return total + x[0]

    f = xlac.from_jax(function, X, target=target)
    for _ in range(20):  # the fast call is made after some
        np.testing.assert_allclose(f(X), (np.sin(X) * 2).sum(0) + X[0], 1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_effects_happen_in_the_order_of_the_program(target: str) -> None:
    log = Log()

    def function(x: Any) -> Any:
        jax.debug.callback(log.note, x[0], ordered=True)

        def body(i: Any, carry: Any) -> Any:
            jax.debug.callback(log.note, i)
            return io_callback(log.shown, F32, carry, ordered=True)

        y = lax.fori_loop(0, 3, body, x[0])
        lax.cond(y > 0, lambda: jax.debug.callback(log.note, y), lambda: None)
        lax.cond(y < 0, lambda: None, lambda: jax.debug.callback(log.note, "no", y) if 0 else None)
        jax.jit(lambda: jax.debug.callback(log.note, -1))()
        lax.cond(y > 0, lambda: jax.debug.callback(log.note, -y, ordered=True), lambda: None)
        return x * 2

    f = xlac.from_jax(function, X[0], target=target)
    expected = [[1.0], [0], [1.0], [1], [2.0], [2], [3.0], [4.0], [-1], [-4.0]]
    for _ in range(2):
        assert (f(X[0]) == X[0] * 2).all()
    assert log.lines == expected * 2


def test_loops_and_branches_call_where_they_decide() -> None:
    log = Log()

    def function(n: Any) -> Any:
        def condition(i: Any) -> Any:
            jax.debug.callback(log.note, "asked" and i)
            return i < n

        first = lax.while_loop(condition, lambda i: i + 1, jnp.int32(0))
        flag = jax.ShapeDtypeStruct((), np.bool_)
        return lax.while_loop(
            lambda i: jax.pure_callback(lambda a: np.asarray(a) < 10, flag, i),
            lambda i: i * 2,
            first,
        )

    assert xlac.from_jax(function, np.int32(3))(np.int32(3)) == 12
    assert log.lines == [[0], [1], [2], [3]]


def test_a_program_of_effects_alone() -> None:
    log = Log()

    def function(x: Any) -> None:
        jax.debug.callback(log.note, x[0, 1])

    f = xlac.from_jax(function, X)
    assert f(X) is None and f(X + 1) is None
    assert log.lines == [[2.0], [3.0]]


KINDS = [
    np.complex64, np.complex128, np.bool_, np.int8, np.uint16, np.float16, np.float64,
    ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4,
    ml_dtypes.uint4,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: np.dtype(kind).name)
def test_arrays_of_every_type(kind: Any) -> None:
    seen: list[Any] = []

    def turned(a: Any) -> Any:
        seen.append(np.asarray(a))
        return np.asarray(a)[::-1].copy()

    def function(x: Any) -> Any:
        return jax.pure_callback(turned, like(x), x)

    x = np.array([1, 0, 3]).astype(kind)
    if np.dtype(kind).kind == "c":
        x = x + np.array([2j, -1j, 0]).astype(kind)
    with jax.enable_x64(True):
        found = xlac.from_jax(function, x)(x)
    assert seen[0].dtype == x.dtype == found.dtype
    assert (seen[0] == x).all() and (found == x[::-1]).all()


def test_arrays_without_elements() -> None:
    x = np.zeros((0, 3), np.float32)
    assert xlac.from_jax(host_sine, x)(x).shape == (0, 3)


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_function_raises_is_raised_by_the_call(target: str) -> None:
    class Unlucky(Exception):
        pass

    limit = [100.0]

    def checked(a: Any) -> Any:
        if np.asarray(a) > limit[0]:
            raise Unlucky(float(a))
        return np.asarray(a)

    def function(x: Any) -> Any:
        return lax.fori_loop(0, 10, lambda i, c: io_callback(checked, F32, c * 2, ordered=True), x)

    f = xlac.from_jax(function, np.float32(1), target=target)
    one = np.float32(1)
    for _ in range(20):
        with pytest.raises(Unlucky, match="128"):
            f(one)
    limit[0] = np.inf
    assert f(one) == 1024


def test_results_of_another_type_are_refused() -> None:
    def function(x: Any) -> Any:
        return jax.pure_callback(lambda a: np.zeros(7, np.float32), like(x), x)

    with pytest.raises(RuntimeError, match=r"shape for return value #0"):
        xlac.from_jax(function, X)(X)


def test_functions_may_keep_what_they_are_given_and_call_programs() -> None:
    kept: list[Any] = []
    inner = xlac.from_jax(lambda x: x * 3, X)

    def keeps(a: Any) -> Any:
        kept.append(np.asarray(a))
        return inner(np.asarray(a))

    f = xlac.from_jax(lambda x: jax.pure_callback(keeps, like(x), x + 1) + 1, X)
    for number in range(3):
        assert (f(X + number) == (X + number + 1) * 3 + 1).all()
    assert [int(a[0, 0]) for a in kept] == [2, 3, 4]


def test_threads_call_one_program() -> None:
    f = xlac.from_jax(lambda x: host_sine(x * 2) + x, X, threads=2)
    found: dict[int, Any] = {}

    def run(number: int) -> None:
        for _ in range(20):
            found[number] = f(X + number)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, value in found.items():
        x = X + number
        np.testing.assert_allclose(value, np.sin(x * 2) + x, 1e-5, 1e-6)


def test_jax_transforms_first() -> None:
    @jax.custom_vjp
    def sine(x: Any) -> Any:
        return host_sine(x)

    sine.defvjp(lambda x: (sine(x), x), lambda x, ct: (ct * jnp.cos(x),))
    f = xlac.from_jax(jax.vmap(jax.grad(lambda x: sine(x) * x)), X[0])
    np.testing.assert_allclose(f(X[0]), np.cos(X[0]) * X[0] + np.sin(X[0]), 1e-5)


def test_pickled_functions_call_the_same_function() -> None:
    again = pickle.loads(pickle.dumps(xlac.from_jax(host_sine, X)))
    np.testing.assert_allclose(again(X), np.sin(X), 1e-6)


def refused(action: Callable[[], Any], code: str) -> str:
    with pytest.raises((SourceError, UnsupportedError)) as caught:
        action()
    (first, *_) = caught.value.diagnostics
    assert first.code == code
    return str(caught.value)


def test_programs_that_leave_the_process_refuse_calls_with_their_place(tmp_path: Any) -> None:
    f = xlac.from_jax(host_sine, X)
    assert "drop_callbacks" in refused(lambda: xlac.from_jax(host_sine, X, target="c"), "XL7217")
    ahead = find("cpu").target(Request(ahead=True))
    assert "<stablehlo>:" in refused(lambda: lower(f.model, ahead), "XL7217")
    assert "Python" in refused(lambda: pickle.dumps(f.program), "XL5006")
    assert "Python" in refused(lambda: stablehlo.text(f.model), "XL7402")
    assert "who wrote" in refused(lambda: onnx.proto(f.model), "XL7401")
    assert "custom_call" in refused(lambda: spec.write(f.model, tmp_path / "f.yaml"), "XL1022")


def test_files_hold_no_functions(tmp_path: Any) -> None:
    file = tmp_path / "f.mlir"
    file.write_text(jax.jit(host_sine).lower(X).as_text())
    assert "f.mlir:" in refused(lambda: load(file), "XL7216")


def test_open_sizes_are_refused_in_our_words() -> None:
    (n,) = jax.export.symbolic_shape("n")
    x = jax.ShapeDtypeStruct((n,), np.float32)
    refused(lambda: xlac.from_jax(host_sine, x), "XL7216")
    refused(lambda: xlac.from_jax(lambda x: jax.debug.print("{}", x[0]), x), "XL7216")
