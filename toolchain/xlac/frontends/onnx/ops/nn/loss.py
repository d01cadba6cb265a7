"""Losses of classification: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss (operator sets 12
to 22).
"""

from __future__ import annotations

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType


def negative_log_likelihood(
    call: OperatorCall, logs: Node, target: Node, weight: Node | None
) -> Node:
    """The loss of log-probabilities (batch, classes, …) for target classes (batch, …), reduced as
    asked.

    Elements whose target is `ignore_index` have no weight; the mean is over the sum of weights.
    """
    reduction, ignored = call.attr("reduction", "mean"), call.attr("ignore_index", None)
    if reduction not in ("none", "sum", "mean"):
        call.fail(f"reduction is none, sum or mean, not '{reduction}'")
    wide = build.compute(logs)
    places = build.cast(target, DType.I64)
    kept = None if ignored is None else build.compare(places, "ne", ignored)
    if kept is not None:  # an ignored target may be out of range
        places = build.select(kept, places, 0)
    column = build.reshape(places, (places.shape[0], 1, *places.shape[1:]))
    likelihoods = build.reshape(build.apply1("take_along_axis", wide, column, axis=1), places.shape)
    loss = build.mul(likelihoods, -1.0)
    share: Node | None = None
    if weight is not None:
        share = build.take(build.cast(weight, wide.type.dtype), places, 0)
    if kept is not None:
        share = build.select(kept, build.like(1.0, loss) if share is None else share, 0.0)
        loss = build.select(kept, loss, 0.0)
    if share is not None:
        loss = build.mul(loss, share)
    if reduction == "sum":
        loss = build.reduce(loss, "add")
    elif reduction == "mean" and share is not None:
        loss = build.div(build.reduce(loss, "add"), build.reduce(share, "add"))
    elif reduction == "mean":
        loss = build.apply1("mean", loss)
    return build.cast(loss, logs.type.dtype)


@operator("NegativeLogLikelihoodLoss", since=12)
def negative_log_likelihood_loss(call: OperatorCall) -> Node:
    """Operator sets 12, 13 and 22."""
    return negative_log_likelihood(call, call[0], call[1], call.get(2))


@operator("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy_loss(call: OperatorCall) -> tuple[Node, Node]:
    """Operator sets 12 and 13: the loss, and the logarithms of the softmax over axis 1."""
    logs = build.apply1("log_softmax", call[0], axis=1)
    return negative_log_likelihood(call, logs, call[1], call.get(2)), logs
