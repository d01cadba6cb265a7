"""Loops over concatenations, pads, rolls, stacks and selects by index: any graph of them is what
NumPy says, to the bit, however its loops are partitioned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from loops_harness import (
    MASKED,
    PLAIN,
    SCALAR,
    check_graph,
    draw,
    evaluate,
    group_of,
    param,
    run_scheduled,
)

import xlac
from xlac.codegen.core.seams.rewrite import choose, rewritten
from xlac.codegen.lower import lower
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.seams import SeamsSchedule
from xlac.fusion.group import Kind
from xlac.ir.graph import Graph, Node
from xlac.ops import build
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.scalar.comparison import Compare, Select
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.extend import Concat, Pad
from xlac.ops.tensor.leaf import Iota, Param
from xlac.ops.tensor.view import Reshape, Slice
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Expr, For, If, Kernel, Load, Ramp, Shuffle, Store, statements
from xlac_sdk.kernel_ir.sharing import roots, walk
from xlac_sdk.target import Target

NARROW = replace(MASKED, vector_bytes=16, threads=1)
SIZES = (1, 2, 3, 5, 8, 16, 31, 64, 100, 130)
DTYPES = (DType.F32, DType.F32, DType.I32, DType.F64, DType.BF16, DType.U8, DType.BOOL, DType.I64)


def sliced(x: Node, axis: int, start: int, stop: int, step: int = 1) -> Node:
    rank = range(x.type.rank)
    return Node.of(
        Slice(
            tuple(start if a == axis else 0 for a in rank),
            tuple(stop if a == axis else int(x.shape[a]) for a in rank),
            tuple(step if a == axis else 1 for a in rank),
        ),
        x,
    )


def rolled(x: Node, axis: int, shift: int) -> Node:
    size = int(x.shape[axis])
    cut = -shift % size if size else 0
    return Node.of(Concat(axis), sliced(x, axis, cut, size), sliced(x, axis, 0, cut))


def stacked(*xs: Node, flat: bool) -> Node:
    shape = xs[0].shape
    found = Node.of(Concat(len(shape)), *(Node.of(Reshape((*shape, 1)), x) for x in xs))
    return Node.of(Reshape((*shape[:-1], shape[-1] * len(xs))), found) if flat and shape else found


def padded(x: Node, axis: int, low: int, high: int, between: int = 0) -> Node:
    value = Node.of(Cast(x.type.dtype), build.constant(3, DType.I32))
    of = [tuple(n if a == axis else 0 for a in range(x.type.rank)) for n in (low, high, between)]
    return Node.of(Pad(*of), x, value)


def where(x: Node, y: Node, axis: int, direction: str, limit: Node | int, of: DType) -> Node:
    index = Node.of(Iota(x.shape, axis, of))
    if isinstance(limit, int):
        limit = build.broadcast_to(build.constant(limit, of), x.shape)
    return Node.of(Select(), Node.of(Compare(direction), index, limit), x, y)


def step(random: Random, x: Node, y: Node) -> Node:
    """A graph with one seam more, or a few; x and y have one type."""
    axis = random.choice([*range(x.type.rank), x.type.rank - 1])
    size = int(x.shape[axis])
    match random.choice("concat roll roll pad pad stack where where triangle cut reverse".split()):
        case "concat":
            return Node.of(Concat(axis), *random.choice([(x, y), (y, x, y), (x, x)]))
        case "roll" if size:
            return rolled(x, axis, random.randint(-size, size))
        case "pad":
            low, high = random.randint(-1, 3), random.randint(0, 40)
            fits = size + low + high >= 0 and size > 2
            return padded(x, axis, low, high, random.choice((0, 0, 1))) if fits else x
        case "stack":
            return stacked(*random.choice([(x, y), (y, x, y)]), flat=random.random() < 0.7)
        case "where":
            of = random.choice((DType.I32, DType.I64))
            direction = random.choice(("lt", "le", "gt", "ge", "eq", "ne"))
            return where(x, y, axis, direction, random.randint(-1, size + 1), of)
        case "triangle" if x.type.rank > 1:
            other = random.choice([a for a in range(x.type.rank) if a != axis])
            direction = random.choice(("lt", "le", "gt", "ge"))
            limit = Node.of(Iota(x.shape, other, DType.I32))
            return where(x, y, axis, direction, limit, DType.I32)
        case "cut" if size > 3:
            start, stop = random.randint(0, 1), size - random.randint(0, 1)
            return sliced(x, axis, start, stop, random.choice((1, 1, 2)))
        case "reverse" if size:
            return sliced(x, axis, size - 1, -1, -1)
    return x


def graph(random: Random) -> Node:
    """A random graph of at most a few thousand elements."""
    rank = random.choice((1, 1, 2, 2, 3))
    shape = tuple(random.choice(SIZES if n == rank - 1 else SIZES[:6]) for n in range(rank))
    if random.random() < 0.05:
        shape = (*shape[:-1], 0)
    dtype = random.choice(DTYPES)
    x, y = param("x", shape, dtype), param("y", shape, dtype)
    x = rolled(x, rank - 1, 1)
    for _ in range(random.randint(1, 4)):
        new = step(random, x, y)
        if np.prod([int(n) for n in new.shape]) > 6000 or len(new.shape) > 4:
            break
        y, x = (x if new.type == x.type else step_alike(random, new)), new
    return x


def step_alike(random: Random, x: Node) -> Node:
    """Another value of the same type."""
    return rolled(x, x.type.rank - 1, 1) if x.shape[-1] and random.random() < 0.5 else x


def schedules(random: Random, target: Target) -> Iterator[SeamsSchedule]:
    yield choose(target)
    yield SeamsSchedule(random.randint(1, 12), target.masked and random.random() < 0.5, True)
    yield SeamsSchedule(random.randint(1, 4), target.masked, False)


@pytest.mark.sampled(48)
@pytest.mark.parametrize("seed", range(240))
def test_any_graph(seed: int) -> None:
    random = Random(seed)
    made = group_of(Kind.ELEMENTWISE, graph(random))
    rng = np.random.default_rng(seed)
    given = {n: draw(n.type, rng) for n in made.inputs if isinstance(n.op, Param)}
    (output,) = made.outputs
    values = evaluate((output,), given)
    for target in (MASKED, PLAIN, SCALAR, NARROW):
        for schedule in schedules(random, target):
            found = lower(made, target, "k", Decisions("k", {"seams": schedule}))
            (got,) = run_scheduled(found, (output,), values).values()
            np.testing.assert_array_equal(
                got.view(np.uint8), values[output].astype(got.dtype).view(np.uint8), f"{schedule}"
            )


def kernel(value: Node, target: Target = MASKED) -> Kernel:
    (launch,) = lower(group_of(Kind.ELEMENTWISE, value), target, "k").launches
    return launch.kernel


def gathers(made: Kernel) -> list[Expr]:
    """The loads of a kernel whose elements are not consecutive."""
    loads = [
        one
        for stmt in statements(made.body)
        for one in walk(roots(stmt))
        if isinstance(one, Load) and one.index.lanes > 1
    ]
    return [one for one in loads if not isinstance(one.index, Ramp) or one.index.stride != -1]


def negated_half(x: Node) -> Node:
    """What rotary embeddings multiply by sines."""
    half = int(x.shape[-1]) // 2
    axis = x.type.rank - 1
    first, second = sliced(x, axis, 0, half), sliced(x, axis, half, 2 * half)
    return Node.of(Concat(axis), build.mul(second, -1.0), first)


def near(x: Node, y: Node) -> Node:
    """The sum of neighbours in two directions."""
    return build.add(build.add(rolled(x, 0, 1), rolled(x, 0, -1)), build.add(y, rolled(x, 1, -1)))


GRID = param("x", (40, 200))
READ = {
    "rotary": build.mul(negated_half(param("x", (6, 64))), param("y", (6, 64))),
    "rotary_odd": build.mul(negated_half(param("x", (6, 80))), param("y", (6, 80))),
    "concat": build.exp(Node.of(Concat(1), GRID, param("y", (40, 99)))),
    "zero_border": build.add(padded(sliced(GRID, 1, 1, 200), 1, 0, 1), GRID),
    "wrapped": near(GRID, rolled(GRID, 1, 1)),
    "pairs": stacked(GRID, param("y", (40, 200)), flat=True),
    "evens": build.add(sliced(GRID, 1, 0, 200, 2), sliced(GRID, 1, 1, 200, 2)),
}


@pytest.mark.parametrize("name", READ)
def test_what_is_consecutive_is_not_gathered(name: str) -> None:
    assert not gathers(kernel(READ[name]))


def test_regions_are_few() -> None:
    made = kernel(READ["wrapped"])
    inner = [
        stmt
        for stmt in statements(made.body)
        if isinstance(stmt, For) and not any(isinstance(each, For | If) for each in stmt.body)
    ]
    assert 3 <= len(inner) <= 9


def test_inside_the_border_one_load_is_left_of_each_element() -> None:
    made = kernel(READ["wrapped"])
    loops = [stmt for stmt in statements(made.body) if isinstance(stmt, For) and stmt.step > 1]
    loads = [
        sum(isinstance(one, Load) for stmt in loop.body for one in walk(roots(stmt)))
        for loop in loops
    ]
    vectors = [sum(isinstance(stmt, Store) for stmt in loop.body) for loop in loops]
    assert 4 in [n / m for n, m in zip(loads, vectors, strict=True) if m]


def test_a_stack_is_stored_as_whole_vectors() -> None:
    made = kernel(stacked(GRID, param("y", (40, 200)), flat=False))
    stores = [stmt for stmt in statements(made.body) if isinstance(stmt, Store)]
    assert stores and all(stmt.index.lanes == 1 for stmt in stores)
    assert any(isinstance(stmt.value, Shuffle) for stmt in stores)


def test_a_kernel_without_seams_is_the_same_object() -> None:
    made = kernel(build.exp(GRID))
    assert rewritten(made, choose(MASKED)) is made


def test_small_code_has_one_region() -> None:
    assert choose(replace(MASKED, size=True)).regions == 1


SPEC = """
xlac: 1
model: open
dims: {n: {min: 1, max: 4096, opt: 500}, m: {min: 1, max: 4096, opt: 300}}
inputs: {x: "f32[3, n]", y: "f32[3, m]"}
graph:
  both: {op: concat, in: [x, y], axis: 1}
  a: relu(both)
  turned: {op: roll, in: x, shift: 1, axis: 1}
  b: relu(turned)
