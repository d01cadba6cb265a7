"""Derivatives of loops that data ends within a bound, of scans that a value counts, and these loops
along a leading axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from differences import compare, evaluated

from xlac.autodiff.gradient import linearize
from xlac.batching.along import Along
from xlac.batching.walk import Batch
from xlac.ir.composite import evaluate_expansion
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.bounded import BoundedWhile, CountedScan
from xlac.ops.values import results
from xlac_sdk.dtypes import DType

F, I = DType.F64, DType.I32
SCALAR, COUNT, ROW, SQUARE = Type(F), Type(I), Type(F, (3,)), Type(F, (3, 3))


def params(types: Sequence[Type]) -> list[Node]:
    return [build.param(f"x{n}", t.dtype, t.shape) for n, t in enumerate(types)]


def loop(max: int, yields: bool = False) -> BoundedWhile:
    """Multiplies a row by one matrix until a bound that the data say."""
    types = [ROW, SQUARE, SCALAR, COUNT]
    test = build.graph(
        "test", types, lambda x, w, b, n: build.compare(build.reduce(x, "add"), "lt", b)
    )

    def step(x: Node, w: Node, b: Node, n: Node) -> tuple[Node, ...]:
        new = build.mul(build.exp(build.mul(0.3, build.dot(w, x, ((1,), (0,))))), x)
        after = (new, w, b, build.add(n, 1))
        return (*after, build.mul(new, new), n) if yields else after

    return BoundedWhile(test, build.graph("step", types, step), max)


VALUES: dict[str, Any] = {
    "x0": np.array([0.2, 0.5, 0.3]),
    "x1": np.random.default_rng(0).uniform(0.2, 0.9, (3, 3)),
    "x2": np.asarray(20.0),
    "x3": np.asarray(5, np.int32),
}


def taken(op: BoundedWhile, values: dict[str, Any] = VALUES) -> int:
    given = params([ROW, SQUARE, SCALAR, COUNT])
    outputs = results(Node.of(op, *given))
    return int(evaluated(given, outputs, values)[4])


@pytest.mark.parametrize("yields", [False, True])
@pytest.mark.parametrize("max", [0, 1, 3, 9, 50])
def test_bounded_while(max: int, yields: bool) -> None:
    """Forwards and backwards beside differences: ended by its bound, and by its condition."""
    op = loop(max, yields)
    steps = taken(op)
    assert steps == min(max, taken(loop(100))) and taken(loop(100)) < 50
    given = params([ROW, SQUARE, SCALAR, COUNT])
    compare(given, list(results(Node.of(op, *given))), VALUES)


def test_no_step_at_all() -> None:
    given = params([ROW, SQUARE, SCALAR, COUNT])
    values = VALUES | {"x2": np.asarray(-1.0)}
    assert taken(loop(9), values) == 0
    compare(given, list(results(Node.of(loop(9, True), *given))), values)


@pytest.mark.parametrize("max", [0, 3, 50])
def test_expansion_is_the_meaning(max: int) -> None:
    op = loop(max, True)
    arrays = list(VALUES.values())
    for one, other in zip(op.evaluate(*arrays), evaluate_expansion(op, arrays), strict=True):
        np.testing.assert_array_equal(one, other)


def rnn(h: Node, x: Node, w: Node) -> tuple[Node, ...]:
    new = build.apply1("tanh", build.add(build.dot(w, h, ((1,), (0,))), x))
    return new, build.mul(new, h)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("count", [-1, 0, 1, 3, 5, 9])
def test_counted_scan(count: int, reverse: bool) -> None:
    body = build.graph("step", [ROW, ROW, SQUARE], rnn)
    op = CountedScan(body, 5, 1, 1, reverse)
    types = [COUNT, ROW, Type(F, (5, 3)), SQUARE]
    given = params(types)
    rng = np.random.default_rng(1)
    values: dict[str, Any] = {f"x{n}": rng.uniform(0.2, 0.9, t.shape) for n, t in enumerate(types)}  # type: ignore[arg-type]
    values["x0"] = np.asarray(count, np.int32)
    compare(given, list(results(Node.of(op, *given))), values)
    arrays = list(values.values())
    for one, other in zip(op.evaluate(*arrays), evaluate_expansion(op, arrays), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("order", [2, 3])
def test_derivatives_of_derivatives(order: int) -> None:
    given = params([ROW, SQUARE, SCALAR, COUNT])
    value = build.reduce(results(Node.of(loop(6), *given))[0], "add")
    for number in range(order - 1):
        found = linearize([value], given[:2]).transposed([build.constant(1.0, F)])
        value = build.reduce(build.mul(found[number], found[number]), "add")
    compare(given, [value], VALUES, tolerance=2e-5)


def test_what_is_the_same_to_every_step_is_not_stacked() -> None:
    """Weights that a loop reads are no part of what it keeps of each step."""
    given = params([ROW, SQUARE, SCALAR, COUNT])
    found = linearize(results(Node.of(loop(7), *given))[:1], given[:2])
    (kept,) = {n for n in walk_ops(found.values) if isinstance(n.op, BoundedWhile)}
    stacks = list(kept.results[5:])
    assert stacks and all(t.shape[0] == 7 for t in stacks)
    assert not any(t.shape == (7, 3, 3) for t in stacks)


def walk_ops(roots: Sequence[Node]) -> list[Node]:
    from xlac.ir.graph import walk

    return list(walk(roots))


def inverse(x: Node) -> Node:
    """Of 1 it makes 0, of which it is infinite."""
    return build.sub(build.div(1.0, x), 1.0)


def until_zero(x: Node, count: Node) -> Node:
    test = build.graph("test", [SCALAR], lambda x: build.compare(x, "gt", 0.0))
    return results(Node.of(BoundedWhile(test, build.graph("step", [SCALAR], inverse), 10), x))[0]


def counted(x: Node, count: Node) -> Node:
    op = CountedScan(build.graph("step", [SCALAR], inverse), 4, 1, 0)
    return results(Node.of(op, count, x))[0]


@pytest.mark.parametrize("made", [until_zero, counted])
def test_examples_that_are_done_have_their_gradient(made: Any) -> None:
    """Where the derivative of the step is infinite at what they end with, while others go on."""
    x, count = params([SCALAR, COUNT])
    wide = build.param("wide", F, (3,)), build.param("counts", I, (3,))
    y = made(x, count)
    (alone,) = linearize([y], [x]).transposed([build.constant(1.0, F)])
    given = {x: Along(wide[0], True), count: Along(wide[1], True)}
    (each,) = Batch(given, 3).run([y])
    (together,) = linearize([each.node], [wide[0]]).transposed([build.like(1.0, each.node)])
    values, counts = np.array([1.0, 0.5, 1.0]), np.array([1, 2, 1], np.int32)
    found = evaluated(list(wide), [together], {"wide": values, "counts": counts})[0]
    for n, one in enumerate(found):
        single = {"x0": values[n], "x1": counts[n]}
        assert one == evaluated([x, count], [alone], single)[0] == [-1.0, 4.0, -1.0][n]


def test_shapes_that_do_not_fit() -> None:
    given = params([ROW, SQUARE, SCALAR, COUNT])
    with pytest.raises(ShapeError, match="max is from 0 to 2147483647, got -1"):
        Node.of(loop(-1), *given)
    body = build.graph("step", [ROW, ROW, SQUARE], rnn)
    with pytest.raises(ShapeError, match=r"the number of steps is i32\[\], got f64\[\]"):
        Node.of(CountedScan(body, 5, 1, 1), *params([SCALAR, ROW, Type(F, (5, 3)), SQUARE]))
