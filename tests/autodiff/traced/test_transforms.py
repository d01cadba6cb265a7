"""`xlac.grad`, `value_and_grad`, `jvp` and `vjp` of Python functions: what they take and give, and
how they compose.
"""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlac
from xlac_sdk.dtypes import DType

jit = functools.partial(xlac.jit, target="reference")
"""What is tested here is what is traced; how it is compiled is tested elsewhere."""

X = np.float64([0.5, -1.0, 2.0])
W = np.float64([[1, 2, 3], [0, 1, -1], [2, 0.5, 0]])
Pair = namedtuple("Pair", "first second")


def f(x: Any, w: Any) -> Any:
    return xlac.sum(xlac.tanh(x @ w) * x)


def slopes(x: Any = X, w: Any = W) -> tuple[Any, Any]:
    """The gradient of f, by hand."""
    t = np.tanh(x @ w)
    back = (1 - t * t) * x
    return t + w @ back, np.outer(x, back)


def close(found: Any, wanted: Any) -> None:
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, 1e-12, 1e-12)


@pytest.mark.parametrize(
    ("wrt", "places"),
    [(0, 0), ("w", 1), (-1, 1), ((0,), (0,)), (("w", 0), (1, 0)), (["x", "w"], (0, 1))],
)
@pytest.mark.parametrize("named", [False, True])
def test_wrt(wrt: Any, places: Any, named: bool) -> None:
    """By name and by number, one or several, whichever way the arguments are given."""
    g = jit(xlac.grad(f, wrt))
    found = g(x=X, w=W) if named else g(X, W)
    if isinstance(places, tuple):
        assert isinstance(found, tuple) and len(found) == len(places)
        for each, place in zip(found, places, strict=True):
            close(each, slopes()[place])
    else:
        close(found, slopes()[places])


def test_called_with_arrays_it_is_compiled_once_for_each_set_of_shapes() -> None:
    g = xlac.grad(f)
    for _ in range(2):
        close(g(X, W), slopes()[0])
    assert g.programs == 1
    close(g(X[:2], W[:2, :2]), slopes(X[:2], W[:2, :2])[0])
    assert g.programs == 2


def test_options_are_those_of_the_jitted_function_or_of_the_jit_around() -> None:
    g = xlac.grad(jit(f))
    close(g(X, W), slopes()[0])
    assert "reference" in repr(g)
    _, back = xlac.vjp(jit(f), X, W)
    close(back(1.0)[1], slopes()[1])


def test_nests_are_kept() -> None:
    def net(p: Any, x: Any) -> Any:
        hidden = x * p["pair"].first + p["list"][0] if p["kind"] == "sum" else x
        return xlac.sum(hidden * p["pair"].second)

    p = {"pair": Pair(X, X + 1), "list": [np.float64(3)], "kind": "sum", "unused": (X, None)}
    value, found = jit(xlac.value_and_grad(net))(p, X)
    close(value, np.sum((X * X + 3) * (X + 1)))
    assert type(found["pair"]) is Pair and found["kind"] == "sum" and found["unused"][1] is None
    close(found["pair"].first, X * (X + 1))
    close(found["pair"].second, X * X + 3)
    close(found["list"][0], np.sum(X + 1))
    close(found["unused"][0], 0 * X)


def test_what_is_beside_the_value() -> None:
    def both(x: Any) -> Any:
        return xlac.sum(x * x), {
            "largest": xlac.max(x),
            "count": xlac.argmax(x),
            "text": "as it is",
            "two": 2,
        }

    slope, beside = jit(xlac.grad(both, has_aux=True))(X)
    close(slope, 2 * X)
    close(beside["largest"], 2.0)
    assert beside["count"] == 2 and beside["text"] == "as it is" and beside["two"] == 2
    (value, _), slope = jit(xlac.value_and_grad(both, has_aux=True))(X)
    close(value, np.sum(X * X))
    value, moved, beside = jit(lambda x: xlac.jvp(both, (x,), (x,), has_aux=True))(X)
    close(moved, 2 * np.sum(X * X))
    close(beside["largest"], 2.0)


