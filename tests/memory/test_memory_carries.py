"""Loops whose large carries are changed several times in an iteration: all in the memory of the
carry, and right where that would not be safe.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tests.memory.test_memory_update import TARGETS, every, integer, model, param, program
from xlac.api import compile as compile_model
from xlac.driver import lower
from xlac.fusion.group import Kind
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ops import build
from xlac.ops.control.control import Scan, While
from xlac.ops.tensor.dynamic_slice import DynSlice, DynUpdate
from xlac.ops.tensor.scatter import Scatter
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.programs.program import Copy
from xlac_sdk.programs.program import While as WhileStep
from xlac_sdk.target import Request

ROWS, COLUMNS = 6, 16
WHOLE = ROWS * COLUMNS
Body = Callable[..., Sequence[Node]]


def row(x: Node, at: Node | int) -> Node:
    at = integer(at) if isinstance(at, int) else at
    return Node.of(DynSlice((1, COLUMNS)), x, at, integer(0))


def put(x: Node, value: Node, at: Node | int) -> Node:
    at = integer(at) if isinstance(at, int) else at
    return Node.of(DynUpdate(), x, value, at, integer(0))


def counted(body: Body, carries: int) -> Graph:
    """A graph that runs `body` of a counter and of carries of six rows `turns` times."""
    types = [integer(0).type] * 2 + [param("x", (ROWS, COLUMNS)).type] * carries

    def turn(at: Node, end: Node, *carried: Node) -> list[Node]:
        return [build.add(at, integer(1)), end, *body(at, *carried)]

    more = build.graph("more", types, lambda at, end, *_: build.compare(at, "lt", end))
    loop = While(more, build.graph("turn", types, turn))
    given = [param(f"x{n}", (ROWS, COLUMNS)) for n in range(carries)]
    turns = param("turns", (), DType.I32)
    found = build.results(Node.of(loop, integer(0), turns, *given))[2:]
    return Graph("counted", (turns, *given), {f"y{n}": y for n, y in enumerate(found)})


def copies(graph: Graph) -> list[int]:
    """The sizes of the copies of whole carries within the loop, inner loops included."""
    (loop,) = (s for s in program(model(graph)).steps if isinstance(s, WhileStep))
    return [s.count for s in every(loop.body) if isinstance(s, Copy) and s.count == WHOLE]


def agree(graph: Graph, target: str) -> None:
    """Compares a compiled graph with the interpreted one."""
    rng = np.random.default_rng(0)
    given = {f"x{n}": rng.random((ROWS, COLUMNS), np.float32) for n in range(len(graph.outputs))}
    given["turns"] = np.asarray(4, np.int32)
    want = interpret(graph, given)
    found = compile_model(model(graph), target)(**given)
    found = found.values() if len(want) > 1 else [found]
    for got, expected in zip(found, want.values(), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def twice(at: Node, x: Node) -> list[Node]:
    """Two rows, each computed from two others."""
    x = put(x, build.mul(build.add(row(x, 0), row(x, 3)), 0.5), at)
    x = put(x, build.mul(build.add(row(x, at), row(x, 5)), 0.5), build.add(at, integer(1)))
    return [put(x, build.sub(row(x, 2), row(x, 1)), 0)]


def own(at: Node, x: Node) -> list[Node]:
    """A row from itself."""
    return [put(x, build.mul(build.sqrt(row(x, at)), 0.5), at)]


def nested(at: Node, x: Node) -> list[Node]:
    """A loop of its own for each turn."""
    types = [at.type, at.type, x.type]
    more = build.graph("fewer", types, lambda k, end, _: build.compare(k, "lt", end))

    def turn(k: Node, end: Node, x: Node) -> list[Node]:
        return [build.add(k, integer(1)), end, *twice(k, x)]

    inner = Node.of(While(more, build.graph("inner", types, turn)), integer(0), at, x)
    x = build.results(inner)[2]
    return [put(x, row(x, 1), 0)]


def scanned(at: Node, x: Node) -> list[Node]:
    """A scan of its own for each turn, which changes what was changed before."""
    types = [x.type, at.type]

    def turn(x: Node, k: Node) -> list[Node]:
        return [*twice(k, x), build.reshape(row(x, k), (COLUMNS,))]

    x = put(x, row(x, at), 1)
    loop = Node.of(Scan(build.graph("turn", types, turn), 3, 1, 1), x, numbers(3))
    x, lines = build.results(loop)
    return [put(x, build.cut(lines, 0, 1, 2), 4)]


def numbers(count: int) -> Node:
    return build.cast(build.iota((count,), 0), DType.I32)


def scattered(at: Node, x: Node) -> list[Node]:
    """Numbers of a parallel of the diagonal, in another shape of the carry."""
    x = put(x, row(x, at), 1)
    line = build.add(build.mul(build.iota((ROWS, 1), 0), COLUMNS + 1), 1)
    op = Scatter((), (0,), (), (), (0,), 1, "assign", unique=True)
    new = build.reshape(build.mul(build.cut(row(x, at), 1, 0, ROWS), 0.5), (ROWS,))
    written = Node.of(op, build.reshape(x, (WHOLE,)), line, new)
    return [build.reshape(written, (ROWS, COLUMNS))]


def reads_first_later(at: Node, x: Node) -> list[Node]:
    """The carry is read after it was changed: one copy."""
    y = put(x, build.sqrt(row(x, 2)), at)
    return [put(y, build.add(row(x, at), row(y, 3)), 2)]


def reads_between_later(at: Node, x: Node) -> list[Node]:
    """What lies between the carry and its next value is read after that was made: a copy."""
    y = put(x, build.sqrt(row(x, 2)), at)
    z = put(y, row(y, at), 2)
    return [put(z, build.add(row(y, 2), build.reduce(z, "add", (0,), keepdims=True)), 1)]


def reads_first_after_a_loop(at: Node, x: Node) -> list[Node]:
    """The carry is read after a loop that began with it."""
    (y,) = nested(at, x)
    return [put(y, row(x, 1), 2)]


def changed_and_swapped(at: Node, x: Node, y: Node) -> list[Node]:
    """Two carries, each of which becomes the other one, changed."""
    a, b = put(x, row(y, 2), at), put(y, row(x, 3), at)
    return [put(b, row(a, 1), 0), put(a, row(b, 1), 0)]


def between_is_kept(at: Node, x: Node, y: Node) -> list[Node]:
    """What lies between one carry and its next value is the other's next value."""
    between = put(x, row(y, 2), at)
    return [put(between, row(between, 1), 0), between]


