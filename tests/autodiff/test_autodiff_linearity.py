"""Declared gradients with loops and branches: which are linear in their cotangents."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from differences import evaluated

from xlac.autodiff.errors import NoDerivativeError
from xlac.autodiff.gradient import linearize, push_forward
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.bounded import CountedScan
from xlac.ops.control.control import Call, Cond, Scan
from xlac.ops.control.custom_gradient import CustomGradient
from xlac.ops.walks import closed
from xlac_sdk.dtypes import DType

F = DType.F64
ROW, INDEX = Type(F, (3,)), Type(DType.I32)


def looped(
    first: Callable[[Node], Node], step: Callable[[Node, Node], Node], adds: bool = False
) -> Callable[[Node, Node], Node]:
    """A scan of a cotangent's elements, each step of which sees x."""

    def made(x: Node, ct: Node) -> Node:
        def body(c: Node, ct: Node, x: Node) -> tuple[Node, ...]:
            new = build.add(step(c, x), build.spread(ct, (3,), ())) if adds else step(c, x)
            return new, build.add(build.reduce(new, "add"), ct)

        graph = build.graph("step", [ROW, Type(F), ROW], body)
        last, rows = build.results(Node.of(Scan(graph, 3, 1, 1), first(ct), ct, x))
        return build.add(last, rows)

    return made


def branched(other: Callable[[Node, Node], Node]) -> Callable[[Node, Node], Node]:
    def made(x: Node, ct: Node) -> Node:
        one, two = build.graph("one", [ROW, ROW], build.mul), build.graph("two", [ROW, ROW], other)
        index = build.cast(build.compare(build.reduce(x, "add"), "gt", 0.0), DType.I32)
        return Node.of(Cond((one, two)), index, x, ct)

    return made


def called(body: Callable[[Node, Node], Node]) -> Callable[[Node, Node], Node]:
    return lambda x, ct: Node.of(Call(build.graph("body", [ROW, ROW], body), "body"), x, ct)


def counted(x: Node, ct: Node) -> Node:
    graph = build.graph("step", [ROW, ROW], build.mul)
    return Node.of(CountedScan(graph, 3, 1, 0), build.constant(2, DType.I32), ct, x)


LINEAR = {
    "a loop": looped(lambda ct: ct, build.mul),
    "a loop from zeros": looped(lambda ct: build.like(0.0, ct), build.mul, adds=True),
    "a branch": branched(lambda x, ct: build.div(ct, 2.0)),
    "a branch of zeros": branched(lambda x, ct: build.like(0.0, ct)),
    "a call": called(build.mul),
}
NOT_LINEAR = {
    "a loop from ones": looped(lambda ct: build.like(1.0, ct), build.mul),
    "a loop that adds": looped(lambda ct: ct, build.add),
    "a branch of ones": branched(lambda x, ct: build.like(1.0, ct)),
    "a branch of what is known": branched(lambda x, ct: x),
    "a call": called(build.add),
    "a loop that carries zeros": looped(lambda ct: build.like(0.0, ct), build.mul),
    "a loop that data ends": counted,
}


def declared(gradient: Callable[[Node, Node], Node]) -> tuple[Node, Node]:
    x, y, ct = (build.param(name, F, (3,)) for name in ("x0", "y", "ct"))
    body = closed("body", [x], [build.exp(x)])
    back = closed("gradient", [x, y, ct], [gradient(x, ct)])
    return x, Node.of(CustomGradient(body, back, "declared"), x)


@pytest.mark.parametrize("name", LINEAR)
def test_linear(name: str) -> None:
    """What is pushed forwards is the transpose of what is declared."""
    x, y = declared(LINEAR[name])
    t, ct = build.param("t", F, (3,)), build.param("ct", F, (3,))
    (change,) = push_forward([y], [x], [t]).tangents
    (back,) = linearize([y], [x]).transposed([ct])
    for sign in (1.0, -1.0):
        rng = np.random.default_rng(0)
        values = {name: rng.uniform(0.2, 0.9, 3) for name in ("x0", "t", "ct")}
        values["x0"] *= sign
        forwards, backwards = evaluated([x, t, ct], [change, back], values)
        assert values["ct"] @ forwards == pytest.approx(values["t"] @ backwards, rel=1e-12)


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_not_linear(name: str) -> None:
    x, y = declared(NOT_LINEAR[name])
    (back,) = linearize([y], [x]).transposed([build.param("ct", F, (3,))])
    assert back is not None
    with pytest.raises(NoDerivativeError, match="declares a gradient that is not linear"):
        push_forward([y], [x], [build.param("t", F, (3,))])
