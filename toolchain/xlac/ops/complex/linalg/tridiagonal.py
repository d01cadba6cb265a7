"""Systems with a tridiagonal matrix, real or complex."""

from __future__ import annotations

from xlac.ir.dims import Dim
from xlac.ir.graph import Node, pick
from xlac.ops import build
from xlac.ops.complex.linalg.numbers import (
    Numbers,
    add,
    div,
    each,
    entry,
    magnitude,
    mul,
    real,
    select,
    sub,
)
from xlac.ops.linalg.matrices import over


def _wide(x: Numbers, count: Dim) -> Numbers:
    """(…) as (…, count)."""
    return each(lambda p: build.back(p, (*p.shape, count), (p.type.rank,)), x)


def _split(nodes: tuple[Node, ...], size: int) -> list[Numbers]:
    """Nodes as numbers of `size` parts."""
    return [nodes[k : k + size] for k in range(0, len(nodes), size)]


def tridiagonal_solve(low: Numbers, d: Numbers, high: Numbers, b: Numbers) -> Numbers:
    """The X (…, n, k) for which the matrices with diagonal d (…, n), `low` (…, n - 1) below and
    `high` (…, n - 1) above it times X are b (…, n, k), by elimination with exchanges of
    neighbouring rows, as LAPACK's gtsv. The residual |a X - b| is below 16 eps |L| |U| |X|, with
    the factors of that elimination. Long because it has the bodies of two loops.
    """
    rank, size = len(d[0].shape), d[0].shape[-1]
    count, columns = len(d), b[0].shape[-1]
    assert isinstance(size, int)
    axis = rank - 1

    def first(x: Numbers, along: int) -> Numbers:
        return entry(x, along, build.constant(0, build.iota((1,), 0).type.dtype))

    if size == 1:
        return div(b, each(lambda p: build.back(p, b[0].shape, (rank,)), d))
    end = real(build.full(0.0, (*d[0].shape[:-1], 1), d[0].type.dtype), d)
    above = tuple(build.concat([h, e], axis) for h, e in zip(high, end, strict=True))

    def eliminated(*nodes: Node) -> list[Node]:
        p, q, y = _split(nodes[: 3 * count], count)
        number = nodes[3 * count]
        low, d, above, b = _split(nodes[3 * count + 1 :], count)
        following = build.add(number, 1)
        under, here, right = (
            entry(low, axis, number),
            *(entry(x, axis, following) for x in (d, above)),
        )
        other = entry(b, axis, following)
        exchange = build.compare(magnitude(p), "lt", magnitude(under))
        both = build.back(exchange, y[0].shape, (rank - 1,))
        pivot, rest = select(exchange, under, p), select(exchange, p, under)
        factor = div(rest, pivot)
        top, bottom = select(exchange, here, q), select(exchange, q, here)
        nothing = real(0.0, q)
        far, last = select(exchange, right, nothing), select(exchange, nothing, right)
        kept, changed = select(both, other, y), select(both, y, other)
        p, q = sub(bottom, mul(factor, top)), sub(last, mul(factor, far))
        y = sub(changed, mul(_wide(factor, columns), kept))
        return [*p, *q, *y, *pivot, *top, *far, *kept]

    start = (*first(d, axis), *first(above, axis), *first(b, axis))
    found = over(size - 1, eliminated, start, (*low, *d, *above, *b))
    p, _, y, *rows = _split(tuple(pick(found, n) for n in range(7 * count)), count)

    def solved(*nodes: Node) -> list[Node]:
        near, far = _split(nodes[: 2 * count], count)
        pivot, top, beyond, kept = (
            entry(x, 0, nodes[2 * count]) for x in _split(nodes[2 * count + 1 :], count)
        )
        known = add(mul(_wide(top, columns), near), mul(_wide(beyond, columns), far))
        x = div(sub(kept, known), _wide(pivot, columns))
        return [*x, *near, *x]

    last = div(y, _wide(p, columns))
    given = tuple(node for row in rows for node in row)
    found = over(size - 1, solved, (*last, *real(0.0, last)), given, reverse=True)
    order = [*range(1, rank), 0, rank]
    above_last = tuple(build.transpose(pick(found, 2 * count + n), order) for n in range(count))
    shape = (*b[0].shape[:-2], 1, columns)
    return tuple(
        build.concat([x, build.reshape(end, shape)], axis)
        for x, end in zip(above_last, last, strict=True)
    )
