"""Attention whose queries, keys and values are divided by sequence: around a ring, each rank is
sent the keys and values of one other after the other, while it attends to those that it has. In the
derivative their gradients go around with them, to which each rank adds what its queries give.

The steps are written of the whole graph, as a roll of blocks along an axis of their own, which
`halo.py` makes messages between neighbours. Softmax is summed up block by block, relative to the
greatest score so far; the derivative computes its weights again, block by block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xlac.ir.graph import Graph, Node, walk
from xlac.ops import build
from xlac.ops.control.control import Pick
from xlac.ops.nn.attention import Attention, MaskedHeads
from xlac.ops.nn.attention_derivatives import AttentionGradient, AttentionSums
from xlac.ops.tensor.leaf import Param
from xlac.spmd.mesh import AxisNames, Mesh, Sharding
from xlac.spmd.propagate import Shardings, value_of
from xlac.spmd.sequence.blocks import RingBlocks, moved_on, of_queries
from xlac.spmd.sequence.masks import finite
from xlac_sdk.source import Origin

MOST = 64
"""Ranks of a ring: each is a step with nodes of its own."""

KEPT = (Attention, AttentionSums, AttentionGradient)
"""Operations that may go around a ring."""


def with_rings(
    graph: Graph, mesh: Mesh, given: Mapping[str, Sharding], links: Sequence[tuple[str, str]]
) -> Graph:
    """The graph with attention and its derivative around rings, wherever queries, keys and values
    are divided alike by sequence, into equal parts; itself, where there is none. Other composites
    are expanded already.
    """
    if not any(isinstance(node.op, KEPT) for node in graph.nodes()):
        return graph
    params = {n.op.name: n for n in (*graph.inputs, *graph.nodes()) if isinstance(n.op, Param)}
    pairs = [(params[name], graph.outputs[output]) for name, output in links]
    shardings = Shardings(graph, mesh, given, pairs)

    new: dict[Node, Node] = {}
    around: dict[Node, list[Node]] = {}  # the results of a node that is a ring
    for node in (*graph.inputs, *graph.nodes()):
        if node in new or node in around:
            continue
        if isinstance(node.op, Pick) and node.inputs[0] in around:
            new[node] = around[node.inputs[0]][node.op.index]
            continue
        inputs = tuple(new[i] for i in node.inputs)
        parts = mesh.parts(_along(node, shardings))
        if parts > 1:
            assert isinstance(node.op, KEPT)
            found = _named(_ring(node.op, inputs, parts), inputs, node.origin)
            if len(node.results) == 1:
                (new[node],) = found
            else:
                around[node] = found
            continue
        new[node] = node if inputs == node.inputs else node.with_inputs(inputs)
    if not around and all(node is made for node, made in new.items()):
        return graph
    outputs = {name: new[node] for name, node in graph.outputs.items()}
    return Graph(graph.name, tuple(new[i] for i in graph.inputs), outputs)


def _along(node: Node, shardings: Shardings) -> AxisNames:
    """The axes of the mesh around which a node is a ring; none, where it is none."""
    op = node.op
    if not isinstance(op, KEPT) or op.hidden is not None:
        return ()
    time = 2 if node.inputs[0].type.rank == 4 else 1
    axes = {shardings.of(value_of(i))[time] for i in node.inputs[:3]}
    sizes = [i.shape[time] for i in node.inputs[:2]]
    names = axes.pop() if len(axes) == 1 else ()
    parts = shardings.mesh.parts(names)
    fits = all(isinstance(size, int) and size and size % parts == 0 for size in sizes)
    return names if fits and 1 < parts <= MOST else ()


def _named(roots: Sequence[Node], given: Sequence[Node], origin: Origin | None) -> list[Node]:
    """Values whose nodes have an origin."""
    new = {i: i for i in given}
    for node in walk(roots, new):
        inputs = tuple(new[i] for i in node.inputs)
        new[node] = replace(node, inputs=inputs, origin=node.origin or origin)
    return [new[root] for root in roots]


def _ring(op: MaskedHeads, inputs: Sequence[Node], parts: int) -> list[Node]:
    """The results of an operation in so many steps."""
    if isinstance(op, AttentionGradient):
        return ring_gradient(op, inputs, parts)
    results = ring_sums(op, inputs, parts)
    return results if isinstance(op, AttentionSums) else results[:1]


def ring(op: Attention, inputs: Sequence[Node], parts: int) -> Node:
    """Attention in so many steps, each of a block of queries with a block of keys."""
    return ring_sums(op, inputs, parts)[0]


def ring_sums(op: MaskedHeads, inputs: Sequence[Node], parts: int) -> list[Node]:
    """The results of `attention_sums` in so many steps: attention, the greatest score of each query
    and the sum of exponentials relative to it.
    """
    q, k, v, *masks = inputs
    blocks = RingBlocks.of(op, (q, k, v), masks, parts)
    state: tuple[Node, Node, Node] | None = None
    for step in range(parts):
        if step:
            blocks.move()
        scores, _ = blocks.scores()
        state = _summed(scores, blocks.v, state, blocks.added)
    assert state is not None
    top, total, weighted = state
    result = build.div(weighted, build.back(total, weighted.shape, (5,)))
    attended = blocks.joined(result, q.type.dtype, q.type.rank)
    return [attended, blocks.by_query(top), blocks.by_query(total)]


def ring_gradient(op: AttentionGradient, inputs: Sequence[Node], parts: int) -> list[Node]:
    """The results of `attention_gradient` in so many steps. The gradients of keys and values are
    moved on with them, and once more to the rank that has them.
    """
    q, k, v, y, top, total, ct, *masks = inputs
    # else what came around before would be kept for this: all keys and values on every rank
    again = (q, *(build.apply1("barrier", x) for x in (k, v)))
    blocks = RingBlocks.of(op, again, masks, parts)
    shared = blocks.k.shape[1]
    assert isinstance(shared, int)
    dtype, wide = q.type.dtype, blocks.wide
    ct, y = (of_queries(op.apart(x, op.heads), shared, parts) for x in (ct, y))
    mean = _in_scores(build.reduce(build.mul(build.compute(ct), build.compute(y)), "add", (5,)))
    top, total = (_in_scores(of_queries(x, shared, parts)) for x in (top, total))
    over_keys = (((5,), (3,)), ((0, 1, 2), (0, 1, 2)), wide)
    over_queries = (((3, 4), (2, 4)), ((0, 1, 2), (0, 1, 3)), wide)
    by_q: Node | None = None
    by_k: Node | None = None
    by_v: Node | None = None
    for step in range(parts):
        if step:
            blocks.move()
        scores, seen = blocks.scores()

        def each(x: Node, scores: Node = scores) -> Node:
            return build.back(x, scores.shape, (5,))

        weights = build.div(build.exp(build.sub(scores, each(top))), each(total))
        given = build.dot(ct, blocks.v, ((5,), (4,)), ((0, 1, 3), (0, 1, 2)), wide)
        change = build.mul(weights, build.sub(given, each(mean)))
        for shown in seen:
            change = build.select(shown, change, build.like(0.0, change))
        scaled = build.cast(build.mul(change, blocks.scale), dtype)
        by_q = _sum(by_q, build.dot(scaled, blocks.k, *over_keys))
        by_k = moved_on(_sum(by_k, build.dot(scaled, blocks.q, *over_queries)))
        by_v = moved_on(_sum(by_v, build.dot(build.cast(weights, dtype), ct, *over_queries)))
    assert by_q is not None and by_k is not None and by_v is not None
    return [
        blocks.joined(by_q, dtype, q.type.rank),
        blocks.by_key(by_k, dtype, k.type.rank),
        blocks.by_key(by_v, dtype, v.type.rank),
    ]


def _in_scores(x: Node) -> Node:
    """A number for each query in blocks, with the axes that scores have."""
    return build.transpose(x, (0, 1, 3, 2, 4))


def _sum(one: Node | None, other: Node) -> Node:
    return other if one is None else build.add(one, other)


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
