"""Element-wise arithmetic (ONNX operator sets 1 to 26: Add, Sub, Mul, Div, …)."""

from __future__ import annotations

from xlac.frontends.onnx.call import Call
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ops import build

_BINARY = {"Add": "add", "Sub": "sub", "Mul": "mul"}
"""Operators of two inputs that broadcast as in NumPy since operator set 7."""


def _register(name: str, mnemonic: str) -> None:
    @operator(name, since=7)
    def binary(call: Call) -> Node:
        return build.apply1(mnemonic, call[0], call[1])


for _name, _mnemonic in _BINARY.items():
    _register(_name, _mnemonic)