outputs: [a, b]
"""


def test_open_sizes(tmp_path: Path) -> None:
    file = tmp_path / "open.yaml"
    file.write_text(SPEC)
    model = xlac.compile(file, sizes="symbolic")
    rng = np.random.default_rng(0)
    for n, m in ((1, 1), (2, 70), (63, 1), (64, 64), (65, 130), (500, 300), (17, 4096)):
        x, y = (rng.standard_normal((3, size)).astype(np.float32) for size in (n, m))
        a, b = model(x=x, y=y).values()
        np.testing.assert_array_equal(a, np.maximum(np.concatenate([x, y], 1), 0))
        np.testing.assert_array_equal(b, np.maximum(np.roll(x, 1, 1), 0))


@pytest.mark.parametrize("combine", ["add", "mul", "max"])
@pytest.mark.sampled(4)
def test_vectors_that_are_one_number_are_combined_as_such(combine: str) -> None:
    """Nothing but padding is left to combine, in vectors wider and narrower than an accumulator."""
    targets = [replace(t, vector_bytes=b) for t in (PLAIN, MASKED) for b in (16, 32, 64)]
    for size in (1, 2, 5, 8, 17, 42, 63, 100, 130):
        x = param("x", (0,))
        padded = Node.of(Pad((0,), (size,), (0,)), x, build.constant(1.25, DType.F32))
        total = Node.of(Reduce((0,), combine), build.add(build.mul(padded, 0.75), 0.125))
        check_graph(Graph("padded", (x,), {"total": total, "padded": padded}), targets, 1e-5)
