"""Post-processing of the scores of ai.onnx.ml's classifiers and regressors: post_transform, and
labels.
"""

from __future__ import annotations

import math

import numpy as np

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.ir.graph import Node
from xlac.ops import build


def finished(call: OperatorCall, scores: Node, transform: str) -> Node:
    """Scores (rows, classes) after the post_transform."""
    match transform:
        case "NONE":
            return scores
        case "LOGISTIC":
            return build.apply1("sigmoid", scores)
        case "SOFTMAX":
            return build.apply1("softmax", scores, axis=1)
        case "SOFTMAX_ZERO":
            return _softmax_zero(scores)
        case "PROBIT":
            return _probit(scores)
    call.fail(f"post_transform '{transform}' is not supported")


def _softmax_zero(x: Node) -> Node:
    """Softmax over the nonzero scores; zeros stay zero."""
    top = build.reduce(x, "max", 1, keepdims=True)
    there = build.compare(build.apply1("abs", x), "gt", 1e-7)
    parts = build.select(
        there, build.exp(build.sub(x, top)), build.mul(x, build.exp(build.apply1("neg", top)))
    )
    total = build.reduce(parts, "add", 1, keepdims=True)
    return build.select(
        build.compare(total, "eq", 0.0), build.like(0.5, x), build.div(parts, total)
    )


def _probit(x: Node) -> Node:
    """The probit function (inverse of the normal CDF), by the approximation of ONNX's reference."""
    at = build.sub(build.mul(x, 2.0), 1.0)
    rest = build.mul(build.sub(1.0, at), build.add(at, 1.0))
    log = build.log(rest)
    a = build.add(build.mul(log, 0.5), 2.0 / (math.pi * 0.147))
    root = build.sqrt(
        build.sub(build.sqrt(build.sub(build.mul(a, a), build.mul(log, 1.0 / 0.147))), a)
    )
    quantile = build.mul(
        build.select(build.compare(at, "lt", 0.0), build.apply1("neg", root), root), 1.41421356
    )
    return build.select(build.compare(rest, "eq", 0.0), build.like(0, quantile), quantile)


def two(call: OperatorCall, score: Node, transform: str, probability: bool) -> Node:
    """Two columns of class scores from the score of the second class, (rows, 1), which is a
    probability or a signed margin.
    """
    if transform == "PROBIT":
        return finished(call, score, transform)
    if probability:
        return build.concat([build.sub(1.0, score), score], 1)
    both = build.concat([build.apply1("neg", score), score], 1)
    return finished(call, both, transform)


def labelled(call: OperatorCall, chosen: Node, labels: list[int] | None) -> Node:
    """The labels of the chosen classes. Labels that are text are refused if the output is used."""
    if labels is None:
        if call.wants(0) and call.attr("classlabels_strings", None):
            call.fail(
                "its labels are text, which is not supported",
                "leave output 0 out, and take the greatest score",
            )
        return chosen
    if len(labels) == 1:
        return build.select(
            build.compare(chosen, "gt", 0),
            build.constant(np.asarray(labels[0])),
            build.constant(np.asarray(0)),
        )
    return build.take(build.constant(np.asarray(labels)), chosen, 0)
