"""Static arguments of `xlac.from_jax`: a new value compiles anew, as jax.jit does, however it is
given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.runtime import programs

jax = pytest.importorskip("jax")
X = np.float32([1, 2, 3])


def power(x: Any, n: int, sign: str = "+") -> Any:
    return x**n if sign == "+" else -(x**n)


WAYS: dict[str, dict[str, Any]] = {
    "places": {"static_argnums": (1, 2)},
    "names": {"static_argnames": ("n", "sign")},
    "one of each": {"static_argnums": 1, "static_argnames": "sign"},
}


@pytest.mark.parametrize("way", WAYS)
def test_every_value_has_its_own_program(way: str) -> None:
    f = xlac.from_jax(power, X, 3, jit=WAYS[way])
    wanted = jax.jit(power, **WAYS[way])
    calls: list[Callable[[Any], Any]] = [
        lambda g: g(X, 3),
        lambda g: g(X, 2),
        lambda g: g(X, n=2),
        lambda g: g(X, 3),
        lambda g: g(X, n=1, sign="-"),
        lambda g: g(X, 2, sign="-"),
    ]
    for call in (*calls, *reversed(calls)):
        np.testing.assert_allclose(call(f), call(wanted), rtol=1e-6)


def test_a_function_that_is_jitted_already_keeps_its_static_arguments() -> None:
    f = xlac.from_jax(jax.jit(power, static_argnums=1), X, 3)
    for n in (3, 2, 5, 3):
        np.testing.assert_allclose(f(X, n), X**n, rtol=1e-6)


def test_so_many_programs_are_kept_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "PROGRAMS", 4)
    f = xlac.from_jax(power, X, 1, jit={"static_argnums": 1})
    (kept,) = (value for value in vars(f).values() if isinstance(value, programs.Programs))
    for n in (*range(8), *range(8)):
        np.testing.assert_allclose(f(X, n), X**n, rtol=1e-6)
        assert len(kept._kept) <= 4


def test_a_static_value_that_cannot_be_a_key_is_refused() -> None:
    f = xlac.from_jax(power, X, 3, jit={"static_argnums": 1})
    with pytest.raises((xlac.SourceError, ValueError, TypeError)):
        f(X, [2])
