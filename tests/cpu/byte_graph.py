"""Graphs of operations on bytes whose results are known to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlac import driver
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.programs.program import Program
from xlac_sdk.target import Target

Array = np.ndarray[Any, Any]


class ByteGraph:
    """Operands with their values, and results with what each must be."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(3)
        self.given: dict[str, Array] = {}
        self.weights: dict[str, Array] = {}
        self.outputs: dict[str, Node] = {}
        self.exact: dict[str, Array] = {}

    def param(self, values: Array, weight: bool) -> Node:
        """An operand: a weight, or an input."""
        store = self.weights if weight else self.given
        name = f"{'w' if weight else 'x'}{len(store)}"
        store[name] = values
        kind = "weight" if weight else "input"
        return Node.of(Param(name, Type(DType.of(values.dtype), values.shape), kind))

    def add(self, node: Node, exact: Array) -> None:
        """A result, and what it must be."""
        name = f"y{len(self.outputs)}"
        self.outputs[name], self.exact[name] = node, exact

    def model(self) -> Model:
        """The graph with its weights."""
        nodes = Graph("g", (), self.outputs).nodes()
        inputs = tuple(n for n in nodes if isinstance(n.op, Param) and n.op.kind == "input")
        return Model(Graph("g", inputs, self.outputs), self.weights)

    def check(self, target: Target) -> Program:
        """Compiles and runs the graph for a target of this machine, and compares every result."""
        lowered = driver.lower(self.model(), target)
        found = driver.executable(lowered, find("cpu"))(**self.given)
        for name, exact in self.exact.items():
            np.testing.assert_array_equal(np.asarray(found[name]), exact, err_msg=name)
        return lowered.program
