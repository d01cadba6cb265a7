"""Constant folding on sizes while a model is imported: evaluates nodes that compute shapes, axes
and other small values.

Exporters write shapes as arithmetic on tensors. Here that arithmetic is evaluated, also where sizes
are symbolic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from xlac.frontends.symbolic_values import OF_UNDECIDED, SYMBOLIC, DataDependent, decided
from xlac.ir.composite import Composite
from xlac.ir.dims import Dim, Sym
from xlac.ir.graph import Node
from xlac.ir.interpret import evaluate
from xlac.ir.op import Array
from xlac.ops.control.control import Pick
from xlac.ops.tensor.dynamic import DimSize
from xlac.ops.tensor.leaf import Const, Param

__all__ = ["DataDependent", "Known", "NeedsValue", "volume"]

LIMIT = 1 << 20  # the most elements of a value that is evaluated


class NeedsValue(Exception):
    """A size depends on the values of these inputs, which are unknown before the model is
    called.
    """

    def __init__(self, *inputs: str) -> None:
        super().__init__(", ".join(inputs))
        self.inputs = frozenset(inputs)


class Known:
    """Evaluates nodes whose values follow from constants and sizes, and caches the results."""

    def __init__(self, weights: Mapping[str, Array]) -> None:
        self._weights = weights
        self._found: dict[Node, Array] = {}
        # a body's parameter -> the value outside that it has in every step; None if steps differ
        self.outside: dict[Node, Node | None] = {}

    def array(self, node: Node) -> Array:
        """The value of a node: an array of its dtype, or of objects (ints and Syms) when sizes in
        it are symbolic.

        Raises NeedsValue with the model's inputs that decide it, or DataDependent.
        """
        found = self._resolved(node)
        decided(found)
        return found

    def _resolved(self, node: Node) -> Array:
        """The same, but elements may be undecided."""
        stack = [node]
        while stack:
            at = stack[-1]
            if at in self._found:
                stack.pop()
                continue
            waiting = [i for i in self._operands(at) if i not in self._found]
            if waiting:
                stack += waiting
                continue
            self._found[at] = self._evaluate(at)
            stack.pop()
        return self._found[node]

    def constant(self, node: Node) -> Array | None:
        """The value of a node if it is known and free of symbols, else None."""
        try:
            array = self.array(node)
        except (NeedsValue, DataDependent):
            return None
        return None if array.dtype == object else array

    def dims(self, node: Node) -> tuple[Dim, ...]:
        """The value of a rank-0 or rank-1 integer node as sizes."""
        array = self.array(node)
        return tuple(v if isinstance(v, Sym) else int(v) for v in array.reshape(-1).tolist())

    def _evaluate(self, node: Node) -> Array:
        op = node.op
        if isinstance(op, Const):
            return op.value
        if isinstance(op, Param):
            return self._parameter(node, op)
        if isinstance(op, DimSize):
            return _exact(node.inputs[0].shape[op.axis])
        if any(volume(t.shape, LIMIT) > LIMIT for t in node.results):
            raise DataDependent(
                f"{op.mnemonic} of {node.type}, which is too large to be evaluated at import"
            )
        if isinstance(op, Pick):
            arrays = [self._found[i] for i in node.inputs[0].inputs]
            return evaluate(node.inputs[0], [(a,) for a in arrays])[op.index]
        arrays = [self._found[i] for i in node.inputs]
        if not any(a.dtype == object for a in arrays):
            return evaluate(node, [(a,) for a in arrays])[0]
        if op.mnemonic in SYMBOLIC:
            if op.mnemonic not in OF_UNDECIDED:
                decided(*arrays)
            return np.asarray(SYMBOLIC[op.mnemonic](op, *arrays), object)
        if isinstance(op, Composite):
            expanded = op.expand(*node.inputs)
            if isinstance(expanded, Node):
                return self._resolved(expanded)
        raise DataDependent(f"{op.mnemonic} of symbolic sizes")

    def _parameter(self, node: Node, op: Param) -> Array:
        if node in self.outside:
            actual = self.outside[node]
            if actual is None:
                raise DataDependent("it differs from one step of a loop to the next")
            return self._found[actual]
        if op.kind == "weight":
            return self._weights[op.name]
        raise NeedsValue(op.name)

    def _operands(self, node: Node) -> tuple[Node, ...]:
        """The nodes whose values are needed to evaluate a node: none for a size; for one result of
        a node with several, all of its operands.
        """
        if isinstance(node.op, DimSize):
            return ()
        actual = self.outside.get(node)
        if actual is not None:
            return (actual,)
        return node.inputs[0].inputs if isinstance(node.op, Pick) else node.inputs


def volume(shape: tuple[Dim, ...], unknown: int) -> int:
    """The number of elements; `unknown` + 1 where a size is symbolic."""
    return math.prod(size if isinstance(size, int) else unknown + 1 for size in shape)


def _exact(size: Dim) -> Array:
    array = np.empty((), np.int32 if isinstance(size, int) else object)
    array[()] = size
    return array
