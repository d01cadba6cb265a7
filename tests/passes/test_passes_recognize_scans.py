"""Loops that count from a constant to a constant become scans, with the same results to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pass_graphs import F32, graph, x

from xlac.ir.graph import Graph, Node, apply
from xlac.ir.interpret import interpret
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.control import Scan, While
from xlac.passes.control.recognize_scans import RecognizeScansPass
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.trace import Trace
from xlac_sdk.dtypes import DType

Index = Callable[[Node], Node]
INT = Type(DType.I32)


def scanned(g: Graph) -> tuple[Scan | None, Graph]:
    """The scan that a graph's loop became, if it did, and the graph."""
    after = RecognizeScansPass().run(g, Trace(), PassContext())
    found = [n.op for n in after.nodes() if isinstance(n.op, Scan)]
    return (found[0] if found else None), after


def same(before: Graph, after: Graph, **given: Any) -> None:
    """Both give the same, to the bit."""
    for one, other in zip(
        interpret(before, given).values(), interpret(after, given).values(), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def loop(
    rows: int, start: int, step: int, direction: str, limit: int, read: Index, write: Index
) -> Graph:
    """total = total * 0.5 + xs[read(i)]; ys[write(i)] = total; gives i, total and ys."""
    types = [INT, Type(F32), Type(F32, (rows, 2)), Type(F32, (rows, 2))]

    def turn(i: Node, total: Node, xs: Node, ys: Node) -> tuple[Node, ...]:
        zero = build.constant(0)
        row = apply("dyn_slice", xs, read(i), zero, sizes=(1, 2))
        mean = build.mul(build.reduce(row, "add", (0, 1)), 0.5)
        total = build.add(build.mul(total, 0.5), mean)
        new = build.mul(row, build.broadcast_to(total, (1, 2)))
        return build.add(i, step), total, xs, apply("dyn_update", ys, new, write(i), zero)

    cond = build.graph("c", types, lambda i, *_: build.compare(i, direction, limit))
    node = Node.of(
        While(cond, build.graph("b", types, turn)),
        build.constant(start),
        x(name="t"),
        x(rows, 2, name="xs"),
        x(rows, 2, name="ys"),
    )
    return graph(*(build.pick(node, n) for n in (0, 1, 3)))


def given(rows: int) -> dict[str, Any]:
    """Inputs of `loop`."""
    numbers = np.random.default_rng(1)
    return {
        "t": np.float32(0.3).reshape(()),
        "xs": numbers.normal(size=(rows, 2)).astype(np.float32),
        "ys": numbers.normal(size=(rows, 2)).astype(np.float32),
    }


def itself(i: Node) -> Node:
    return i


def backwards(i: Node) -> Node:
    return build.sub(6, i)


def wrapped(i: Node) -> Node:
    """As frameworks write an index that may be negative."""
    return build.select(build.compare(i, "lt", 0), build.add(i, 7), i)


@pytest.mark.parametrize(
    ("read", "write", "reverse", "slices", "carries"),
    [
        (itself, itself, False, 1, 2),
        (backwards, backwards, True, 1, 2),
        (wrapped, itself, False, 1, 2),
        (backwards, itself, False, 0, 2),  # the row that is read is not the step's
        (lambda i: build.add(i, 1), itself, False, 0, 2),
    ],
)
def test_rows_of_steps_become_slices(
    read: Index, write: Index, reverse: bool, slices: int, carries: int
) -> None:
    g = loop(7, 0, 1, "lt", 7, read, write)
    scan, after = scanned(g)
    assert scan is not None and scan.length == 7
    if slices:
        assert (scan.reverse, scan.scanned, scan.carries) == (reverse, slices, carries)
    same(g, after, **given(7))


@pytest.mark.parametrize(
    ("start", "step", "direction", "limit", "length"),
    [
        (0, 1, "lt", 7, 7),
        (0, 1, "le", 6, 7),
        (0, 1, "ne", 7, 7),
        (0, 2, "lt", 7, 4),
        (6, -1, "ge", 0, 7),
        (6, -1, "gt", 2, 4),
        (2, 1, "lt", 5, 3),
        (-3, 3, "le", 4, 3),
        (0, 2, "ne", 7, None),  # never equal
        (0, -1, "lt", 7, None),  # ends only where the counter wraps around
        (0, 0, "lt", 7, None),
        (7, 1, "lt", 7, None),  # no turn: nothing to gain
        (0, 2**30, "lt", 2**31 - 1, None),  # wraps around
    ],
)
def test_how_long_a_loop_runs(
    start: int, step: int, direction: str, limit: int, length: int | None
) -> None:
    g = loop(7, start, step, direction, limit, itself, itself)
    scan, after = scanned(g)
    assert (scan and scan.length) == length
    if length:
        same(g, after, **given(7))


def test_rows_that_not_every_step_replaces_stay_carried() -> None:
    scan, _ = scanned(loop(7, 0, 1, "lt", 6, itself, itself))
    assert scan is not None and (scan.carries, scan.scanned) == (3, 0)


def test_what_is_read_while_it_is_replaced_stays_carried() -> None:
    types = [INT, Type(F32, (5,))]

    def turn(i: Node, ys: Node) -> tuple[Node, ...]:
        last = apply("dyn_slice", ys, build.constant(4), sizes=(1,))
        return build.add(i, 1), apply("dyn_update", ys, build.add(last, 1.0), i)

    cond = build.graph("c", types, lambda i, ys: build.compare(5, "gt", i))
    node = Node.of(While(cond, build.graph("b", types, turn)), build.constant(0), x(5))
    g = graph(build.pick(node, 1))
    scan, after = scanned(g)
    assert scan is not None and scan.carries == 2
    same(g, after, x=np.arange(5, dtype=np.float32))


def test_a_limit_that_is_carried_and_never_changes() -> None:
    types = [INT, INT, Type(F32)]
    cond = build.graph("c", types, lambda i, n, y: build.compare(i, "lt", n))
    body = build.graph("b", types, lambda i, n, y: (build.add(1, i), n, build.mul(y, 0.5)))
    node = Node.of(While(cond, body), build.constant(0), build.constant(4), x())
    g = graph(*(build.pick(node, n) for n in range(3)))
    scan, after = scanned(g)
    assert scan is not None and scan.length == 4
    same(g, after, x=np.float32(3).reshape(()))


def test_a_limit_that_only_the_call_knows_stays_a_loop() -> None:
    types = [INT, INT, Type(F32)]
    cond = build.graph("c", types, lambda i, n, y: build.compare(i, "lt", n))
    body = build.graph("b", types, lambda i, n, y: (build.add(1, i), n, build.mul(y, 0.5)))
    node = Node.of(While(cond, body), build.constant(0), x(dtype=DType.I32, name="n"), x())
    assert scanned(graph(build.pick(node, 2)))[0] is None