def test_what_is_known_otherwise_stays_fixed() -> None:
    """The same tensor outside of the function, and twice among its arguments."""

    @jit
    def outer(x: Any) -> Any:
        by_one = xlac.grad(lambda y: xlac.sum(x * y * y))(x)
        return by_one, xlac.grad(lambda a, b: xlac.sum(a * b * b), wrt=(0, 1))(x, x)

    one, (first, second) = outer(X)
    close(one, 2 * X * X)
    close(first, X * X)
    close(second, 2 * X * X)


def test_what_was_computed_outside() -> None:
    """A function reads what another part of the traced one computed, also as its whole value."""

    @jit
    def outer(x: Any) -> Any:
        k, s = xlac.exp(x), xlac.split(x * 2.0, parts=3)[1]

        def inner(y: Any) -> Any:
            return k * y * s

        value, moved = xlac.jvp(inner, (x,), (x,))
        same, back = xlac.vjp(inner, x)
        flat = xlac.grad(lambda y: xlac.sum(k))(x)
        return xlac.grad(lambda y: xlac.sum(inner(y)))(x), value, moved, same, back(k)[0], flat

    slope, value, moved, same, back, flat = outer(X)
    k, s = np.exp(X), 2 * X[1]
    close(slope, k * s)
    close(value, k * X * s)
    close(moved, k * X * s)
    close(same, k * X * s)
    close(back, k * k * s)
    close(flat, 0 * X)


def test_inner_derivatives_see_what_the_outer_differentiate_by() -> None:
    """The classic of mixed-up changes: d/dx (x · d/dy (x + y)) is 1."""
    d = xlac.grad(lambda x: x * xlac.grad(lambda y: x + y)(1.0))
    assert float(jit(d)(2.0)) == 1.0
    d = xlac.grad(lambda x: xlac.grad(lambda y: x * y * y)(x))  # 2x² by x
    assert float(jit(d)(3.0)) == 12.0


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_of_numbers(order: int) -> None:
    """A Python number is weak, with all its digits, and so is its gradient."""
    d: Callable[..., Any] = lambda x: x**4 * 0.1
    for _ in range(order):
        d = xlac.grad(d)
    wanted = [0, 0.4 * 8, 1.2 * 4, 2.4 * 2, 2.4][order]
    close(jit(lambda x, y: d(x) * y)(2.0, X), wanted * X)


def test_numbers_that_meet_several_types() -> None:
    def mixed(s: Any, x: Any, y: Any) -> Any:
        return xlac.sum(x * s) + xlac.sum((y * s).astype("f64")) + s

    found = jit(lambda x, y: xlac.grad(mixed)(2.0, x, y) * x)(X, np.float32([1, 2]))
    close(found, X * (np.sum(X) + 3 + 1))
    assert float(jit(xlac.grad(lambda s, x: xlac.sum(x)))(2.0, X)) == 0.0


def test_forwards() -> None:
    t = np.float64([1, 0, -2])
    value, moved = jit(lambda x, w, t: xlac.jvp(f, (x, w), (t, None)))(X, W, t)
    close(value, np.sum(np.tanh(X @ W) * X))
    close(moved, np.sum(slopes()[0] * t))
    value, moved = xlac.jvp(
        jit(lambda x, n: {"a": x * 2, "n": n + 1, "flat": x * 0.0 + n}), (X, np.int32(3)), (t, None)
    )
    close(moved["a"], 2 * t)
    assert moved["n"] is None and value["n"] == 4
    assert xlac.jvp(jit(lambda x: x * x), (3.0,), (2.0,))[1] == 12.0


