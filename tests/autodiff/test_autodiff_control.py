"""Derivatives of loops, branches and calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from differences import compare, evaluated

from xlac.autodiff.errors import NoDerivativeError
from xlac.autodiff.gradient import linearize
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.control import Call, Cond, Scan, While
from xlac.ops.values import results
from xlac_sdk.dtypes import DType

F, I = DType.F64, DType.I32
Body = Callable[..., Any]


def typed(*shapes: tuple[int, ...] | Type) -> list[Type]:
    return [s if isinstance(s, Type) else Type(F, s) for s in shapes]


def params(types: Sequence[Type]) -> list[Node]:
    return [build.param(f"x{n}", t.dtype, t.shape) for n, t in enumerate(types)]


def values(types: Sequence[Type], seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        f"x{n}": rng.uniform(0.2, 0.9, t.shape) if t.dtype is F else rng.integers(0, 3, t.shape).astype(t.dtype.numpy)  # type: ignore[arg-type]
        for n, t in enumerate(types)
    }  # fmt: skip


def scan(body: Graph, length: int, carries: int, scanned: int, reverse: bool, types: Sequence[Type]) -> tuple[list[Node], tuple[Node, ...]]:  # fmt: skip
    given = params(types)
    return given, results(Node.of(Scan(body, length, carries, scanned, reverse), *given))


def rnn(h: Node, x: Node, w: Node) -> tuple[Node, Node]:
    new = build.apply1("tanh", build.add(build.dot(w, h, ((1,), (0,))), x))
    return new, build.mul(new, h)


def counted(n: Node, s: Node, x: Node, w: Node) -> tuple[Node, ...]:
    """Carries an integer, and something that only starts to change on its way."""
    return build.add(n, 1), build.add(s, build.mul(x, build.cast(n, F))), build.mul(build.exp(s), w)


def fixed(c: Node, x: Node) -> tuple[Node, Node]:
    """Yields what does not change, and carries what is replaced."""
    return build.sub(x, 1.0), build.mul(c, c)


BODIES: list[tuple[Body, list[Type], int, int, list[Type]]] = [
    (rnn, typed((3,), (3,), (3, 3)), 1, 1, typed((3,), (5, 3), (3, 3))),
    (counted, typed(Type(I), (), (), ()), 2, 1, typed(Type(I), (), (4,), ())),
    (fixed, typed((2,), (2,)), 1, 1, typed((2,), (6, 2))),
    (lambda c: build.mul(build.sin(c) if hasattr(build, "sin") else build.exp(c), c), typed(()), 1, 0, typed(())),
    (lambda x, w: build.mul(build.mul(x, x), w), typed((), ()), 0, 1, typed((7,), ())),
    (lambda a, b: (b, build.mul(a, b)), typed((), ()), 2, 0, typed((), ())),
]  # fmt: skip


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("case", range(len(BODIES)))
@pytest.mark.parametrize("length", [0, 1, None])
def test_scan(case: int, reverse: bool, length: int | None) -> None:
    make, takes, carries, scanned, types = BODIES[case]
    steps = types[carries].shape[0] if scanned else 4
    if length is not None:
        types = [
            t.with_shape((length, *t.shape[1:])) if carries <= n < carries + scanned else t
            for n, t in enumerate(types)
        ]
        steps = length
    body = build.graph("step", takes, make)
    given, outputs = scan(body, int(steps), carries, scanned, reverse, types)  # type: ignore[call-overload]
    compare(given, outputs, values(types))


def test_scan_in_scan() -> None:
    inner = build.graph(
        "inner", typed((), (), ()), lambda c, x, w: (build.add(build.mul(c, w), build.exp(x)), c)
    )

    def outer(c: Node, xs: Node, w: Node) -> Sequence[Node]:
        end, each = results(Node.of(Scan(inner, 3, 1, 1), c, xs, w))
        return end, build.reduce(build.mul(each, xs), "add")

    body = build.graph("outer", typed((), (3,), ()), outer)
    given, outputs = scan(body, 4, 1, 1, False, typed((), (4, 3), ()))
    compare(given, outputs, values(typed((), (4, 3), ())))


@pytest.mark.parametrize("number", [0, 1, 2, 7, -1])
def test_cond(number: int) -> None:
    branches = (
        build.graph("a", typed((3,), (3,)), lambda x, y: (build.mul(build.exp(x), y), x)),
        build.graph("b", typed((3,), (3,)), lambda x, y: (build.mul(x, x), build.like(2.0, x))),
        build.graph("c", typed((3,), (3,)), lambda x, y: (build.like(1.0, x), build.apply1("sigmoid", y))),
    )  # fmt: skip
    types = typed(Type(I), (3,), (3,))
    given = params(types)
    outputs = results(Node.of(Cond(branches), *given))
    compare(given, outputs, values(types) | {"x0": np.asarray(number, np.int32)})


def test_call_twice() -> None:
    body = build.graph("f", typed((3,), (3,)), lambda x, y: build.mul(build.exp(x), y))
    types = typed((3,), (3,))
    a, b = given = params(types)
    first = Node.of(Call(body, "f"), a, b)
    compare(given, [Node.of(Call(body, "f"), first, a)], values(types))


def loop() -> tuple[list[Node], tuple[Node, ...]]:
    """Squares x until it is small, and counts."""
    types = typed((), Type(I))
    test = build.graph("test", types, lambda x, n: build.compare(x, "gt", 0.01))
    step = build.graph("step", types, lambda x, n: (build.mul(x, x), build.add(n, 1)))
    given = params(types)
    return given, results(Node.of(While(test, step), *given))


def test_while_forwards() -> None:
    given, outputs = loop()
    found = linearize(outputs, given[:1])
    value = {"x0": np.asarray(0.9), "x1": np.asarray(0, np.int32), "t0": np.asarray(1.0)}
    answers = evaluated([*given, *found.sources], [*found.values, found.changes[0]], value)
    steps = int(answers[1])
    assert steps > 3
    assert answers[2] == pytest.approx(2**steps * 0.9 ** (2**steps - 1))


def test_while_backwards_needs_its_length() -> None:
    given, outputs = loop()
    found = linearize(outputs, given[:1])
    with pytest.raises(NoDerivativeError, match="runs as often as its condition says"):
        found.transposed([build.constant(1.0, F), None])


@pytest.mark.parametrize("order", [2, 3])
def test_derivatives_of_derivatives(order: int) -> None:
    """The gradient of a gradient of a loop, beside differences of the gradient."""
    body = build.graph("step", typed((3,), (3,), (3, 3)), rnn)
    types = typed((3,), (2, 3), (3, 3))
    given, outputs = scan(body, 2, 1, 1, False, types)
    value = build.reduce(build.mul(outputs[0], outputs[0]), "add")
    for number in range(order - 1):
        found = linearize([value], given).transposed([build.constant(1.0, F)])
        value = build.reduce(build.mul(found[number], build.exp(found[number])), "add")
    compare(given, [value], values(types), tolerance=2e-5)


def test_what_is_not_reached_has_no_gradient() -> None:
    x, y = params(typed((3,), (3,)))
    found = linearize([build.exp(x)], [x, y]).transposed([build.like(1.0, x)])
    _, gradient = evaluated([x, y], found, values(typed((3,), (3,))))
    assert not gradient.any()
