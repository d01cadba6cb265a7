"""Dropout: x as it is, or in training with elements left out by chance."""

from __future__ import annotations

from xlac.frontends.onnx.call import Call
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType


@operator("Dropout", since=7, elementwise=True)
def dropout_7(call: Call) -> tuple[Node, Node]:
    """Operator set 7: inference; the mask has x's type."""
    return call[0], build.like(1, call[0])


@operator("Dropout", since=10, elementwise=True)
def dropout_10(call: Call) -> tuple[Node, Node]:
    """Operator set 10: inference; the mask is bool."""
    return call[0], build.full(True, call[0].shape, DType.BOOL)
