"""Reductions, windows and scatters with a body that combines elements, decomposed into operations
that have derivatives.

The body of a reduction is associative, so elements are combined pairwise in log2(count) rounds;
where the count is an open size, a scan combines them one by one. Updates of a scatter are applied
in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

from xlac.autodiff.errors import NoDerivativeError
from xlac.batching.along import Along
from xlac.batching.walk import Batch
from xlac.ir.dims import volume
from xlac.ir.graph import Graph, Node
from xlac.ops import build
from xlac.ops.control.control import Scan
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.reduction.window import Window
from xlac.ops.tensor.scatter import Scatter
from xlac.ops.tensor.scatter_changes import at_places
from xlac.ops.walks import closed, fresh
from xlac_sdk.dtypes import DType

WIDEST = 4096  # elements of a window: each has nodes of its own

Values = list[Node]


def decomposed(node: Node) -> Sequence[Node] | None:
    """The results of a node whose body combines elements, from operations that have derivatives;
    None for any other node. Raises NoDerivativeError for a window of more than WIDEST elements.
    """
    match node.op:
        case Reduce(body=Graph() as body):
            return _reduced(node, node.op, body)
        case Window(body=Graph() as body):
            return _windowed(node, node.op, body)
        case Scatter(body=Graph() as body):
            places = _scattered_unique if node.op.unique else _scattered_in_order
            return places(node, node.op, body)
    return None


def applied(body: Graph, values: Sequence[Node]) -> Values:
    """A body on scalars, applied elementwise to tensors of one shape."""
    shape = values[0].shape
    if not shape:
        given = {i: Along(v, False) for i, v in zip(body.inputs, values, strict=True)}
        return [each.node for each in Batch(given, 1).run(body.outputs.values())]
    count = volume(shape)
    flat = [Along(build.reshape(v, (count,)), True) for v in values]
    alongs = Batch(dict(zip(body.inputs, flat, strict=True)), count).run(body.outputs.values())
    return [build.reshape(each.spread(count), shape) for each in alongs]


def _reduced(node: Node, op: Reduce, body: Graph) -> Values:
    half = len(node.inputs) // 2
    xs, inits = node.inputs[:half], node.inputs[half:]
    kept = [axis for axis in range(xs[0].type.rank) if axis not in op.axes]
    shape = tuple(xs[0].shape[axis] for axis in kept)
    count = volume(tuple(xs[0].shape[axis] for axis in op.axes))
    rows = [build.reshape(build.transpose(x, (*op.axes, *kept)), (count, *shape)) for x in xs]
    first = [build.spread(init, shape, ()) for init in inits]
    if not isinstance(count, int):
        return _one_by_one(body, first, rows)
    if count == 0:
        return first
    return applied(body, [*first, *_pairwise(body, rows, count)])


def _pairwise(body: Graph, rows: Values, count: int) -> Values:
    """Rows, [count, …] each, combined pairwise until one is left, […]."""
    while count > 1:
        even = [build.cut(r, 0, 0, count - count % 2, 2) for r in rows]
        odd = [build.cut(r, 0, 1, count, 2) for r in rows]
        joined = applied(body, [*even, *odd])
        if count % 2:
            joined = [
                build.concat([j, build.cut(r, 0, count - 1, count)], 0)
                for j, r in zip(joined, rows, strict=True)
            ]
        rows, count = joined, (count + 1) // 2
    return [build.reshape(r, r.shape[1:]) for r in rows]


def _one_by_one(body: Graph, first: Values, rows: Values) -> Values:
    """Rows combined one after another by a scan, since their number is an open size."""
    carry, row = fresh([f.type for f in first], "c"), fresh([f.type for f in first], "x")
    step = closed("combine", [*carry, *row], applied(body, [*carry, *row]))
    return list(
        build.results(Node.of(Scan(step, rows[0].shape[0], len(first), len(rows)), *first, *rows))
    )


def _windowed(node: Node, op: Window, body: Graph) -> Values:
    """Elements at each offset in the window, combined pairwise, then with the initial values."""
    if prod(op.window) > WIDEST:
        raise NoDerivativeError(
            node,
            f"combines {prod(op.window)} elements by a body, and has a derivative up to {WIDEST}",
            "combine them by add, mul, max or min, or by several smaller windows",
        )
    half = len(node.inputs) // 2
    xs, inits = node.inputs[:half], node.inputs[half:]
    shape = node.results[0].shape
    first = [build.spread(init, shape, ()) for init in inits]
    places = list(product(*map(range, op.window)))
    seen = [
        [op.tap(x, init, place, shape) for place in places]
        for x, init in zip(xs, inits, strict=True)
    ]
    while len(seen[0]) > 1:
        pairs = list(range(0, len(seen[0]) - 1, 2))
        joined = [applied(body, [*(s[n] for s in seen), *(s[n + 1] for s in seen)]) for n in pairs]
        rest = len(seen[0]) % 2
        seen = [[*(j[k] for j in joined), *(s[-1:] if rest else [])] for k, s in enumerate(seen)]
    return applied(body, [*first, *(s[0] for s in seen)])


def _scatter_operands(node: Node) -> tuple[Sequence[Node], Node, Sequence[Node]]:
    count = (len(node.inputs) - 1) // 2
    return node.inputs[:count], node.inputs[count], node.inputs[count + 1 :]


def _scattered_unique(node: Node, op: Scatter, body: Graph) -> Values:
    """A scatter with unique indices: elements are gathered, combined, and scattered back."""
    xs, indices, updates = _scatter_operands(node)
    old = [at_places(op, x, indices, u.type) for x, u in zip(xs, updates, strict=True)]
    new = applied(body, [*old, *updates])
    plain: Any = Scatter(**_axes(op), combine="assign", unique=True)
    return [Node.of(plain, x, indices, n) for x, n in zip(xs, new, strict=True)]


def _axes(op: Scatter) -> dict[str, Any]:
    return {name: getattr(op, name) for name in op.leading or {}}


def _scattered_in_order(node: Node, op: Scatter, body: Graph) -> Values:
    """A scatter whose indices may repeat: a scan applies the updates one after another."""
    xs, indices, updates = _scatter_operands(node)
    shape, given = xs[0].shape, updates[0].shape
    if 0 in shape or 0 in given:
        return list(xs)
    size, steps = volume(shape), volume(given)
    # positions are numbered from 1, so that 0 marks an update out of range
    numbers = build.add(build.iota((size,), 0, DType.I64), 1)
    places = at_places(op, build.reshape(numbers, shape), indices, updates[0].type)
    line = [build.reshape(x, (size,)) for x in xs]
    rows = [build.reshape(u, (steps,)) for u in (places, *updates)]
    carry = fresh([x.type for x in line], "x")
    place, *own = fresh([r.type.with_shape(()) for r in rows], "u")
    at = build.sub(place, 1)  # -1 is clamped to 0; the element there is written back unchanged
    old = [build.reshape(build.apply1("dyn_slice", c, at, sizes=(1,)), ()) for c in carry]
    inside = build.compare(place, "gt", 0)
    new = [
        build.select(inside, n, o) for n, o in zip(applied(body, [*old, *own]), old, strict=True)
    ]
    after = [
        build.apply1("dyn_update", c, build.reshape(n, (1,)), at)
        for c, n in zip(carry, new, strict=True)
    ]
    step = closed("scatter", [*carry, place, *own], after)
    results = build.results(Node.of(Scan(step, steps, len(line), len(rows)), *line, *rows))
    return [build.reshape(m, shape) for m in results]