def one_for_both(at: Node, x: Node, y: Node) -> list[Node]:
    """Both carries have one next value."""
    z = put(x, row(y, 2), at)
    return [z, z]


SAFE = [twice, own, nested, scanned, scattered]
UNSAFE = [reads_first_later, reads_between_later, reads_first_after_a_loop]
TWO = [changed_and_swapped, between_is_kept, one_for_both]


@pytest.mark.parametrize("body", SAFE)
def test_carries_are_never_copied(body: Body) -> None:
    assert copies(counted(body, 1)) == []


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("body", [*SAFE, *UNSAFE])
def test_one_carry(target: str, body: Body) -> None:
    agree(counted(body, 1), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("body", TWO)
def test_two_carries(target: str, body: Body) -> None:
    agree(counted(body, 2), target)


def test_unsafe_bodies_copy() -> None:
    assert all(copies(counted(body, 1)) for body in UNSAFE)


def test_own_slice_is_computed_as_it_is_replaced() -> None:
    """No kernel of its own for a slice that is computed from itself alone."""
    target = find("cpu").target(Request())
    partition = lower(model(counted(own, 1)), target).partition
    (turn,) = (p for body, p in partition.inner.items() if body.name == "turn")
    assert [g.kind for g in turn.groups].count(Kind.UPDATE) == 1
    assert len(turn.groups) == 2
