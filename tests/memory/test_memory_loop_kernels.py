"""Loops of small bodies are one kernel each, and compute what they say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from xlac.driver import Lowered, executable, lower
from xlac.ir.dims import symbol, symbols
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.control.control import Cond, Scan, While
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.programs.program import Copy, Launch, Repeat, Step
from xlac_sdk.programs.program import While as WhileStep
from xlac_sdk.target import Request

F32, F64, I32, BOOL = DType.F32, DType.F64, DType.I32, DType.BOOL
SHAPES: tuple[tuple[int, ...], ...] = ((), (), (3,), (5,), (2, 3), (16,))
TARGETS = ("c", "cpu", "reference")
Kind = Callable[["Draw"], Graph]


def param(name: str, shape: Sequence[int], dtype: DType = F32) -> Node:
    return Node.of(Param(name, Type(dtype, tuple(shape))))


class Draw:
    """A loop body drawn at random: values stay small, so that rounding does not grow."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def below(self, count: int) -> int:
        """A number below another."""
        return int(self.rng.integers(count))

    def shape(self) -> tuple[int, ...]:
        """A small shape."""
        return SHAPES[self.below(len(SHAPES))]

    def fitted(self, x: Node, shape: tuple[int, ...]) -> Node:
        """Some value of a shape that depends on `x`."""
        if x.shape == shape:
            return x
        if not x.shape:
            return build.broadcast_to(x, shape)
        axes = tuple(range(len(x.shape)))
        kind = self.below(3)
        if kind == 0 or not shape:
            return self.fitted(build.reduce(x, "add" if self.below(2) else "max", axes), shape)
        flat = build.reshape(x, (int(np.prod(x.shape)),))
        size = int(np.prod(shape))
        if kind == 1:
            flat = build.concat([flat] * -(-size // int(np.prod(x.shape))))
        else:
            flat = build.concat([flat, build.full(0.25, (size,), F32)])
        return build.reshape(build.cut(flat, 0, 0, size), shape)

    def value(self, known: Sequence[Node], shape: tuple[int, ...]) -> Node:
        """A value between -1 and 1, of some that are known."""
        a, b = (self.fitted(known[self.below(len(known))], shape) for _ in range(2))
        match self.below(6):
            case 0:
                return build.apply("tanh", build.add(a, b))
            case 1:
                return build.apply("sin", build.mul(build.mul(a, b), 2.0))
            case 2:
                return build.mul(build.sub(a, b), 0.5)
            case 3:
                return build.select(build.compare(a, "lt", b), a, build.mul(b, 0.75))
            case 4:
                return build.maximum(build.minimum(a, 0.5), build.mul(b, -0.5))
        return build.mul(build.add(a, 0.125), 0.5)

    def body(self, known: list[Node], shapes: Sequence[tuple[int, ...]], count: Node) -> list[Node]:
        """Values of shapes, by way of others."""
        known = [*known, build.mul(build.cast(count, F32), 1 / 64)]
        for _ in range(2 + self.below(4)):
            known.append(self.value(known, self.shape()))
        if self.below(2):
            known.append(self.branch(known, count))
        if self.below(3) == 0:
            known.append(self.inner(known))
        return [self.value(known, shape) for shape in shapes]

    def branch(self, known: Sequence[Node], count: Node) -> Node:
        """One of three values, by the number of the turn."""
        one = known[self.below(len(known))]
        branches = tuple(
            build.graph(f"b{n}", [one.type], lambda x, n=n: build.mul(x, 0.25 * n))
            for n in range(3)
        )
        return Node.of(Cond(branches), build.apply("rem", count, build.constant(4)), one)

    def inner(self, known: Sequence[Node]) -> Node:
        """A loop inside the loop."""
        one, other = (known[self.below(len(known))] for _ in range(2))
        other = self.fitted(other, one.shape)

        def turn(x: Node, y: Node) -> tuple[Node, Node]:
            return build.apply("tanh", build.add(build.mul(x, 0.5), y)), x

        body = build.graph("inner", [one.type, one.type], turn)
        found = Node.of(Scan(body, 3, 1, 0), one, other)
        second = build.reshape(build.cut(build.pick(found, 1), 0, 1, 2), one.shape)
        return build.add(build.pick(found, 0), second)


def scan(draw: Draw) -> Graph:
    """A scan with a few carried values, slices, shared operands and stacked results."""
    carries, slices, shared, stacked = (
        [draw.shape() for _ in range(least + draw.below(2))] for least in (1, 1, 0, 1)
    )
    length = 1 + draw.below(9)
    types = [Type(I32), *(Type(F32, s) for s in (*carries, *slices, *shared))]

    def turn(count: Node, *known: Node) -> list[Node]:
        return [build.add(count, 1), *draw.body(list(known), [*carries, *stacked], count)]

    body = build.graph("turn", types, turn)
    inputs = [param(f"c{n}", s) for n, s in enumerate(carries)]
    inputs += [param(f"x{n}", (length, *s)) for n, s in enumerate(slices)]
    inputs += [param(f"s{n}", s) for n, s in enumerate(shared)]
    op = Scan(body, length, 1 + len(carries), len(slices), bool(draw.below(2)))
    loop = Node.of(op, build.constant(0), *inputs)
    return Graph(
        "scans", tuple(inputs), {f"y{n}": p for n, p in enumerate(build.node_or_results(loop))}
    )


def while_loop(draw: Draw) -> Graph:
    """A while that ends by its count, or earlier by its values."""
    carries = [draw.shape() for _ in range(1 + draw.below(3))]
    types = [Type(I32), *(Type(F32, s) for s in carries)]
    most = draw.below(200)

    def more(count: Node, *known: Node) -> Node:
        value = draw.fitted(known[0], ())
        return build.apply(
            "and", build.compare(count, "lt", most), build.compare(value, "lt", 0.95)
        )

    def turn(count: Node, *known: Node) -> list[Node]:
        return [build.add(count, 1), *draw.body(list(known), carries, count)]

    inputs = [param(f"c{n}", s) for n, s in enumerate(carries)]
    op = While(build.graph("more", types, more), build.graph("turn", types, turn))
    loop = Node.of(op, build.constant(0), *inputs)
    return Graph(
        "whiles", tuple(inputs), {f"y{n}": p for n, p in enumerate(build.node_or_results(loop))}
    )


def lowered(graph: Graph, target: str, loop_kernels: bool = True) -> Lowered:
    facts = find(target).target(Request())
    return lower(Model(graph, {}), facts, loop_kernels=loop_kernels)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("kind", [scan, while_loop])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(12))
def test_random_loops_compute_what_they_say(kind: Kind, target: str, seed: int) -> None:
    graph = kind(Draw(seed))
    rng = np.random.default_rng(seed)
    given = {
        p.op.name: np.asarray(rng.uniform(-1, 1, p.shape), np.float32)
        for p in graph.inputs
        if isinstance(p.op, Param)
    }
    found = executable(lowered(graph, target), find(target))(**given)
    for name, want in interpret(graph, given).items():
        np.testing.assert_allclose(found[name], want, rtol=2e-4, atol=2e-5, err_msg=name)


def one_launch(graph: Graph, target: str = "cpu") -> list[Step]:
    """The steps of a program but for copies."""
    return [s for s in lowered(graph, target).program.steps if not isinstance(s, Copy)]


@pytest.mark.parametrize("target", TARGETS)
def test_a_scan_of_numbers_is_one_launch(target: str) -> None:
    body = build.graph(
        "turn", [Type(F32), Type(F32)], lambda c, x: (build.add(build.mul(c, 0.5), x), c)
    )
    c, x = param("c", ()), param("x", (9,))
    loop = Node.of(Scan(body, 9, 1, 1), c, x)
    graph = Graph("g", (c, x), {"last": build.pick(loop, 0), "all": build.pick(loop, 1)})
    (step,) = one_launch(graph, target)
    assert isinstance(step, Launch) and "loop" in step.kernel.name


def test_a_loop_of_more_buffers_than_a_launch_takes_stays_steps() -> None:
    body = build.graph("turn", [Type(F32), Type(F32)], lambda c, x: (build.mul(c, x), c))
    c, x = param("c", ()), param("x", (9,))
    loop = Node.of(Scan(body, 9, 1, 1), c, x)
    graph = Graph("g", (c, x), {"last": build.pick(loop, 0), "all": build.pick(loop, 1)})
    few = replace(find("cpu").target(Request()), most_buffers=2)
    steps = lower(Model(graph, {}), few).program.steps
    assert any(isinstance(step, Repeat) for step in steps)
    assert not any(isinstance(step, Launch) and "loop" in step.kernel.name for step in steps)


def test_a_while_is_launches_between_which_a_call_can_be_stopped() -> None:
    more = build.graph("more", [Type(F32)], lambda x: build.compare(x, "lt", 100.0))
    turn = build.graph("turn", [Type(F32)], lambda x: build.add(x, 1.0))
    x = param("x", ())
    graph = Graph("g", (x,), {"y": Node.of(While(more, turn), x)})
    (step,) = one_launch(graph)
    assert isinstance(step, WhileStep) and not step.body
    (launch,) = step.condition
    assert isinstance(launch, Launch)


def test_loops_of_large_bodies_stay_steps() -> None:
    wide = Type(F32, (1 << 16,))
    body = build.graph("turn", [wide], lambda x: build.apply("tanh", x))
    x = param("x", wide.shape)
    (step,) = one_launch(Graph("g", (x,), {"y": Node.of(Scan(body, 9, 1, 0), x)}))
    assert isinstance(step, Repeat)


def test_without_fusion_loops_stay_steps() -> None:
    body = build.graph("turn", [Type(F32)], lambda x: build.apply("tanh", x))
    x = param("x", ())
    graph = Graph("g", (x,), {"y": Node.of(Scan(body, 9, 1, 0), x)})
    made = lower(Model(graph, {}), find("cpu").target(Request()), fuse=False)
    assert any(isinstance(step, Repeat) for step in made.program.steps)


@pytest.mark.parametrize("target", TARGETS)
def test_an_open_length_and_a_carry_of_an_open_size(target: str) -> None:
    n = symbol("n", 0, 40)
    row = Type(F32, (n,))
    body = build.graph("turn", [row, Type(F32)], lambda c, x: (build.mul(c, x), x))
    c, x = param("c", (n,)), param("x", (n,))
    loop = Node.of(Scan(body, n, 1, 1), c, x)
    graph = Graph("g", (c, x), {"last": build.pick(loop, 0), "all": build.pick(loop, 1)})
    model = Model(graph, {}, dims={"n": next(iter(symbols(n)))})
    made = executable(lower(model, find(target).target(Request())), find(target))
    rng = np.random.default_rng(0)
    for size in (0, 1, 7, 40):
        given = {k: rng.uniform(0.5, 1.5, size).astype(np.float32) for k in ("c", "x")}
        found = made(**given)
        product = np.prod(given["x"], dtype=np.float32)
        np.testing.assert_allclose(found["last"], given["c"] * product, rtol=1e-5)
        np.testing.assert_array_equal(found["all"], given["x"])
