"""Calls of a jitted function with arrays like those before go to the program at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlac
from xlac.integrations.jit import Jitted
from xlac_cpu.run import executable
from xlac_sdk.source import SourceError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs have their fast functions after the first call."""
    monkeypatch.setattr(executable, "QUICK", 1)


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The arguments of calls that do not go to the program at once."""
    found: list[tuple[Any, ...]] = []
    outputs = Jitted._outputs

    def counted(self: Jitted, program: Any, leaves: Any, receiver: Any, *rest: Any) -> Any:
        found.append(rest[0])
        return outputs(self, program, leaves, receiver, *rest)

    monkeypatch.setattr(Jitted, "_outputs", counted)
    return found


def test_arrays_like_those_before(others: list[tuple[Any, ...]]) -> None:
    f = xlac.jit(lambda x, y: x * 2 + y)
    for number in range(5):
        np.testing.assert_array_equal(f(X, X + number), X * 2 + X + number)
    assert len(others) <= 2 and f.programs == 1


def test_other_arrays(others: list[tuple[Any, ...]]) -> None:
    """Shapes, dtypes, layouts, numbers, lists, names: each as if it were the first call."""
    f = xlac.jit(lambda x: x * 3)
    given = [X, X[:1], X.astype(np.float64), np.asfortranarray(X), X[:, ::2], 5, X.tolist(), X[0]]
    for _ in range(3):
        for x in given:
            f(X)
            found = f(x)
            first = xlac.jit(lambda x: x * 3)(x)
            np.testing.assert_array_equal(found, first)
            assert np.asarray(found[0] if isinstance(found, list) else found).dtype == (
                np.asarray(first[0] if isinstance(first, list) else first).dtype
            )
    before = len(others)
    np.testing.assert_array_equal(f(x=X), X * 3)
    assert len(others) == before + 1
    with pytest.raises(SourceError):
        f(X, X)
    with pytest.raises(SourceError):
        f()


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x + y,
        lambda x, y: (x + y,),
        lambda x, y: [x + y],
        lambda x, y: {"sum": x + y},
        lambda x, y: (x + y, x * y),
        lambda x, y: (x * y, x * y),
        lambda x, y: {"b": x + y, "a": [x * y, (x,)]},
        lambda x, y: (x, None, "text", y),
        lambda x, y: y + 1,
    ],
)
def test_results_of_any_form(function: Any) -> None:
    f = xlac.jit(function)
    first = f(X, X + 1)
    for _ in range(3):
        assert repr(f(X, X + 1)) == repr(first)


def test_arguments_that_are_no_arrays(others: list[tuple[Any, ...]]) -> None:
    """Pytrees, constants and numbers are taken apart at every call."""
    f = xlac.jit(lambda tree, scale: tree["a"] * scale)
    for scale in (2, 3, 4):
        np.testing.assert_array_equal(f({"a": X}, scale), X * scale)
    g = xlac.jit(lambda x, how: x * 2 if how == "double" else x)
    for how in ("double", "single", "double"):
        np.testing.assert_array_equal(g(X, how), X * 2 if how == "double" else X)
    assert len(others) == 6


def test_calls_while_another_function_is_traced() -> None:
    """They are inlined, also those with arrays that the program would take."""
    inner = xlac.jit(lambda x: x + 1)
    for _ in range(3):
        inner(X)
    outer = xlac.jit(lambda x: x * inner(X))
    assert [node.op.mnemonic for node in outer.trace(X).graph.nodes()].count("add") == 1
    np.testing.assert_array_equal(outer(X), X * (X + 1))


def test_programs_in_turn(others: list[tuple[Any, ...]]) -> None:
    f = xlac.jit(lambda x: x.sum())
    for _ in range(3):
        for x in (X, X[0], X.astype(np.float64)):
            assert f(x) == x.sum() and f(x).dtype == x.dtype
    assert f.programs == 3


def test_methods_are_called_with_their_object() -> None:
    class Scaled:
        def __init__(self, scale: float) -> None:
            self.scale = np.float32(scale)

        @xlac.jit
        def of(self, x: Any) -> Any:
            return x * self.scale

    one, two = Scaled(2), Scaled(3)
    for _ in range(3):
        np.testing.assert_array_equal(one.of(X), X * 2)
        np.testing.assert_array_equal(two.of(X), X * 3)
        np.testing.assert_array_equal(Scaled.of(two, X), X * 3)
