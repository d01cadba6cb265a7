"""Linear models and support vector machines (ai.onnx.ml 1): LinearRegressor, LinearClassifier,
SVMRegressor, SVMClassifier.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.ops.attention.scores import finished, labelled, two
from xlac.frontends.onnx.registry import ML, operator
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops import build
from xlac_sdk.dtypes import DType


def _rows(call: OperatorCall) -> Node:
    x = call[0]
    x = x if x.type.dtype is DType.F64 else build.cast(x, DType.F32)
    return build.reshape(x, [1, -1]) if x.type.rank == 1 else x


def _product(x: Node, coefficients: Array) -> Node:
    """x (rows, features) by coefficients (results, features)."""
    return build.dot(x, build.constant(coefficients, x.type.dtype), ((1,), (1,)))


@operator("LinearRegressor", domain=ML)
def linear_regressor(call: OperatorCall) -> Node:
    """x times the coefficients, plus the intercepts, through post_transform."""
    x = _rows(call)
    predicted = _product(
        x, np.asarray(call.attr("coefficients")).reshape(call.attr("targets", 1), -1)
    )
    if call.attr("intercepts", None):
        predicted = build.add(
            predicted, build.constant(np.asarray(call.attr("intercepts")), x.type.dtype)
        )
    return build.cast(finished(call, predicted, call.attr("post_transform", "NONE")), DType.F32)


@operator("LinearClassifier", domain=ML)
def linear_classifier(call: OperatorCall) -> tuple[Node, Node]:
    """The label with the highest score, and the scores. A binary classifier with a single score
    gives the other class its negation.
    """
    x = _rows(call)
    labels = call.attr("classlabels_ints", None)
    classes = len(labels or call.attr("classlabels_strings", []))
    width = x.shape[1]
    assert isinstance(width, int)
    scores = _product(x, np.asarray(call.attr("coefficients")).reshape(-1, width))
    if call.attr("intercepts", None):
        scores = build.add(
            scores, build.constant(np.asarray(call.attr("intercepts")), x.type.dtype)
        )
    transform = call.attr("post_transform", "NONE")
    if scores.shape[1] == 1 and classes == 2:
        scores = build.concat([build.apply1("neg", scores), scores], 1)
    probabilities = finished(call, scores, transform)
    if probabilities.shape[1] == 1:
        hit = build.compare(
            build.reshape(probabilities, [-1]), "ge", 0.0 if transform == "NONE" else 0.5
        )
        chosen = build.cast(hit, DType.I64)
    else:
        chosen = build.apply1("argmax", probabilities, axis=1)
    return labelled(call, chosen, labels), build.cast(probabilities, DType.F32)


def _kernel(call: OperatorCall, x: Node, vectors: Array, kind: str) -> Node:
    """The kernel function of each row of x and each support vector: (rows, vectors)."""
    gamma, offset, degree = (*call.attr("kernel_params", []), 0.0, 0.0, 0.0)[:3]
    inner = _product(x, vectors)
    match kind:
        case "LINEAR":
            return inner
        case "POLY":
            return build.apply1(
                "pow", build.add(build.mul(inner, gamma), offset), float(int(degree))
            )
        case "SIGMOID":
            return build.apply1("tanh", build.add(build.mul(inner, gamma), offset))
        case "RBF":
            apart = build.sub(
                build.reshape(x, [x.shape[0], 1, x.shape[1]]), build.constant(vectors, x.type.dtype)
            )
            return build.exp(build.mul(build.reduce(build.mul(apart, apart), "add", 2), -gamma))
    call.fail(f"kernel_type '{kind}' is not one of LINEAR, POLY, RBF, SIGMOID")


@operator("SVMRegressor", domain=ML)
def svm_regressor(call: OperatorCall) -> Node:
    """The weighted sum of kernel values; with `one_class` only its sign."""
    x, count = _rows(call), call.attr("n_supports", 0)
    coefficients = np.asarray(call.attr("coefficients")).reshape(1, -1)
    if count:
        likeness = _kernel(
            call,
            x,
            np.asarray(call.attr("support_vectors")).reshape(count, -1),
            call.attr("kernel_type", "LINEAR"),
        )
        predicted = _product(likeness, coefficients)
    else:
        predicted = _product(x, coefficients)
    predicted = build.add(predicted, float(call.attr("rho")[0]))
    if call.attr("one_class", 0):
        predicted = build.select(
            build.compare(predicted, "gt", 0.0), build.like(1, predicted), build.like(-1, predicted)
        )
    return build.cast(finished(call, predicted, call.attr("post_transform", "NONE")), DType.F32)


@operator("SVMClassifier", domain=ML)
def svm_classifier(call: OperatorCall) -> tuple[Node, Node]:
    """One-versus-one machines, which vote, or (without support vectors) one machine for each
    class.
    """
    x = _rows(call)
    labels = call.attr("classlabels_ints", None)
    classes = max(1, len(labels or call.attr("classlabels_strings", [])))
    counts = call.attr("vectors_per_class", [])
    if call.attr("prob_a", None):
        call.fail(
            "probabilities of support vector machines are not supported",
            "export the model without probabilities",
        )
    transform = call.attr("post_transform", "NONE")
    rho = call.attr("rho")
    if not counts or not sum(counts):
        scores = build.add(
            _product(x, np.asarray(call.attr("coefficients")).reshape(classes, -1)), float(rho[0])
        )
        return labelled(call, build.apply1("argmax", scores, axis=1), labels), build.cast(
            finished(call, scores, transform), DType.F32
        )
    scores, votes = _duels(call, x, counts, rho)
    chosen = build.apply1("argmax", votes, axis=1)
    probabilities = (
        two(call, scores, transform, False) if classes == 2 else finished(call, scores, transform)
    )
    return labelled(call, chosen, labels), build.cast(probabilities, DType.F32)


def _duels(call: OperatorCall, x: Node, counts: list[int], rho: list[float]) -> tuple[Node, Node]:
    """The score of each pair of classes, (rows, pairs), and the votes for each class, (rows,
    classes).
    """
    total, classes = sum(counts), len(counts)
    likeness = _kernel(
        call,
        x,
        np.asarray(call.attr("support_vectors")).reshape(total, -1),
        call.attr("kernel_type", "LINEAR"),
    )
    coefficients = np.asarray(call.attr("coefficients")).reshape(classes - 1, total)
    first = np.cumsum([0, *counts])
    pairs = list(combinations(range(classes), 2))
    weights = np.zeros((len(pairs), total))
    for row, (i, j) in enumerate(pairs):
        weights[row, first[i] : first[i + 1]] = coefficients[j - 1, first[i] : first[i + 1]]
        weights[row, first[j] : first[j + 1]] = coefficients[i, first[j] : first[j + 1]]
    scores = build.add(
        _product(likeness, weights), build.constant(np.asarray(rho[: len(pairs)]), x.type.dtype)
    )
    won = build.cast(build.compare(scores, "gt", 0.0), x.type.dtype)
    sign = np.zeros((classes, len(pairs)))
    lost = np.zeros(classes)
    for row, (i, j) in enumerate(pairs):
        sign[i, row], sign[j, row] = 1, -1
        lost[j] += 1
    return scores, build.add(_product(won, sign), build.constant(lost, x.type.dtype))
