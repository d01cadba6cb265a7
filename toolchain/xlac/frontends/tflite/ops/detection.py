"""Non-maximum suppression: repeatedly selects the best box that overlaps no selected one."""

from __future__ import annotations

import numpy as np

from xlac.frontends.boxes import edges_of, overlap_of
from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.registry import operator
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.control.control import Scan
from xlac_sdk.dtypes import DType


def _suppression(name: str) -> None:
    @operator(name)
    def suppression(call: TFLiteCall) -> tuple[Node, ...]:
        """Indices of `most` boxes in order of decreasing score, their scores (V5), and how many are
        valid; the rest are 0. V5 lowers the scores of overlapping boxes by exp(-overlap² / (2
        sigma)).
        """
        soft = name == "NON_MAX_SUPPRESSION_V5"
        (most,) = call.ints(2)
        if most < 0 or call[0].type.rank != 2 or call[0].shape[1:] != (4,):
            call.fail(f"boxes are (boxes, 4), and at least 0 are selected: {call[0].type}, {most}")
        overlap, least = (build.reshape(call[n], ()) for n in (3, 4))
        sigma = build.reshape(call[5], ()) if soft else None
        index, score, count = _selected(call[0], call[1], most, overlap, least, sigma)
        results = [build.cast(index, call.dtype(0))]
        if soft:
            results.append(score)
        return *results, build.cast(count, call.dtype(len(results)))


_suppression("NON_MAX_SUPPRESSION_V4")
_suppression("NON_MAX_SUPPRESSION_V5")


def _selected(
    boxes: Node, scores: Node, most: int, overlap: Node, least: Node, sigma: Node | None
) -> tuple[Node, Node, Node]:
    """Indices and scores of the selected boxes, followed by zeros, and their number."""
    a, b, c, d = (build.reshape(build.cut(boxes, 1, n, n + 1), (-1,)) for n in range(4))
    edges = [build.minimum(a, c), build.minimum(b, d), build.maximum(a, c), build.maximum(b, d)]

    def step(left: Node, least: Node, overlap: Node, *rest: Node) -> tuple[Node, ...]:
        edges = list(rest[:4])
        best = build.apply1("argmax", left, axis=0, keepdims=True)
        here = build.compare(build.iota(left.shape, 0), "eq", best)
        top = build.reduce(left, "max")
        some = build.compare(top, "gt", least)
        share = overlap_of(edges_of(here, edges, 0), edges)
        gone = build.apply1("or", here, build.compare(share, "gt", overlap))
        if len(rest) > 4:
            scale = build.div(-0.5, rest[4])
            weight = build.exp(build.mul(scale, build.mul(share, share)))
            weaker = build.select(build.compare(rest[4], "gt", 0.0), build.mul(left, weight), left)
            soft = build.compare(rest[4], "gt", 0.0)
            gone = build.select(soft, here, gone)
            left = weaker
        after = build.select(gone, -np.inf, left)
        index = build.select(some, build.reshape(best, ()), 0)
        return after, index, build.select(some, top, 0.0), some

    others = [least, overlap, *edges, *([] if sigma is None else [sigma])]
    types = [scores.type, *(node.type for node in others)]
    op = Scan(build.graph("select", types, step), most, 1, 0)
    _, index, score, some = build.results(Node.of(op, scores, *others))
    count = build.reduce(build.cast(some, DType.I32), "add", 0)
    return index, score, count
