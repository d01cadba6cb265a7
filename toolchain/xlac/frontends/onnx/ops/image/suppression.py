"""NonMaxSuppression. The number of selected boxes is data-dependent."""

from __future__ import annotations

import numpy as np

from xlac.frontends.boxes import edges_of, overlap_of
from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.graph.values import Ragged, Value
from xlac.frontends.onnx.ops.tensor.data import compacted
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac.ops.control.control import Scan
from xlac_sdk.dtypes import DType


@operator("NonMaxSuppression", since=10)
def non_max_suppression(call: OperatorCall) -> Value:
    """Operator sets 10 and 11: rows of (batch, class, box), ordered by batch, class and score.

    Each step selects the best remaining box of each class of each batch, and drops those that
    overlap it.
    """
    boxes, scores = call[0], call[1]
    if (
        boxes.type.rank != 3
        or boxes.shape[2] != 4
        or scores.type.rank != 3
        or scores.shape[2] != boxes.shape[1]
    ):
        raise ShapeError(
            f"boxes are (batch, boxes, 4) and scores (batch, classes, boxes), got {boxes.type} and "
            f"{scores.type}"
        )
    batch, classes, count = scores.shape
    if not isinstance(count, int) or not isinstance(batch, int) or not isinstance(classes, int):
        call.fail(f"NonMaxSuppression needs known sizes, got {scores.type}")
    most = call.knows(2) if call.get(2) is not None else np.zeros(1)
    steps = count if most is None else min(count, max(0, int(most.reshape(-1)[0])))
    limit = (
        build.constant(steps, DType.I64)
        if most is not None
        else build.cast(build.reshape(call[2], ()), DType.I64)
    )
    edges = _edges(boxes, call.attr("center_point_box", 0))
    alive = build.full(True, scores.shape, DType.BOOL)
    if call.get(4) is not None:
        alive = build.compare(
            scores, "gt", build.cast(build.reshape(call[4], ()), scores.type.dtype)
        )
    overlap = (
        build.constant(0.0, boxes.type.dtype)
        if call.get(3) is None
        else build.cast(build.reshape(call[3], ()), boxes.type.dtype)
    )
    overlap = build.maximum(overlap, 0.0)  # boxes that share nothing overlap at no threshold
    selected, chosen = _chosen(alive, scores, edges, overlap, limit, steps)
    # (batch, classes, steps)
    taken, boxes_at = (build.transpose(n, (1, 2, 0)) for n in (selected, chosen))
    positions, total = compacted(taken, batch * classes * steps)
    columns = [build.iota(taken.shape, 0), build.iota(taken.shape, 1), boxes_at]
    rows = build.apply1(
        "stack", *(build.reshape(c, (batch * classes * steps,)) for c in columns), axis=1
    )
    return Ragged(
        build.take(rows, positions, 0) if steps * batch * classes else rows, ((0, total),)
    )


def _edges(boxes: Node, centred: int) -> list[Node]:
    """Left, top, right and bottom of boxes, each (batch, 1, boxes)."""
    a, b, c, d = (
        build.reshape(build.cut(boxes, 2, n, n + 1), (boxes.shape[0], 1, boxes.shape[1]))
        for n in range(4)
    )
    if centred:
        halves = [build.div(n, 2.0) for n in (c, d)]
        return [
            build.sub(a, halves[0]),
            build.sub(b, halves[1]),
            build.add(a, halves[0]),
            build.add(b, halves[1]),
        ]
    return [build.minimum(b, d), build.minimum(a, c), build.maximum(b, d), build.maximum(a, c)]


def _chosen(
    alive: Node, scores: Node, edges: list[Node], overlap: Node, limit: Node, steps: int
) -> tuple[Node, Node]:
    """For each step, batch and class: whether a box was selected, and which."""
    lowest = float(np.finfo(scores.type.dtype.numpy).min)

    def step(
        alive: Node, at: Node, scores: Node, overlap: Node, limit: Node, *edges: Node
    ) -> tuple[Node, ...]:
        left = build.select(alive, build.maximum(scores, lowest), -np.inf)
        best = build.apply1("argmax", left, axis=2, keepdims=True)
        some = build.apply1(
            "and", build.reduce(alive, "or", 2, True), build.compare(at, "lt", limit)
        )
        here = build.compare(build.iota(scores.shape, 2), "eq", best)
        share = overlap_of(edges_of(here, edges, 2), edges)
        gone = build.apply1("or", build.compare(share, "gt", overlap), here)
        alive = build.apply1("and", alive, build.apply1("not", gone))
        return alive, build.reshape(some, scores.shape[:2]), build.reshape(best, scores.shape[:2])

    rest = [scores, overlap, limit, *edges]
    types = [alive.type, limit.type, *(n.type for n in rest)]
    op = Scan(build.graph("step", types, step), steps, 1, 1)
    _, selected, chosen = build.results(Node.of(op, alive, build.iota((steps,), 0), *rest))
    return selected, chosen
