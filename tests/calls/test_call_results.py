"""Results in the caller's memory, and what those that are called tell of themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ways_to_call import Way, X, Y

from xlac_sdk.source import SourceError


def room(count: int = 4) -> np.ndarray[Any, Any]:
    return np.full(count, np.nan, np.float32)


def locked() -> np.ndarray[Any, Any]:
    found = room()
    found.flags.writeable = False
    return found


SHARED = room(6)
OUT: dict[str, tuple[Callable[[Any, Any], dict[str, Any]], str]] = {
    "one buffer": (
        lambda x, y: dict.fromkeys(("sum", "product"), SHARED[:4]),
        "shares memory with output '(sum|product)' [XL6004]",
    ),
    "two that overlap": (
        lambda x, y: {"sum": SHARED[:4], "product": SHARED[2:]},
        "output 'product' shares memory with output 'sum' [XL6004]",
    ),
    "an input": (
        lambda x, y: {"sum": x, "product": room()},
        "output 'sum' shares memory with input 'x' [XL6004]",
    ),
    "read-only": (
        lambda x, y: {"sum": room(), "product": locked()},
        "output 'product' must be C-contiguous, aligned and writable [XL6004]",
    ),
    "strided": (
        lambda x, y: {"sum": room(8)[::2], "product": room()},
        "output 'sum' must be C-contiguous, aligned and writable [XL6004]",
    ),
    "missing": (lambda x, y: {"sum": room()}, "output 'product' is missing from `out` [XL6004]"),
    "unknown": (
        lambda x, y: {"sum": room(), "product": room(), "more": room()},
        "unknown output 'more' [XL6001]",
    ),
    "other type": (
        lambda x, y: {"sum": np.empty(4), "product": room()},
        "output 'sum' must be f32, not float64 [XL6002]",
    ),
    "other shape": (
        lambda x, y: {"sum": room(5), "product": room()},
        "output 'sum' must have shape 4, not 5 [XL6003]",
    ),
    "no array": (
        lambda x, y: {"sum": [0.0] * 4, "product": room()},
        "output 'sum' must be a NumPy array, not list [XL6004]",
    ),
}


@pytest.mark.parametrize("mistake", OUT)
def test_results_that_cannot_be_written(way: tuple[str, Way], mistake: str) -> None:
    if not hasattr(way[1].call, "run"):
        return
    made, message = OUT[mistake]
    x, y = X.copy(), Y.copy()
    out = made(x, y)
    before = {name: np.array(value) for name, value in out.items()}
    with pytest.raises(SourceError, match=message.replace("[", r"\[")):
        way[1].call.run({"x": x, "y": y}, out)
    for name, value in out.items():
        np.testing.assert_array_equal(value, before[name])


def test_inputs_may_share_memory_and_be_strided(way: tuple[str, Way]) -> None:
    both = way[1].given(X)
    for values in ((both, both), (both, way[1].given(np.repeat(X, 2)[::2]))):
        np.testing.assert_array_equal(np.asarray(way[1].call(*values)["sum"]), X + X)


def test_every_one_tells_its_inputs_and_outputs(way: tuple[str, Way]) -> None:
    way[1].call(way[1].given(X), way[1].given(Y))
    shown = repr(way[1].call)
    assert "\n" not in shown
    sized = (
        "f32[n]"
        if way[0] in ("symbolic", "specializing")
        else "float32[4]"
        if way[0] == "from_jax"
        else "f32[4]"
    )
    names = ("arg0", "arg1") if way[0] == "jit" else ("x", "y")
    assert f"({names[0]}: {sized}, {names[1]}: {sized}) -> " in shown and shown.count(sized) == 4
    if "n]" in sized:
        assert "n 1..64" in shown
