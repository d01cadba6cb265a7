"""`xlac.vmap` of Python functions: axes, nests, and together with derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.ir.graph import Graph
from xlac_sdk.source import SourceError

jit = functools.partial(xlac.jit, target="reference")
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(4, 3)), RNG.normal(size=(4, 2))
P = {"w": RNG.normal(size=(3, 2)), "b": RNG.normal(size=2)}


def loss(p: Any, x: Any, y: Any) -> Any:
    return xlac.mean((xlac.tanh(x @ p["w"] + p["b"]) - y) ** 2)


def close(found: Any, wanted: Any) -> None:
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, 1e-12, 1e-12)


def test_axes() -> None:
    def f(a: Any, b: Any) -> Any:
        return {"sum": a * 2 + b, "b": b}

    a, b = RNG.normal(size=(3, 4)), RNG.normal(size=3)
    found = jit(xlac.vmap(f, in_axes=(1, None), out_axes={"sum": -1, "b": None}))(a, b)
    close(found["sum"], a * 2 + b[:, None])
    close(found["b"], b)
    found = jit(xlac.vmap(f, in_axes=(-1, None)))(a, b)
    close(found["sum"], a.T * 2 + b)
    close(found["b"], np.tile(b, (4, 1)))


def test_nests_of_axes() -> None:
    def f(p: Any, pair: Any, scale: float) -> Any:
        return p["w"] @ pair[0] * scale + pair[1]

    w, x, y = RNG.normal(size=(2, 5, 3)), RNG.normal(size=(3, 5)), RNG.normal(size=2)
    found = jit(xlac.vmap(f, in_axes=({"w": 1}, (1, None), None)))({"w": w}, (x, y), 2.0)
    close(found, np.einsum("ine,en->ni", np.moveaxis(w, 2, 2), x) * 2 + y)


def test_arguments_by_name_have_it_first() -> None:
    def f(x: Any, *, y: Any) -> Any:
        return x * xlac.sum(y)

    close(jit(xlac.vmap(f, in_axes=(None,)))(2.0, y=X), 2 * X.sum(1))


def test_called_with_arrays_it_is_compiled() -> None:
    each = xlac.vmap(loss, in_axes=(None, 0, 0))
    wanted = [np.mean((np.tanh(x @ P["w"] + P["b"]) - y) ** 2) for x, y in zip(X, Y, strict=True)]
    close(each(P, X, Y), wanted)
    assert each.programs == 1


def test_gradients_of_each_example() -> None:
    each = jit(xlac.vmap(xlac.grad(loss), in_axes=(None, 0, 0)))(P, X, Y)
    one = jit(xlac.grad(loss))
    for n in range(4):
        for name in P:
            close(each[name][n], one(P, X[n], Y[n])[name])


def test_the_gradient_of_all_examples() -> None:
    def total(p: Any, x: Any, y: Any) -> Any:
        return xlac.mean(xlac.vmap(loss, in_axes=(None, 0, 0))(p, x, y))

    together = jit(xlac.grad(total))(P, X, Y)
    each = jit(xlac.vmap(xlac.grad(loss), in_axes=(None, 0, 0)))(P, X, Y)
    for name in P:
        close(together[name], each[name].mean(0))


def test_an_ensemble() -> None:
    """Several sets of weights on the same data, a step of each."""

    def step(p: Any, x: Any, y: Any) -> Any:
        value, slope = xlac.value_and_grad(loss)(p, x, y)
        return {name: p[name] - 0.1 * slope[name] for name in p}, value

    many = {name: RNG.normal(size=(5, *value.shape)) for name, value in P.items()}
    new, values = jit(xlac.vmap(step, in_axes=(0, None, None)))(many, X, Y)
    single = jit(step)
    for n in range(5):
        one, value = single({name: each[n] for name, each in many.items()}, X, Y)
        close(values[n], value)
        for name in P:
            close(new[name][n], one[name])


def test_in_each_other() -> None:
    outer = xlac.vmap(xlac.vmap(lambda a, b: a * xlac.sum(b), (None, 0)), (0, None))
    close(jit(outer)(Y[:, 0], X), np.outer(Y[:, 0], X.sum(1)))
    both = xlac.vmap(xlac.vmap(lambda a, b: a @ b), in_axes=(1, 1), out_axes=1)
    a, b = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 3, 4))
    close(jit(both)(a, b), (a * b).sum(-1))


@pytest.mark.parametrize("mode", ["forwards", "backwards"])
def test_a_jacobian(mode: str) -> None:
    def f(x: Any) -> Any:
        return xlac.softmax(x)

    def forwards(x: Any) -> Any:
        return xlac.vmap(lambda t: xlac.jvp(f, (x,), (t,))[1], out_axes=1)(np.eye(3))

    def backwards(x: Any) -> Any:
        _, back = xlac.vjp(f, x)
        return xlac.vmap(lambda ct: back(ct)[0])(np.eye(3))

    p = np.exp(X[0]) / np.exp(X[0]).sum()
    close(jit(forwards if mode == "forwards" else backwards)(X[0]), np.diag(p) - np.outer(p, p))


def test_a_hessian() -> None:
    def f(x: Any) -> Any:
        return xlac.sum(x**3) + x[0] * x[1]

    def hessian(x: Any) -> Any:
        return xlac.vmap(lambda t: xlac.jvp(xlac.grad(f), (x,), (t,))[1])(np.eye(3))

    wanted = np.diag(6 * X[0])
    wanted[0, 1] = wanted[1, 0] = 1
    close(jit(hessian)(X[0]), wanted)


class Layer:
    def __init__(self) -> None:
        self.w = P["w"].copy()

    @jit
    def one(self, x: Any) -> Any:
        return xlac.tanh(x @ self.w)


def test_methods() -> None:
    layer = Layer()
    each = xlac.vmap(layer.one)
    for scale in (1.0, 2.0):
        layer.w[:] = P["w"] * scale
        close(each(X), np.tanh(X @ P["w"] * scale))
    assert each.programs == 1


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "a number": (
        lambda: xlac.vmap(lambda x, s: x * s)(X, 2.0),
        "argument s, which is a number.*\n.*None",
    ),
    "no such axis": (
        lambda: xlac.vmap(lambda x: x, in_axes=2)(X),
        r"axis 2 of the argument x, which is f64\[4, 3\]",
    ),
    "no such axis in a nest": (
        lambda: xlac.vmap(lambda p: p["a"])({"a": np.float64(1)}),
        r"p\['a'\]",
    ),
    "other sizes": (
        lambda: xlac.vmap(lambda x, y: x)(X, X[:3]),
        r"x of .* has 4 examples, and y has 3",
    ),
    "no examples": (lambda: xlac.vmap(lambda x: x, in_axes=None)(X), "no argument"),
    "too few axes": (
        lambda: xlac.vmap(lambda x, y: x, in_axes=(0,))(X, X),
        "in_axes is .* does not fit the arguments",
    ),
    "another nest": (
        lambda: xlac.vmap(lambda p: p["a"], in_axes=({"b": 0},))({"a": X}),
        r"in_axes\[0\] is",
    ),
    "a text": (lambda: xlac.vmap(lambda x: x, in_axes=("x",))(X), r"in_axes\[0\] is 'x'"),  # type: ignore[arg-type]
    "no such result axis": (
        lambda: xlac.vmap(lambda x: x, out_axes=3)(X),
        "out_axes says axis 3 of the result",
    ),
    "results that differ": (lambda: xlac.vmap(lambda x: x, out_axes=None)(X), "out_axes says None"),
    "other results": (lambda: xlac.vmap(lambda x: x, out_axes=(0, 0))(X), r"out_axes is \(0, 0\)"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake: str) -> None:
    call, told = MISTAKES[mistake]
    with pytest.raises(SourceError, match=told) as error:
        call()
    assert error.value.diagnostics[0].code == "XL2046"


def test_a_result_that_nothing_mapped_reaches() -> None:
    close(jit(xlac.vmap(lambda x: 1.0, out_axes=0))(X), np.ones(4, np.float32))


def test_a_branch_for_all_stays_a_branch() -> None:
    """What no example takes is not computed; that of an index that differs is."""

    def either(flag: Any, x: Any) -> Any:
        return xlac.cond(flag, lambda: xlac.sum(xlac.exp(x)), lambda: xlac.sum(x @ P["w"]))

    kinds: dict[bool, set[str]] = {}
    for differs in (False, True):

        def mapped(flag: Any, x: Any, differs: bool = differs) -> Any:
            found = xlac.vmap(either, in_axes=(0 if differs else None, 0))(flag, x)
            made = Graph("vmap", (), {"y": found.node})
            kinds[differs] = {type(node.op).__name__ for node in made.order}
            return found

        for flag in ([True] * 4, [False, True, True, False]):
            given = np.array(flag) if differs else np.array(flag[0])
            rows = np.broadcast_to(given, 4)
            close(jit(mapped)(given, X), np.where(rows, np.exp(X).sum(1), (X @ P["w"]).sum(1)))
    assert "Cond" in kinds[False] and "Exp" not in kinds[False]
    assert "Cond" not in kinds[True] and "Exp" in kinds[True]
