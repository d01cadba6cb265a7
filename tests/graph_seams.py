"""Steps of random graphs whose elements come from several values by their place: rolled, stacked,
padded on both sides or cut, and chosen by indices. Each takes a maker and gives a value, or nothing
where none fits.
"""

from __future__ import annotations

from graph_maker import Maker, Value

from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.scalar.comparison import Compare, Select
from xlac.ops.tensor.extend import Concat, Pad
from xlac.ops.tensor.view import Reshape
from xlac_sdk.dtypes import DType


def seams(m: Maker) -> Value | None:
    x = m.some(lambda v: len(v.shape) > 0)
    if x is None:
        return None
    rank, axis = len(x.shape), m.random.randrange(len(x.shape))
    size, node = x.shape[axis], x.node
    match m.random.choice("roll stack pad where".split()):
        case "roll":
            cut = m.random.randint(0, size)
            parts = build.cut(node, axis, cut, size), build.cut(node, axis, 0, cut)
            return Value(Node.of(Concat(axis), *parts), x.bound, x.exact)
        case "stack":
            others = [m.partner(x) for _ in range(m.random.randint(1, 3))]
            place = m.random.choice((rank, m.random.randint(0, rank)))
            shape = (*x.shape[:place], 1, *x.shape[place:])
            parts = tuple(Node.of(Reshape(shape), v.node) for v in (x, *others))
            found = Node.of(Concat(place), *parts)
            if place == rank and m.random.random() < 0.5:
                found = Node.of(Reshape((*x.shape[:-1], x.shape[-1] * len(parts))), found)
            return _of(found, x, *others)
        case "pad" if x.dtype is not DType.BOOL:
            low, high, gaps = ([m.random.choice(of) for _ in x.shape] for of in _AROUND)
            for a, n in enumerate(x.shape):
                if n + max(0, n - 1) * gaps[a] + min(low[a], 0) + min(high[a], 0) < 0:
                    low[a] = high[a] = 0
            value = build.constant(m.random.randint(0, 2), x.dtype)
            padded = Node.of(Pad(tuple(low), tuple(high), tuple(gaps)), node, value)
            return Value(padded, max(x.bound, 2.0), x.exact)
        case "where":
            other = m.partner(x)
            index = build.iota(x.shape, axis, m.random.choice((DType.I32, DType.I64)))
            limit = build.like(m.random.randint(-1, size + 1), index)
            if rank > 1 and m.random.random() < 0.4:
                limit = build.iota(x.shape, m.random.randrange(rank), index.type.dtype)
            direction = m.random.choice(("lt", "le", "gt", "ge", "eq", "ne"))
            chosen = Node.of(Compare(direction), index, limit)
            return _of(Node.of(Select(), chosen, node, other.node), x, other)
    return None


_AROUND = (-2, -1, 0, 0, 1, 3, 17), (-2, -1, 0, 0, 1, 3, 17), (0, 0, 0, 1, 2)
"""What is padded before and after an axis, and between its elements."""


def _of(node: Node, *values: Value) -> Value:
    return Value(node, max(v.bound for v in values), all(v.exact for v in values))
