"""Weights that every turn of a loop reads are read forwards and backwards in turn, where a cache
holds most of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from xlac.driver import executable, lower
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.control.control import Scan
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.programs.program import Argument, Launch, Program, Repeat, Step
from xlac_sdk.target import Request, Target

WIDTH = 40
WEIGHT = WIDTH * WIDTH * 4
NEAR = WEIGHT * 3 // 4  # a cache that holds most of a weight
CACHES = {"l2_bytes": 1 << 20, "l3_bytes": 1 << 20}


def param(name: str, shape: Sequence[int], kind: str = "input") -> Node:
    return Node.of(Param(name, Type(DType.F32, tuple(shape)), kind))


def product(x: Node, w: Node) -> Node:
    return build.dot(x, w, ((1,), (0,)), ((), ()), DType.F32)


def recurrence(steps: int, weights: int = 1) -> Graph:
    """h = tanh(x[t] + h w0) …, and all of them stacked: one more product a step for each weight."""
    h, x = param("h", (1, WIDTH)), param("x", (1, WIDTH))
    inner = [param(f"v{n}", (WIDTH, WIDTH)) for n in range(weights)]
    value = h
    for w in inner:
        value = build.apply("tanh", build.add(product(value, w), x))
    body = Graph("body", (h, x, *inner), {"h": value, "y": value})
    start, xs = param("start", (1, WIDTH)), param("xs", (steps, 1, WIDTH))
    outer = [param(f"w{n}", (WIDTH, WIDTH), "weight") for n in range(weights)]
    results = build.node_or_results(Node.of(Scan(body, steps, 1, 1), start, xs, *outer))
    assert isinstance(results, tuple)
    return Graph("model", (start, xs), dict(zip(("last", "all"), results, strict=True)))


def line(count: int) -> Graph:
    """The same without a loop: products by one weight, one after the other."""
    value = x = param("x", (1, WIDTH))
    for _ in range(count):
        value = build.apply(
            "tanh", build.add(product(value, param("w0", (WIDTH, WIDTH), "weight")), x)
        )
    return Graph("model", (x,), {"y": value})


def arrays(graph: Graph, weights: int = 1) -> tuple[dict[str, Array], dict[str, Array]]:
    rng = np.random.default_rng(3)
    given = {
        n.op.name: rng.standard_normal(n.shape).astype(np.float32)
        for n in graph.inputs
        if isinstance(n.op, Param)
    }
    return given, {
        f"w{n}": (rng.standard_normal((WIDTH, WIDTH)) / 6).astype(np.float32)
        for n in range(weights)
    }


def target(name: str, l1_bytes: int = NEAR) -> Target:
    made = replace(find(name).target(Request()), vector_bytes=32, vectorizes=False)
    return made.with_facts(l1_bytes=l1_bytes, **CACHES)


def every(steps: Sequence[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        if isinstance(step, Repeat):
            yield from every(step.body)


def directions(program: Program) -> list[bool]:
    """For each launch that reads a weight, whether it does so backwards."""
    reads = [
        s.kernel.name
        for s in every(program.steps)
        if isinstance(s, Launch) and s.kernel.name.startswith("dot")
    ]
    return ["backward" in name for name in reads]


@pytest.mark.parametrize(
    ("name", "steps", "weights"),
    [
        ("reference", 2, 1),
        ("reference", 5, 2),
        ("reference", 8, 1),
        ("cpu", 5, 1),
        ("cpu", 8, 2),
        ("c", 5, 1),
    ],
)
def test_a_loop_turned_around_computes_the_same(name: str, steps: int, weights: int) -> None:
    graph = recurrence(steps, weights)
    given, known = arrays(graph, weights)
    lowered = lower(Model(graph, known), target(name, NEAR * weights), loop_kernels=False)
    assert any(directions(lowered.program))
    found = executable(lowered, find(name))(**given)
    h, rows = given["start"].astype(np.float64), []
    for x in given["xs"]:
        for w in known.values():
            h = np.tanh(h @ w + x)
        rows.append(h)
    np.testing.assert_allclose(found["all"], np.stack(rows), rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(found["last"], rows[-1], rtol=2e-5, atol=2e-6)


def test_every_other_turn_goes_backwards() -> None:
    program = lower(
        Model(graph := recurrence(7), arrays(graph)[1]), target("cpu"), loop_kernels=False
    ).program
    (loop,) = (s for s in program.steps if isinstance(s, Repeat))
    assert loop.count == 3
    assert directions(program) == [False, True, False], (
        "two turns of the loop, and the last one behind it"
    )


def test_every_other_launch_goes_backwards_without_a_loop() -> None:
    program = lower(
        Model(graph := line(5), arrays(graph)[1]), target("cpu"), loop_kernels=False
    ).program
    assert directions(program) == [False, True, False, True, False]


@pytest.mark.parametrize(
    ("weights", "l1_bytes", "why"),
    [
        (1, 2 * WEIGHT, "all of it stays in the cache"),
        (1, WEIGHT // 8, "none of it does"),
        (2, NEAR, "the other weight comes between"),
    ],
)
def test_no_turn_that_does_not_pay(weights: int, l1_bytes: int, why: str) -> None:
    graph = recurrence(6, weights)
    program = lower(
        Model(graph, arrays(graph, weights)[1]), target("cpu", l1_bytes), loop_kernels=False
    ).program
    assert not any(directions(program)), why
    assert [s.count for s in program.steps if isinstance(s, Repeat)] == [6]


def test_a_machine_that_tells_no_caches_keeps_its_loops() -> None:
    plain = replace(target("cpu"), vector_bytes=0)
    program = lower(Model(graph := recurrence(6), arrays(graph)[1]), plain).program
    assert not any(directions(program))


def test_slices_move_by_two_turns() -> None:
    program = lower(
        Model(graph := recurrence(6), arrays(graph)[1]), target("cpu"), loop_kernels=False
    ).program
    (loop,) = (s for s in program.steps if isinstance(s, Repeat))
    arguments = [
        a for s in loop.body if isinstance(s, Launch) for a in s.arguments if a.slot.name == "xs"
    ]
    assert arguments == [
        Argument(arguments[0].slot, turn * WIDTH, ((loop.counter, 2 * WIDTH),)) for turn in range(2)
    ]
