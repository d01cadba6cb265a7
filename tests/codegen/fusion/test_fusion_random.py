"""Random graphs, fused and not: every kernel of every group against NumPy, on targets with and
without vectors.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from math import prod

import pytest
from loops_harness import MASKED, PLAIN, TARGETS, check_graph, constant, graph_of, param

from xlac.ir.graph import Graph, Node
from xlac.ir.op import ShapeError
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.scalar.arithmetic import Add, Cos, Floor, Max, Min, Mul, Sin, Sub
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.dynamic_slice import DynSlice, DynUpdate
from xlac.ops.tensor.extend import Concat, Pad
from xlac.ops.tensor.leaf import Iota
from xlac.ops.tensor.view import Broadcast, Reshape, Slice, Transpose
from xlac_sdk.dtypes import DType

EXTENTS = [1, 2, 3, 4, 5, 7, 8, 16, 17, 20, 33]
DTYPES = [DType.F32] * 5 + [DType.F16, DType.I32, DType.F64]
Node_ = Node.of


def binary(r: random.Random, x: Node, pool: list[Node]) -> Node:
    floating = x.type.dtype.is_float
    y = r.choice([n for n in pool if n.type == x.type])
    if r.random() < 0.3:
        y = Node_(
            Broadcast(x.shape, ()), constant(r.choice([0.5, 2.0]) if floating else 3, x.type.dtype)
        )
    return Node_(r.choice([Add, Sub, Mul, Max, Min] if floating else [Add, Max, Min])(), x, y)


def unary(r: random.Random, x: Node, pool: list[Node]) -> Node:
    if not x.type.dtype.is_float:
        return Node_(Cast(DType.F32), x)
    return Node_(
        r.choice([Sin(), Cos(), Floor(), Cast(DType.F32), Cast(DType.F16), Cast(DType.I32)]), x
    )


def transposed(r: random.Random, x: Node, pool: list[Node]) -> Node:
    return Node_(Transpose(tuple(r.sample(range(x.type.rank), x.type.rank))), x)


def reshaped(r: random.Random, x: Node, pool: list[Node]) -> Node:
    shape, size = x.shape, x.type.size
    assert isinstance(size, int) and isinstance(shape[-1], int)
    return Node_(
        Reshape(r.choice([(size,), (1, *shape), (*shape, 1), (size // shape[-1], shape[-1])])), x
    )


def spread(r: random.Random, x: Node, pool: list[Node]) -> Node:
    new = r.randrange(x.type.rank + 1)
    shape = (*x.shape[:new], r.choice(EXTENTS), *x.shape[new:])
    return Node_(Broadcast(shape, tuple(a + (a >= new) for a in range(x.type.rank))), x)


def sliced(r: random.Random, x: Node, pool: list[Node]) -> Node:
    cuts = []
    for n in x.shape:
        assert isinstance(n, int)
        start = r.randrange(n)
        stop, step = r.randrange(start, n) + 1, r.choice([1, 1, 2, -1])
        cuts.append((stop - 1, start - 1, -1) if step < 0 else (start, stop, step))
    starts, stops, steps = zip(*cuts, strict=True)
    return Node_(Slice(starts, stops, steps), x)


def padded(r: random.Random, x: Node, pool: list[Node]) -> Node:
    low = tuple(r.choice([0, 1, 2, -1]) if n > 2 else 0 for n in x.shape)  # type: ignore[operator]
    high, between = (tuple(r.choice([0, 0, 1]) for _ in x.shape) for _ in range(2))
    return Node_(Pad(low, high, between), x, constant(2, x.type.dtype))


def joined(r: random.Random, x: Node, pool: list[Node]) -> Node:
    return Node_(
        Concat(r.randrange(x.type.rank)), x, r.choice([n for n in pool if n.type == x.type])
    )


def counted(r: random.Random, x: Node, pool: list[Node]) -> Node:
    return Node_(
        Add(), Node_(Cast(DType.F32), x), Node_(Iota(x.shape, r.randrange(x.type.rank), DType.F32))
    )


def placed(r: random.Random, x: Node, pool: list[Node]) -> Node:
    rank = x.type.rank
    start = Node_(
        Reshape(()), Node_(Cast(DType.I32), Node_(Slice((0,) * rank, (1,) * rank, (1,) * rank), x))
    )
    part = Node_(DynSlice(tuple(max(1, n - 1) for n in x.shape)), x, *[start] * rank)  # type: ignore[operator]
    return Node_(DynUpdate(), x, part, *[start] * rank) if r.random() < 0.5 else part


def reduced(r: random.Random, x: Node, pool: list[Node]) -> Node:
    rank = x.type.rank
    axes = (
        tuple(sorted(r.sample(range(rank), r.randint(1, rank))))
        if r.random() < 0.5
        else (rank - 1,)
    )
    node = Node_(
        Reduce(
            axes, r.choice(["max", "min"] if x.type.dtype is DType.F16 else ["add", "max", "min"])
        ),
        x,
    )
    if r.random() < 0.4:
        return node
    pool.append(node)
    kept = tuple(a for a in range(rank) if a not in axes)
    if r.random() < 0.5:
        node = Node_(Broadcast(x.shape, kept), node)
    else:
        flat = Node_(Reshape(tuple(1 if a in axes else n for a, n in enumerate(x.shape))), node)
        node = Node_(Broadcast(x.shape, tuple(range(rank))), flat)
    pool.append(node)
    return Node_(r.choice([Sub, Add, Max])(), x, node)


STEPS: list[Callable[[random.Random, Node, list[Node]], Node]] = (
    [binary] * 6
    + [unary] * 3
    + [reduced] * 3
    + [transposed] * 2
    + [reshaped, spread, sliced, padded, joined, counted, placed]
)


def random_graph(seed: int, count: int = 14) -> Graph:
    r = random.Random(seed)
    extents = [r.choice(EXTENTS) for _ in range(3)]
    pool = [
        param(f"x{i}", [r.choice(extents) for _ in range(r.choice([1, 2, 2, 3]))], r.choice(DTYPES))
        for i in range(3)
    ]
    for _ in range(count):
        able = [n for n in pool if n.type.rank and 0 < prod(n.shape) < 20_000]  # type: ignore[type-var,operator]
        x = able[-1] if r.random() < 0.45 else r.choice(able)
        try:
            pool.append(r.choice(STEPS)(r, x, pool))
        except ShapeError:
            continue
    made = [n for n in pool if n.inputs] or [unary(r, pool[0], pool)]
    return graph_of(
        *dict.fromkeys([made[-1], *r.sample(made, min(len(made), r.choice([0, 0, 1, 2])))])
    )


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.sampled(16)
def test_random_graphs(seed: int) -> None:
    graph = random_graph(seed)
    check_graph(graph, TARGETS if seed % 4 == 0 else (MASKED, PLAIN), rtol=2e-4, seed=seed)
    check_graph(graph, (PLAIN,), rtol=2e-4, seed=seed, fuse=False)
