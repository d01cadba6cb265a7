"""Loops, branches and calls along a leading axis, and what has bodies or state."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from stacked import SIZE, compare, evaluated

import xlac
from xlac.autodiff.gradient import linearize
from xlac.batching.along import Along
from xlac.batching.walk import Batch
from xlac.ir.dims import symbol, symbols
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.control.bounded import BoundedWhile, CountedScan
from xlac.ops.control.control import Call, Cond, Scan, While
from xlac.ops.control.effect import FUNCTIONS, CustomCall
from xlac.ops.reduction.order import Sort
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.reduction.window import Window
from xlac.ops.values import results
from xlac_sdk.dtypes import DType

F, I = DType.F64, DType.I32


def typed(*shapes: tuple[int, ...] | Type) -> list[Type]:
    return [s if isinstance(s, Type) else Type(F, s) for s in shapes]


def params(types: Sequence[Type]) -> list[Node]:
    return [build.param(f"x{n}", t.dtype, t.shape) for n, t in enumerate(types)]


def values(types: Sequence[Type], mapped: Sequence[bool]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    found = {}
    for n, (t, on) in enumerate(zip(types, mapped, strict=True)):
        shape: Any = (SIZE, *t.shape) if on else t.shape
        found[f"x{n}"] = (
            rng.uniform(0.2, 0.9, shape)
            if t.dtype is F
            else rng.integers(-1, 4, shape).astype(t.dtype.numpy)
        )
    return found


def sets(count: int) -> list[tuple[bool, ...]]:
    return [s for s in product((False, True), repeat=count) if any(s)]


def check(types: Sequence[Type], mapped: tuple[bool, ...], make: Any) -> list[bool]:
    given = params(types)
    return compare(given, make(given), values(types, mapped), mapped, 1e-12)


def rnn(h: Node, x: Node, w: Node) -> tuple[Node, Node]:
    new = build.apply1("tanh", build.add(build.dot(w, h, ((1,), (0,))), x))
    return new, build.mul(new, h)


def late(n: Node, s: Node, x: Node, w: Node) -> tuple[Node, ...]:
    """Carries an integer, and something that only gets the axis on its way."""
    return build.add(n, 1), build.add(s, build.mul(x, build.cast(n, F))), build.mul(build.exp(s), w)


SCANS = [
    (rnn, typed((3,), (3,), (3, 3)), 1, 1, typed((3,), (5, 3), (3, 3))),
    (late, typed(Type(I), (), (), ()), 2, 1, typed(Type(I), (), (4,), ())),
    (lambda a, b, x: (b, build.mul(a, b), x), typed((), (), ()), 2, 1, typed((), (), (4,))),
    (lambda x, w: build.mul(x, w), typed((), ()), 0, 1, typed((0,), ())),
]


@pytest.mark.parametrize("case", range(len(SCANS)))
def test_scan(case: int) -> None:
    make, takes, carries, scanned, types = SCANS[case]
    body = build.graph("step", takes, make)
    length = types[carries].shape[0]
    for mapped in sets(len(types)):
        for reverse in (False, True):
            op = Scan(body, length, carries, scanned, reverse)
            check(types, mapped, lambda given, op=op: results(Node.of(op, *given)))


def test_what_does_not_differ_is_computed_once() -> None:
    """The integer that `late` carries never gets the axis."""
    make, takes, carries, scanned, types = SCANS[1]
    op = Scan(build.graph("step", takes, make), 4, carries, scanned)
    found = check(types, (False, False, True, False), lambda given: results(Node.of(op, *given)))
    assert found == [False, True, True]


@pytest.mark.parametrize("mapped", sets(3))
def test_cond(mapped: tuple[bool, ...]) -> None:
    """Of one branch for all, and a branch for each, out of range too."""
    branches = (
        build.graph("a", typed((3,), (3,)), lambda x, y: (build.mul(build.exp(x), y), x)),
        build.graph("b", typed((3,), (3,)), lambda x, y: (build.mul(x, x), build.like(2.0, x))),
        build.graph(
            "c", typed((3,), (3,)), lambda x, y: (build.like(1.0, x), build.apply1("sigmoid", y))
        ),
    )
    types = typed(Type(I), (3,), (3,))
    given = params(types)
    for number in (0, 1, 2, 7, -1):
        index = np.int32([number, 0, 2]) if mapped[0] else np.asarray(number, np.int32)
        compare(
            given,
            results(Node.of(Cond(branches), *given)),
            values(types, mapped) | {"x0": index},
            mapped,
            1e-12,
        )


@pytest.mark.parametrize("mapped", sets(2))
def test_call(mapped: tuple[bool, ...]) -> None:
    body = build.graph("f", typed((3,), (3,)), lambda x, y: (build.mul(build.exp(x), y), y))
    found = check(
        typed((3,), (3,)), mapped, lambda given: results(Node.of(Call(body, "f"), *given))
    )
    assert found == [True, mapped[1]]


def halving(types: Sequence[Type]) -> While:
    """Multiplies x by y until it is small, and counts the steps."""
    return While(
        build.graph("test", types, lambda x, y, n: build.compare(x, "gt", 0.05)),
        build.graph("step", types, lambda x, y, n: (build.mul(x, y), y, build.add(n, 1))),
    )


@pytest.mark.parametrize("mapped", sets(3))
def test_while(mapped: tuple[bool, ...]) -> None:
    """Each example takes steps of its own: those that are done wait for the others."""
    types = typed((), (), Type(I))
    found = check(types, mapped, lambda given: results(Node.of(halving(types), *given)))
    differs = mapped[0] or mapped[1]
    assert found == [differs, differs, True]


def test_while_that_no_example_begins() -> None:
    types = typed((), (), Type(I))
    given = params(types)
    value = {"x0": np.float64([0.01, 0.02]), "x1": np.asarray(0.5), "x2": np.asarray(0, np.int32)}
    compare(given, results(Node.of(halving(types), *given)), value, (True, False, False))


def sums(*scalars: Type) -> Graph:
    return build.graph(
        "sum", [*scalars, *scalars], lambda a, i, b, j: (build.add(a, b), build.maximum(i, j))
    )


@pytest.mark.parametrize("mapped", [*sets(4)[::2], (True, False, False, True)])
@pytest.mark.parametrize("op", ["reduce", "window"])
def test_bodies_of_reductions(op: str, mapped: tuple[bool, ...]) -> None:
    """Also with a value to begin with for each example."""
    types = typed((4, 5), Type(I, (4, 5)), (), Type(I))
    body = sums(Type(F), Type(I))
    made = (
        Reduce((1,), "body", body)
        if op == "reduce"
        else Window("body", body, (2, 1), (1, 2), (0, 1), (1, 0), (1, 1), (1, 1))
    )
    check(types, mapped, lambda given: results(Node.of(made, *given)))


@pytest.mark.parametrize("mapped", sets(2))
def test_sort_by_a_body(mapped: tuple[bool, ...]) -> None:
    scalars = [Type(F), Type(F), Type(I), Type(I)]
    body = build.graph("before", scalars, lambda a, b, i, j: build.compare(a, "gt", b))
    types = typed((2, 6), Type(I, (2, 6)))
    check(types, mapped, lambda given: results(Node.of(Sort(1, body=body), *given)))


def test_custom_calls_go_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FUNCTIONS, "total", lambda x, y: (np.asarray(x.sum() + y), x))
    op = CustomCall("total", (), (Type(F), Type(F, (3,))))
    for mapped in sets(2):
        check(typed((3,), ()), mapped, lambda given: results(Node.of(op, *given)))


def test_no_examples() -> None:
    """An axis of no elements: results of none, whatever they come from."""
    types = typed((3,), (3, 3))
    given = params(types)
    wide = build.param("x0", F, (0, 3))
    value = build.apply1("softmax", build.dot(given[1], given[0], ((1,), (0,))))
    (found,) = Batch({given[0]: Along(wide, True)}, 0).run([value])
    empty, full = {"x0": np.zeros((0, 3))}, {"x1": np.ones((3, 3))}
    assert evaluated([wide, given[1]], [found.node], empty | full)[0].shape == (0, 3)


def test_an_axis_that_is_known_when_the_model_runs() -> None:
    """Sizes may be symbols: what is batched holds for every number of examples."""
    size = symbol("examples")
    types = typed((4,), (3, 4))
    x, w = params(types)
    wide = build.param("x0", F, (size, 4))
    value = build.apply1("softmax", build.dot(w, x, ((1,), (0,))))
    (found,) = Batch({x: Along(wide, True)}, size).run([build.reduce(value, "max")])
    model = xlac.compile(
        Model(
            Graph("any", (wide, w), {"y": found.node}), {}, {"examples": next(iter(symbols(size)))}
        ),
        "reference",
    )
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(3, 4))
    for count in (1, 5):
        data = rng.normal(size=(count, 4))
        logits = np.exp(data @ weight.T)
        wanted = (logits / logits.sum(1, keepdims=True)).max(1)
        np.testing.assert_allclose(model(x0=data, x1=weight), wanted, 1e-12)


def bounded(types: Sequence[Type], most: int) -> BoundedWhile:
    """`halving` with a bound, which yields too."""
    plain = halving(types)
    assert plain.cond is not None

    def step(x: Node, y: Node, n: Node) -> tuple[Node, ...]:
        return build.mul(x, y), y, build.add(n, 1), build.exp(x), y, build.add(n, 2)

    return BoundedWhile(plain.cond, build.graph("step", types, step), most)


@pytest.mark.parametrize("most", [0, 2, 9])
@pytest.mark.parametrize("mapped", sets(3))
def test_bounded_while(mapped: tuple[bool, ...], most: int) -> None:
    """Each example has a number of steps of its own, and zeros where it made none."""
    types = typed((), (), Type(I))
    found = check(types, mapped, lambda given: results(Node.of(bounded(types, most), *given)))
    differs = mapped[0] or mapped[1]
    assert found[:4] == [differs, differs, True, differs] or not differs


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("case", range(len(SCANS)))
def test_counted_scan(case: int, reverse: bool) -> None:
    make, takes, carries, scanned, types = SCANS[case]
    op = CountedScan(
        build.graph("step", takes, make), types[carries].shape[0], carries, scanned, reverse
    )
    types = [Type(I), *types]
    given = params(types)
    for mapped in sets(len(types)):
        count = np.int32([2, 0, 9]) if mapped[0] else np.asarray(2, np.int32)
        compare(
            given,
            results(Node.of(op, *given)),
            values(types, mapped) | {"x0": count},
            mapped,
            1e-12,
        )


def test_gradients_of_loops_that_differ() -> None:
    """Of each example, and of all examples at once."""
    types = typed((), (), Type(I))
    given = params(types)
    first = results(Node.of(bounded(types, 9), *given))
    found = linearize([first[0], first[4 + 0]], given[:2])
    back = found.transposed([build.constant(1.0, F), build.full(0.5, (9,), F)])
    compare(given, back, values(types, (True, True, False)), (True, True, False), 1e-12)
