"""What `xlac.grad` and the others refuse, and what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlac
from xlac_sdk.source import SourceError

X, W = np.float64([0.5, -1.0, 2.0]), np.ones((3, 3))


def f(x: Any, w: Any) -> Any:
    return xlac.sum(xlac.tanh(x @ w) * x)


class Layer:
    @xlac.grad
    def loss(self, x: Any) -> Any:
        return xlac.sum(x)


def kept(x: Any, log: list[Any]) -> Any:
    log.append(x)
    return xlac.sum(x)


def leaking(x: Any) -> Any:
    log: list[Any] = []
    return xlac.grad(lambda y: kept(y, log))(x) + log[0]


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "no scalar": (lambda: xlac.grad(lambda x: x)(X), "XL2040"),
    "an integer": (lambda: xlac.grad(lambda x: xlac.argmax(x))(X), "XL2040"),
    "two values": (lambda: xlac.grad(lambda x: (x.sum(), x))(X), "XL2040.*\n.*has_aux"),
    "no pair": (lambda: xlac.grad(lambda x: x.sum(), has_aux=True)(X), "XL2040"),
    "a text": (lambda: xlac.grad(lambda x: "text")(X), "XL2040"),
    "no such name": (lambda: xlac.grad(f, wrt="xx"), "'xx'.*XL2041.*\n.*did you mean 'x'"),
    "no such place": (lambda: xlac.grad(f, wrt=2), "2 arguments by position .XL2041"),
    "no such place from the end": (lambda: xlac.grad(f, wrt=-3), "XL2041"),
    "no name": (lambda: xlac.grad(f, wrt=(1.5,)), "XL2041"),  # type: ignore[arg-type]
    "no sequence": (lambda: xlac.grad(f, wrt={"x"}), "XL2041"),  # type: ignore[arg-type]
    "nothing": (lambda: xlac.grad(f, wrt=()), "XL2041"),
    "twice": (lambda: xlac.grad(f, wrt=(0, "x"))(X, W), "'x' of f\\(\\) twice .XL2041"),
    "not given": (
        lambda: xlac.grad(lambda x, y=2.0: x.sum(), wrt="y")(X),
        "without the argument 'y'.*XL2041",
    ),
    "integers": (
        lambda: xlac.grad(f)(np.int32([1, 2, 3]), W),
        "x of f\\(\\) is i32\\[3\\].*XL2041",
    ),
    "integers in a nest": (
        lambda: xlac.grad(lambda p: p["a"][0])({"a": [np.int8(3)]}),
        r"p\['a'\]\[0\].*XL2041",
    ),
    "a whole number": (lambda: xlac.grad(lambda x: x * x)(3), "an integer.*XL2041.*\n.*3.0"),
    "a bool": (lambda: xlac.grad(lambda x: x)(True), "no array or number.*XL2041"),
    "an object": (lambda: Layer().loss(X), "'?self.*XL2041"),
    "no derivative": (
        lambda: xlac.grad(lambda x: xlac.sum(xlac.polygamma(x, x)))(X),
        "polygamma has no derivative.*XL2042",
    ),
    "another nest": (lambda: xlac.jvp(f, (X, W), (X,)), "XL2043"),
    "another shape": (lambda: xlac.jvp(f, (X, W), (X, X)), r"tangent\[1\] is f64\[3\].*XL2043"),
    "a change of integers": (
        lambda: xlac.jvp(lambda n: n, (np.int32(1),), (np.int32(1),)),
        "XL2043.*\n.*None",
    ),
    "another cotangent": (lambda: xlac.vjp(lambda x: {"a": x}, X)[1](X), "dict.*XL2043"),
    "another key": (lambda: xlac.vjp(lambda x: {"a": x}, X)[1]({"b": X}), "dict.*XL2043"),
    "another type": (lambda: xlac.vjp(lambda x: x, X)[1](np.float32([1, 2, 3])), "f32.*XL2043"),
    "kept": (lambda: xlac.jit(leaking)(X), "XL2044"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake: str) -> None:
    call, told = MISTAKES[mistake]
    with pytest.raises(SourceError, match=told):
        call()


def test_no_function() -> None:
    with pytest.raises(TypeError, match="takes a function"):
        xlac.grad(3)
    with pytest.raises(TypeError, match="are tuples"):
        xlac.jvp(f, X, X)
