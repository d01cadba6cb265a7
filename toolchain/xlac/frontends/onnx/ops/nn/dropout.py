"""Dropout: the identity, or in training elements dropped at random."""

from __future__ import annotations

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.ops.math.random import uniform
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType


@operator("Dropout", since=7, elementwise=True)
def dropout_7(call: OperatorCall) -> tuple[Node, Node]:
    """Operator set 7: inference; the mask has x's type."""
    return call[0], build.like(1, call[0])


@operator("Dropout", since=10, elementwise=True)
def dropout_10(call: OperatorCall) -> tuple[Node, Node]:
    """Operator set 10: inference; the mask is bool."""
    return call[0], build.full(True, call[0].shape, DType.BOOL)


@operator("Dropout", since=12)
def dropout(call: OperatorCall) -> tuple[Node, Node]:
    """Since operator set 12 ratio and mode are inputs: in training, elements are dropped at random
    and the rest scaled.
    """
    x = call[0]
    training = call.knows(2)
    if call.get(2) is None or (training is not None and not training.reshape(-1)[0]):
        return x, build.full(True, x.shape, DType.BOOL)
    ratio = build.constant(0.5) if call.get(1) is None else build.reshape(call[1], [])
    kept = build.compare(uniform(call, x.shape), "ge", build.cast(ratio, DType.F64))
    mask = build.apply1("or", kept, build.apply1("logical_not", build.reshape(call[2], [])))
    scaled = build.div(
        build.compute(x), build.sub(1.0, build.cast(ratio, build.compute(x).type.dtype))
    )
    kept_elements = build.select(
        build.reshape(call[2], []),
        build.mul(scaled, build.cast(mask, scaled.type.dtype)),
        build.compute(x),
    )
    return build.cast(kept_elements, x.type.dtype), mask
