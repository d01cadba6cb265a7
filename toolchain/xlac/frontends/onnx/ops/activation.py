"""Activations (Relu, …)."""

from __future__ import annotations

from xlac.frontends.onnx.call import Call
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ops import build


@operator("Relu", since=6)
def relu(call: Call) -> Node:
    return build.apply1("relu", call[0])
