"""Constant folding on sizes while a model is imported: evaluates nodes that compute shapes, axes
and other small values.

Exporters write shapes as arithmetic on tensors. Here that arithmetic is evaluated, also where sizes
are symbolic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim, Sym, bounds
from xlac.ir.graph import Node
from xlac.ir.interpret import evaluate
from xlac.ir.op import Array, Op
from xlac.ops.control.control import Pick
from xlac.ops.tensor.dynamic import DimSize
from xlac.ops.tensor.leaf import Const, Param

LIMIT = 1 << 20  # the most elements of a value that is evaluated


class NeedsValue(Exception):
    """A size depends on the values of these inputs, which are unknown before the model is
    called.
    """

    def __init__(self, *inputs: str) -> None:
        super().__init__(", ".join(inputs))
        self.inputs = frozenset(inputs)


class DataDependent(Exception):
    """A size depends on values that the model computes."""


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
            return np.asarray(SYMBOLIC[op.mnemonic](op, *arrays), object)
        if isinstance(op, Composite):
            expanded = op.expand(*node.inputs)
            if isinstance(expanded, Node):
                return self.array(expanded)
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


def _quotient(op: Op, x: Array, y: Array) -> Any:
    if any(isinstance(v, Sym) and bounds(v)[0] < 0 for v in x.flat):
        raise DataDependent("the quotient of a size that may be negative")
    return x // y


def _compared(op: Any, x: Array, y: Array) -> Any:
    return np.frompyfunc(lambda a, b: _holds(a, op.direction, b), 2, 1)(x, y)


def _holds(a: Any, direction: str, b: Any) -> bool:
    """Whether a relation between two sizes holds for all values of their symbols."""
    low, high = bounds(a - b)
    match direction:
        case "eq" | "ne" if low == high == 0 or low > 0 or high < 0:
            return (low == high == 0) == (direction == "eq")
        case "lt" | "ge" if high < 0 or low >= 0:
            return (high < 0) == (direction == "lt")
        case "le" | "gt" if high <= 0 or low > 0:
            return (high <= 0) == (direction == "le")
    raise DataDependent(f"whether {a} {direction} {b}")


def _extreme(direction: str) -> Callable[..., Any]:
    def chosen(op: Op, x: Array, y: Array) -> Any:
        return np.frompyfunc(lambda a, b: a if _holds(a, direction, b) else b, 2, 1)(x, y)

    return chosen


def _selected(op: Op, test: Array, x: Array, y: Array) -> Any:
    return np.where(test.astype(bool), x, y)


def _gathered(op: Op, x: Array, indices: Array) -> Any:
    """Gathers symbolic elements by gathering their positions."""
    if indices.dtype == object:
        raise DataDependent("an index that is a symbolic size")
    return x.reshape(-1)[op.evaluate(np.arange(x.size).reshape(x.shape), indices)]


def _reduced(op: Any, x: Array) -> Any:
    if op.body is not None or op.combine not in ("add", "mul"):
        raise DataDependent(f"a reduction by {op.combine or 'a body'} of symbolic sizes")
    combine = np.add if op.combine == "add" else np.multiply
    return combine.reduce(x, axis=op.axes, dtype=object)


def _sliced(op: Any, x: Array) -> Any:
    cuts = zip(op.starts, op.stops, op.steps, strict=True)
    return x[tuple(slice(a, None if k < 0 and b == -1 else b, k) for a, b, k in cuts)]


def _spread(op: Any, x: Array) -> Any:
    shape = [1] * len(op.shape)
    for axis, size in zip(op.axes, x.shape, strict=True):
        shape[axis] = size
    return np.broadcast_to(x.reshape(shape), op.shape)


def _same(op: Op, x: Array) -> Array:
    return x


SYMBOLIC: dict[str, Callable[..., Any]] = {
    "cast": _same,
    "add": lambda op, x, y: x + y,
    "sub": lambda op, x, y: x - y,
    "mul": lambda op, x, y: x * y,
    "div": _quotient,
    "reshape": lambda op, x: x.reshape(op.shape),
    "transpose": lambda op, x: x.transpose(op.perm),
    "broadcast": _spread,
    "slice": _sliced,
    "reduce": _reduced,
    "max": _extreme("ge"),
    "min": _extreme("le"),
    "compare": _compared,
    "select": _selected,
    "gather": _gathered,
    "concat": lambda op, *xs: np.concatenate([x.astype(object) for x in xs], op.axis),
}
"""Operations that are defined on arrays of symbolic sizes; all others need plain numbers."""
