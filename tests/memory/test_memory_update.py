"""Slices are replaced in place: loops and states that update a buffer write only its slice each
time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from xlac.api import compile as compile_model
from xlac.driver import lower
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.control.control import Scan, While
from xlac.ops.tensor.dynamic_slice import DynUpdate
from xlac.ops.tensor.leaf import Const, Param
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.programs.program import Copy, Program, Repeat, Step
from xlac_sdk.programs.program import While as WhileStep
from xlac_sdk.target import Request

F32, I32 = DType.F32, DType.I32
TARGETS = ("cpu", "c", "reference")


def param(name: str, shape: Sequence[int], dtype: DType = F32, kind: str = "input") -> Node:
    return Node.of(Param(name, Type(dtype, tuple(shape)), kind))


def integer(value: int) -> Node:
    return Node.of(Const(np.array(value, np.int32)))


def model(graph: Graph, state: dict[str, str] | None = None) -> Model:
    return Model(graph, {}, state=state or {})


def program(made: Model) -> Program:
    return lower(made, find("cpu").target(Request()), loop_kernels=False).program


def first_of(node: Node) -> Node:
    results = build.node_or_results(node)
    return results[0] if isinstance(results, tuple) else results


def every(steps: Sequence[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        if isinstance(step, Repeat | WhileStep):
            yield from every(step.body)


def copied(steps: Sequence[Step]) -> list[int]:
    """The sizes of the copies among steps, those of loops included."""
    return [s.count for s in every(steps) if isinstance(s, Copy)]


def turned(steps: Sequence[Step]) -> list[int]:
    """The sizes of what the turns of the one loop copy."""
    (loop,) = (s for s in steps if isinstance(s, Repeat | WhileStep))
    return copied(loop.body)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("at", [-5, 3, 38, 99])
def test_update_of_an_input_copies_it_once(target: str, at: int) -> None:
    x, new, start = param("x", (40, 21)), param("new", (2, 19)), param("at", (), I32)
    y = Node.of(DynUpdate(), x, build.add(new, new), start, integer(1))
    made = model(Graph("updates", (x, new, start), {"y": y}))
    assert copied(program(made).steps) == [840]
    rng = np.random.default_rng(0)
    a, b = rng.random((40, 21), np.float32), rng.random((2, 19), np.float32)
    want = a.copy()
    first = min(max(at, 0), 38)
    want[first : first + 2, 1:20] = b * 2
    np.testing.assert_array_equal(compile_model(made, target)(a, b, np.int32(at)), want)
    np.testing.assert_array_equal(a, np.random.default_rng(0).random((40, 21), np.float32))


@pytest.mark.parametrize("target", TARGETS)
def test_scan_writes_only_the_row(target: str) -> None:
    buffer, count, row = param("buffer", (8, 32)), param("count", (), I32), param("row", (32,))
    new = Node.of(
        DynUpdate(), buffer, build.reshape(build.add(row, row), (1, 32)), count, integer(0)
    )
    body = Graph(
        "turn", (buffer, count, row), {"buffer": new, "count": build.add(count, integer(1))}
    )
    x, rows = param("x", (8, 32)), param("rows", (5, 32))
    loop = Node.of(Scan(body, 5, 2, 1), x, integer(2), rows)
    made = model(Graph("scanned", (x, rows), {"y": first_of(loop)}))
    assert max(turned(program(made).steps), default=0) <= 1
    rng = np.random.default_rng(0)
    a, b = rng.random((8, 32), np.float32), rng.random((5, 32), np.float32)
    want = a.copy()
    want[2:7] = b * 2
    np.testing.assert_array_equal(compile_model(made, target)(a, b), want)


@pytest.mark.parametrize("target", TARGETS)
def test_while_writes_only_the_row(target: str) -> None:
    tested, limit = param("buffer", (8, 32)), param("count", (), I32)
    more = Graph("more", (tested, limit), {"more": build.compare(limit, "lt", integer(7))})
    buffer, count = param("buffer", (8, 32)), param("count", (), I32)
    row = build.broadcast_to(build.cast(count, F32), (1, 32))
    new = Node.of(DynUpdate(), buffer, row, count, integer(0))
    turn = Graph("turn", (buffer, count), {"buffer": new, "count": build.add(count, integer(1))})
    x = param("x", (8, 32))
    loop = Node.of(While(more, turn), x, integer(2))
    made = model(Graph("looped", (x,), {"y": first_of(loop)}))
    assert max(turned(program(made).steps), default=0) <= 1
    a = np.random.default_rng(0).random((8, 32), np.float32)
    want = a.copy()
    want[2:7] = np.arange(2, 7, dtype=np.float32)[:, None]
    np.testing.assert_array_equal(compile_model(made, target)(a), want)


def cache(reads_old: bool) -> Model:
    """A cache kept as state; a result is summed from it after the update, and from before it if so
    asked.
    """
    kept, new, at = (
        param("kept", (16, 32), kind="state"),
        param("new", (1, 32)),
        param("at", (), I32),
    )
    after = Node.of(DynUpdate(), kept, new, at, integer(0))
    y = build.reduce(after, axes=(0,), combine="add")
    given = {"y": y, "old": kept} if reads_old else {"y": y}
    return model(
        Graph("cache", (kept, new, at), {**given, "kept.next": after}), {"kept": "kept.next"}
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("reads_old", [False, True])
def test_state_costs_its_new_rows(target: str, reads_old: bool) -> None:
    made = cache(reads_old)
    assert bool(copied(program(made).steps)) is reads_old
    run = compile_model(made, target)
    rng = np.random.default_rng(1)
    want = np.zeros((16, 32), np.float32)
    for at in (0, 1, 5, 40):
        new = rng.random((1, 32), np.float32)
        before = want.copy()
        want[min(at, 15)] = new
        found = run(new, np.int32(at))
        results = (found["y"], found["old"]) if reads_old else (found,)
        np.testing.assert_allclose(results[0], want.sum(0), rtol=1e-6)
        if reads_old:
            np.testing.assert_array_equal(results[1], before)


@pytest.mark.parametrize("target", TARGETS)
def test_states_that_swap(target: str) -> None:
    """Each next value is computed from the other's old one: neither may be lost."""
    a, b, x = param("a", (4,), kind="state"), param("b", (4,), kind="state"), param("x", (4,))
    outputs = {"y": build.add(a, b), "a.next": build.add(b, x), "b.next": build.mul(a, x)}
    made = model(Graph("swap", (a, b, x), outputs), {"a": "a.next", "b": "b.next"})
    run = compile_model(made, target)
    old = new = np.zeros(4, np.float32)
    value = np.full(4, 2, np.float32)
    for _ in range(5):
        np.testing.assert_array_equal(run(value), old + new)
        old, new = new + value, old * value


@pytest.mark.parametrize("target", TARGETS)
def test_carries_that_change_places(target: str) -> None:
    """Each carry becomes another one: all are saved before any is overwritten, each in memory of
    its own.
    """
    types = [Type(F32, (4,))] * 3
    body = build.graph("turn", types, lambda a, b, c: (b, c, a))
    params = tuple(param(name, (4,)) for name in "abc")
    node = Node.of(Scan(body, 4, 3, 0), *params)
    made = model(Graph("turns", params, {f"y{n}": y for n, y in enumerate(build.results(node))}))
    given = [np.full(4, n, np.float32) for n in range(3)]
    found = compile_model(made, target)(*given)
    assert [float(y[0]) for y in found.values()] == [1, 2, 0]