def test_backwards() -> None:
    def several(p: Any, n: Any) -> Any:
        return {"s": xlac.sin(p["x"]), "n": n * 2, "t": (p["x"] * p["y"],)}

    p = {"x": X, "y": X + 1}
    value, back = xlac.vjp(jit(several), p, np.int32(4))
    close(value["t"][0], X * (X + 1))
    for scale in (1.0, 2.0):
        by_p, by_n = back({"s": X * scale, "n": None, "t": (np.ones(3),)})
        close(by_p["x"], np.cos(X) * X * scale + X + 1)
        close(by_p["y"], X)
        assert by_n is None
    by_p, _ = back({"s": None, "n": None, "t": [None]})
    close(by_p["x"], 0 * X)


def test_backwards_inside() -> None:
    @jit
    def both(x: Any, w: Any) -> Any:
        value, back = xlac.vjp(f, x, w)
        return value, back(value), back(1.0)

    value, twice, once = both(X, W)
    close(once[0], slopes()[0])
    close(twice[1], slopes()[1] * value)


def test_the_way_back_does_not_compute_the_value_again() -> None:
    _, back = xlac.vjp(jit(lambda x: xlac.tanh(xlac.exp(x))), X)
    kept = back.args[0]
    program = back.func
    kinds = [node.op.mnemonic for node in program.trace(kept, X).graph.nodes()]
    assert "mul" in kinds and "tanh" not in kinds and "exp" not in kinds


def test_programs_of_functions_met_again_are_kept() -> None:
    square = jit(lambda x: x * x)
    backs = [xlac.vjp(square, X)[1].func for _ in range(2)]
    assert backs[0] is backs[1]


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda h: xlac.grad(lambda x: xlac.sum(xlac.grad(h)(x))), 6 * X),
        (lambda h: lambda x: xlac.jvp(xlac.grad(h), (x,), (x,))[1], 6 * X * X),
        (lambda h: xlac.grad(lambda x: xlac.jvp(h, (x,), (x,))[1]), 9 * X * X),
        (lambda h: lambda x: xlac.vjp(xlac.grad(h), x)[1](x)[0], 6 * X * X),
        (
            lambda h: lambda x: xlac.jvp(lambda y: xlac.jvp(h, (y,), (x,))[1], (x,), (x,))[1],
            np.sum(6 * X**3),
        ),
        (lambda h: xlac.grad(lambda x: xlac.vjp(h, x)[1](2.0)[0].sum()), 12 * X),
    ],
)
def test_of_each_other(make: Callable[..., Any], wanted: Any) -> None:
    close(jit(make(lambda x: xlac.sum(x * x * x)))(X), wanted)


class Layer:
    def __init__(self) -> None:
        self.w = W.copy()

    def plain(self, x: Any) -> Any:
        return f(x, self.w)

    @jit
    def jitted(self, x: Any) -> Any:
        return f(x, self.w)

    by_x = xlac.grad(jitted, wrt="x")


@pytest.mark.parametrize("name", ["plain", "jitted"])
def test_methods(name: str) -> None:
    """The arrays of the object are inputs: a change of theirs is seen."""
    layer = Layer()
    g = xlac.grad(getattr(layer, name))
    for scale in (1.0, 0.5):
        layer.w[:] = W * scale
        close(g(X), slopes(X, W * scale)[0])
        close(xlac.grad(getattr(layer, name), wrt="x")(x=X), slopes(X, W * scale)[0])
        close(xlac.vjp(getattr(layer, name), X)[1](1.0)[0], slopes(X, W * scale)[0])
        close(xlac.jvp(getattr(layer, name), (X,), (X,))[1], np.sum(X * slopes(X, W * scale)[0]))
        close(layer.by_x(X), slopes(X, W * scale)[0])
    assert g.programs == 1


def test_types_are_kept() -> None:
    half = X.astype(DType.BF16.numpy)
    assert jit(xlac.grad(lambda x: xlac.sum(x * x)))(half).dtype == half.dtype
