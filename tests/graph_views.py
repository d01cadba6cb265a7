"""Steps of random graphs that move elements: each takes a maker and gives a value, or nothing
where none fits.
"""

from __future__ import annotations

from random import Random

from graph_maker import Maker, Value

from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.tensor import dynamic_slice, extend, view
from xlac_sdk.dtypes import DType


def views(m: Maker) -> Value | None:
    x = m.some()
    if x is None:
        return None
    rank, shape, n = len(x.shape), x.shape, x.node
    match m.random.choice(
        "transpose transpose reshape reshape slice pad concat broadcast unit".split()
    ):
        case "transpose" if rank > 1:
            return Value(
                Node.of(view.Transpose(tuple(m.random.sample(range(rank), rank))), n),
                x.bound,
                x.exact,
            )
        case "reshape":
            return Value(Node.of(view.Reshape(regrouped(m.random, shape)), n), x.bound, x.exact)
        case "slice" if rank:
            spans = [span(m.random, size) for size in shape]
            starts, stops, steps = (tuple(s[i] for s in spans) for i in range(3))
            return Value(Node.of(view.Slice(starts, stops, steps), n), x.bound, x.exact)
        case "pad" if rank and x.dtype is not DType.BOOL:
            low = tuple(m.random.choice((0, 0, 1, 2)) for _ in shape)
            high = tuple(m.random.choice((0, 0, 1, -1 if size > 1 else 1)) for size in shape)
            gaps = tuple(m.random.choice((0, 0, 0, 1)) for _ in shape)
            return Value(
                Node.of(extend.Pad(low, high, gaps), n, build.constant(0, x.dtype)),
                x.bound,
                x.exact,
            )
        case "concat" if rank:
            axis = m.random.randrange(rank)
            others = [
                v
                for v in m.values
                if v.dtype is x.dtype and len(v.shape) == rank and fits(v.shape, shape, axis)
            ]
            y = m.random.choice(others)
            return Value(
                Node.of(extend.Concat(axis), n, y.node), max(x.bound, y.bound), x.exact and y.exact
            )
        case "broadcast":
            place = m.random.randint(0, rank)
            wide = (*shape[:place], m.random.randint(1, 4), *shape[place:])
            axes = tuple(a for a in range(rank + 1) if a != place)
            return Value(Node.of(view.Broadcast(wide, axes), n), x.bound, x.exact)
        case "unit":
            place = m.random.randint(0, rank)
            return Value(
                Node.of(view.Reshape((*shape[:place], 1, *shape[place:])), n), x.bound, x.exact
            )
        case _:
            return None


def fits(a: tuple[int, ...], b: tuple[int, ...], axis: int) -> bool:
    return all(i == axis or a[i] == b[i] for i in range(len(a)))


def span(random: Random, size: int) -> tuple[int, int, int]:
    a, b = sorted((random.randint(0, size), random.randint(0, size)))
    step = random.choice((1, 1, 1, 2, -1))
    if step < 0 and b > a:
        return b - 1, a - 1, -random.choice((1, 2))
    return (a, b, step) if step > 0 else (a, b, 1)


def regrouped(random: Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Neighbouring axes merged, and one split."""
    sizes = list(shape)
    while len(sizes) > 1 and random.random() < 0.6:
        at = random.randrange(len(sizes) - 1)
        sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
    if sizes and random.random() < 0.6:
        at = random.randrange(len(sizes))
        divisors = [d for d in range(1, sizes[at] + 1) if sizes[at] % d == 0]
        if divisors:
            by = random.choice(divisors)
            sizes[at : at + 1] = [by, sizes[at] // by]
    return tuple(sizes)


def taken(m: Maker) -> Value | None:
    """Rows taken by numbers, some of them out of range."""
    x = m.some(lambda v: v.dtype.is_float and len(v.shape) > 0 and 0 not in v.shape)
    if x is None:
        return None
    where = m.param((m.random.randint(1, 5),), DType.I32)
    if m.random.random() < 0.5:
        return Value(
            build.take(x.node, where.node, m.random.randrange(len(x.shape))), x.bound, x.exact
        )
    start = [m.param((), DType.I32).node for _ in x.shape]
    sizes = tuple(m.random.randint(1, size) for size in x.shape)
    return Value(Node.of(dynamic_slice.DynSlice(sizes), x.node, *start), x.bound, x.exact)
