"""Checkpointing of scans: only every k-th carry is kept for reverse mode, and the steps between are
recomputed.

The scan becomes one over chunks of k steps. The derivative keeps the inputs of each chunk. `k` is
the scan's own, or that of `checkpointing`, which a memory limit asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from math import isqrt

from xlac.ir.dims import Dim, ceil_div, divisor, size_hint
from xlac.ir.graph import Graph, Node, zeros
from xlac.ops import build
from xlac.ops.control.bounded import COUNT, CountedScan, size
from xlac.ops.control.control import Scan
from xlac.ops.walks import closed, fresh

LEAST_LENGTH = 8  # steps of a scan, below which checkpoints save little
_scale: ContextVar[float] = ContextVar("checkpoints", default=0.0)


@contextmanager
def checkpointing(scale: float) -> Iterator[None]:
    """Scans without a `checkpoint_every` of their own have one of `scale` times the square root of
    their length while graphs are differentiated: carries and residuals of a chunk take about as
    much memory then.
    """
    token = _scale.set(scale)
    try:
        yield
    finally:
        _scale.reset(token)


def kept_every(node: Node, scale: float) -> int:
    """Of how many steps a scan keeps one carry under `checkpointing(scale)`; 0: of each, with all
    residuals, as by itself.
    """
    op = node.op
    if not isinstance(op, Scan) or op.checkpoint_every:
        return op.checkpoint_every if isinstance(op, Scan) else 0
    length = size_hint(op.length)
    every = max(2, round(scale * isqrt(length))) if scale else 0
    # a chunk is a scan too, and has no chunks
    return every if length >= max(LEAST_LENGTH, 2 * every + 1) else 0


def scans(graph: Graph) -> Iterator[Node]:
    """The scans of a graph that checkpoints would make smaller."""
    return (node for node in graph.order if isinstance(node.op, Scan) and kept_every(node, 1.0) > 1)


def checkpointed_scan(node: Node) -> Sequence[Node] | None:
    """The results of a scan that keeps one of several carries, from a scan over chunks; None for
    any other node. The last chunk may have fewer steps.
    """
    op, every = node.op, kept_every(node, _scale.get())
    if not isinstance(op, Scan) or every < 2 or op.length == 0:
        return None
    op = replace(op, checkpoint_every=every)
    assert op.body is not None
    chunks = ceil_div(op.length, every)
    first, xs, rest = op.parts(node.inputs)
    rows = [_chunked(x, chunks, every) for x in xs]
    whole = divisor(op.length) % every == 0
    counts = [] if whole else [_counts(op, chunks)]

    types = [i.type for i in first], [r.type.with_shape(r.shape[1:]) for r in (*counts, *rows)]
    carry, slices, others = (
        fresh(types[0], "c"),
        fresh(types[1], "x"),
        fresh([r.type for r in rest], "r"),
    )
    short = replace(op, length=every, checkpoint_every=0)
    steps = short if whole else CountedScan(short.body, every, op.carries, op.scanned, op.reverse)
    inputs = [*slices[: len(counts)], *carry, *slices[len(counts) :], *others]
    inner = build.results(Node.of(steps, *inputs, origin=node.origin))
    body = closed(op.body.name, [*carry, *slices, *others], inner)
    outer = Scan(body, chunks, op.carries, len(slices), op.reverse, checkpoint_every=1)
    results = build.results(Node.of(outer, *first, *counts, *rows, *rest, origin=node.origin))
    stacked = [
        build.cut(build.reshape(y, (chunks * every, *y.shape[2:])), 0, 0, op.length)
        for y in results[op.carries :]
    ]
    return [*results[: op.carries], *stacked]


def _chunked(x: Node, chunks: Dim, every: int) -> Node:
    """A scanned operand [length, …] as [chunks, every, …], padded with zeros."""
    missing = chunks * every - x.shape[0]
    if missing != 0:
        x = build.concat([x, zeros(x.type.with_shape((missing, *x.shape[1:])))], 0)
    return build.reshape(x, (chunks, every, *x.shape[1:]))


def _counts(op: Scan, chunks: Dim) -> Node:
    """The number of steps of each chunk, [chunks]."""
    every = op.checkpoint_every
    begun = build.mul(build.cast(build.iota((chunks,), 0), COUNT), every)
    left = build.sub(build.spread(size(op.length), (chunks,), ()), begun)
    return build.minimum(left, every)
