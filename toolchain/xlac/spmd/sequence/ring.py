"""Attention whose queries, keys and values are divided by sequence: around a ring, each rank is
sent the keys and values of one other after the other, while it attends to those that it has.

The steps are written of the whole graph, as a roll of blocks along an axis of their own, which
`halo.py` makes messages between neighbours. Softmax is summed up block by block, relative to the
greatest score so far.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from xlac.ir.graph import Graph, Node, walk
from xlac.ops import build
from xlac.ops.nn.attention import Attention
from xlac.ops.tensor.leaf import Param
from xlac.spmd.mesh import AxisNames, Mesh, Sharding
from xlac.spmd.propagate import Shardings, value_of
from xlac.spmd.sequence.masks import BlockedMask, block_of_keys, finite
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin

MOST = 64
"""Ranks of a ring: each is a step with nodes of its own."""


def with_rings(
    graph: Graph, mesh: Mesh, given: Mapping[str, Sharding], links: Sequence[tuple[str, str]]
) -> Graph:
    """The graph with attention around rings, wherever queries, keys and values are divided alike by
    sequence, into equal parts; itself, where there is none. Other composites are expanded already.
    """
    if not any(isinstance(node.op, Attention) for node in graph.nodes()):
        return graph
    params = {n.op.name: n for n in (*graph.inputs, *graph.nodes()) if isinstance(n.op, Param)}
    pairs = [(params[name], graph.outputs[output]) for name, output in links]
    shardings = Shardings(graph, mesh, given, pairs)

    new: dict[Node, Node] = {}
    for node in (*graph.inputs, *graph.nodes()):
        if node in new:
            continue
        inputs = tuple(new[i] for i in node.inputs)
        new[node] = node if inputs == node.inputs else node.with_inputs(inputs)
        parts = mesh.parts(_along(node, shardings))
        if parts > 1:
            new[node] = _named(ring(node.op, inputs, parts), inputs, node.origin)  # type: ignore[arg-type]
    if all(node is made for node, made in new.items()):
        return graph
    outputs = {name: new[node] for name, node in graph.outputs.items()}
    return Graph(graph.name, tuple(new[i] for i in graph.inputs), outputs)


def _along(node: Node, shardings: Shardings) -> AxisNames:
    """The axes of the mesh around which a node is a ring; none, where it is none."""
    op = node.op
    if not isinstance(op, Attention) or op.hidden is not None:
        return ()
    time = 2 if node.type.rank == 4 else 1
    axes = {shardings.of(value_of(i))[time] for i in node.inputs[:3]}
    sizes = [i.shape[time] for i in node.inputs[:2]]
    names = axes.pop() if len(axes) == 1 else ()
    parts = shardings.mesh.parts(names)
    fits = all(isinstance(size, int) and size and size % parts == 0 for size in sizes)
    return names if fits and 1 < parts <= MOST else ()


def _named(root: Node, given: Sequence[Node], origin: Origin | None) -> Node:
    """A value whose nodes have an origin."""
    new = {i: i for i in given}
    for node in walk([root], new):
        inputs = tuple(new[i] for i in node.inputs)
        new[node] = replace(node, inputs=inputs, origin=node.origin or origin)
    return new[root]


def ring(op: Attention, inputs: Sequence[Node], parts: int) -> Node:
    """Attention in so many steps, each of a block of queries with a block of keys."""
    q, k, v, *masks = inputs
    rank, kv = q.type.rank, op.kv_heads or op.heads
    q, k, v = op.apart(q, op.heads), op.apart(k, kv), op.apart(v, kv)
    batch, heads, time, width = map(_known, q.shape)
    shared, keys, values = _known(k.shape[1]), _known(k.shape[2]), _known(v.shape[3])
    wide, group = q.type.dtype.compute, heads // shared
    q = build.reshape(q, (batch, shared, group, parts, time // parts, width))
    k = build.reshape(k, (batch, shared, parts, keys // parts, width))
    v = build.reshape(v, (batch, shared, parts, keys // parts, values))
    scale = 1 / math.sqrt(width) if op.scale is None else op.scale
    lowest = float(np.finfo(wide.numpy).min)
    whole = (batch, heads, time, keys)
    blocked = [BlockedMask.of(mask, whole, shared, parts) for mask in masks]
    added = any(mask.type.dtype.is_float for mask in masks)
    state: tuple[Node, Node, Node] | None = None
    for step in range(parts):
        if step:  # each rank has what its neighbour had
            k, v = (build.apply1("roll", x, shift=1, axis=2) for x in (k, v))
        scores = build.dot(q, k, ((5,), (4,)), ((0, 1, 3), (0, 1, 2)), wide)
        scores = build.mul(scores, scale)
        for mask in blocked:
            scores = mask.on(scores, lowest)
        if op.causal:
            seen = _causal(scores, step, keys - time)
            scores = build.select(seen, scores, build.like(lowest, scores))
        state = _summed(scores, v, state, added)
    assert state is not None
    _, total, weighted = state
    result = build.div(weighted, build.back(total, weighted.shape, (5,)))
    result = build.transpose(result, (0, 1, 3, 2, 4, 5))
    result = build.cast(build.reshape(result, (batch, heads, time, values)), q.type.dtype)
    return op.joined(result, rank)


def _known(size: object) -> int:
    assert isinstance(size, int)
    return size


def _causal(scores: Node, step: int, more: int) -> Node:
    """Which keys a query sees: scores are (batch, heads, block, group, query, key), and a rank has
    in each step the keys of the block that many before its own. `more`: keys than queries.
    """
    parts, time, keys = (_known(scores.shape[axis]) for axis in (2, 4, 5))
    block, others = build.iota((parts,), 0, DType.I32), block_of_keys(parts, step)
    first, second = (
        build.add(
            build.spread(build.mul(own, size), (parts, size), (0,)),
            build.spread(build.iota((size,), 0, DType.I32), (parts, size), (1,)),
        )
        for own, size in ((block, time), (others, keys))
    )
    query = build.add(build.spread(first, (parts, time, keys), (0, 1)), more)
    key = build.spread(second, (parts, time, keys), (0, 2))
    return build.spread(build.compare(key, "le", query), scores.shape, (2, 4, 5))


def _summed(
    scores: Node, v: Node, state: tuple[Node, Node, Node] | None, added: bool
) -> tuple[Node, Node, Node]:
    """The greatest score of each query so far, the sum of exponentials and the sum of weighted
    values, relative to it. `added`: scores may be -inf, all of a block's.
    """
    top = build.reduce(scores, "max", (5,))
    top = top if state is None else build.maximum(state[0], top)
    base = finite(top) if added else top
    powers = build.exp(build.sub(scores, build.back(base, scores.shape, (5,))))
    total = build.reduce(powers, "add", (5,))
    weights = build.cast(powers, v.type.dtype)
    weighted = build.dot(weights, v, ((5,), (3,)), ((0, 1, 2), (0, 1, 2)), scores.type.dtype)
    if state is None:
        return top, total, weighted
    less = build.exp(build.sub(state[0], base))
    before = build.mul(state[2], build.back(less, weighted.shape, (5,)))
    return top, build.add(build.mul(state[1], less), total), build.add(before, weighted)
