"""Loops over concatenations, pads, rolls, stacks and selects by index: any graph of them is what
NumPy says, to the bit, however its loops are partitioned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from loops_harness import MASKED, PLAIN, SCALAR, draw, evaluate, group_of, param, run_scheduled

from xlac.codegen.core.seams.rewrite import choose
from xlac.codegen.lower import lower
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.seams import SeamsSchedule
from xlac.fusion.group import Kind
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.scalar.comparison import Compare, Select
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.extend import Concat, Pad
from xlac.ops.tensor.leaf import Iota, Param
from xlac.ops.tensor.view import Reshape, Slice
from xlac_sdk.dtypes import DType
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


@pytest.mark.sampled(12)
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
