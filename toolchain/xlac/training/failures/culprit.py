"""Finds the operation of a step that produced the first non-finite number that reaches its loss or
gradients, by evaluating the step in NumPy. Numbers that a `where` discards do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from xlac.driver import specialized
from xlac.ir.dims import size_hint
from xlac.ir.graph import Node
from xlac.ir.interpret import evaluate
from xlac.ir.op import Array
from xlac.model import Model
from xlac.ops.control.control import Pick
from xlac.ops.scalar.comparison import Select
from xlac.ops.scalar.convert import Cast
from xlac.ops.scalar.logic import Where
from xlac.ops.scalar.primitive import Scalar
from xlac.ops.tensor.leaf import Const, Param, param
from xlac.ops.tensor.view import Broadcast, Reshape
from xlac.training.entries import TrainingEntry
from xlac.training.step import FINITE
from xlac_sdk.host.array_values import as_array
from xlac_sdk.source import Diagnostic

MOST_BYTES = 1 << 28
"""The most bytes of all values of a step that is evaluated: larger ones take minutes in NumPy."""
Values = dict[Node, tuple[Array, ...]]


def culprit(
    model: Model, state: Mapping[str, Array], arrays: Mapping[str, Any]
) -> Diagnostic | None:
    """The operation that made the loss or the gradients of a step not finite: its place and
    position. None where NumPy finds them finite, or the step is too large to evaluate.
    """
    entry = TrainingEntry.of(model)
    given = {n: as_array(arrays[n], None, n) for n in entry.inputs}
    model = specialized(model, entry.sizes(given))
    outputs = model.graph.outputs
    if FINITE not in outputs or _bytes(model) > MOST_BYTES:
        return None
    values: Values = {}
    with np.errstate(all="ignore"):
        for node in model.graph.order:
            if isinstance(node.op, Param):
                values[node] = (_parameter(node, model, state, given),)
            else:
                values[node] = evaluate(node, [values[i] for i in node.inputs], False)
    for start in _looked_at(outputs[FINITE]):
        if (wrong := _wrong(values[start][0])).any():
            return _diagnostic(*_origin(start, wrong, values), values)
    return None


def _bytes(model: Model) -> int:
    """The bytes of all values of a graph without open sizes."""
    return sum(type.nbytes for node in model.graph.order for type in node.results)


def _parameter(
    node: Node, model: Model, state: Mapping[str, Array], given: Mapping[str, Array]
) -> Array:
    """The value of a parameter; zeros for a transient state tensor."""
    name, type = param(node).name, node.type
    if param(node).kind == "weight":
        return np.asarray(model.weights[name])
    if param(node).kind == "input":
        return given[name].astype(type.dtype.numpy, copy=False)
    sizes = tuple(map(size_hint, type.shape))
    return np.asarray(state.get(name, np.zeros(sizes, type.dtype.numpy)))


def _looked_at(flag: Node) -> Iterator[Node]:
    """The values that a flag asserts to be finite, the loss first."""
    stack, seen = [flag], {flag}
    while stack:
        node = stack.pop()
        if node.type.dtype.is_float:
            if not _is_constant(node):
                yield node
            continue
        new = [i for i in node.inputs if len(i.results) == 1 and i not in seen]
        seen.update(new)
        stack += reversed(new)


def _is_constant(node: Node) -> bool:
    """Whether a value is a constant, in any shape and type."""
    while isinstance(node.op, Broadcast | Reshape | Cast):
        node = node.inputs[0]
    return isinstance(node.op, Const)


def _wrong(array: Array) -> Array:
    """Which elements are not finite."""
    if array.dtype.kind not in "fV":
        return np.zeros(array.shape, bool)
    not_finite: Array = ~np.isfinite(array.astype(np.float64))
    return not_finite


def _origin(node: Node, wrong: Array, values: Values) -> tuple[Node, Array]:
    """The operation that the marked elements of a result come from: the elements of its own
    operands that determine these are finite.
    """
    while True:
        following = _operand(node, wrong, values)
        if following is None:
            return node, wrong
        node, wrong = following


def is_choice(node: Node) -> bool:
    """Whether a node takes each number from one of two operands."""
    return isinstance(node.op, Select | Where)


def _operand(node: Node, wrong: Array, values: Values) -> tuple[Node, Array] | None:
    """An operand whose non-finite elements cause the marked ones, and which these are."""
    if is_choice(node):
        chosen = np.broadcast_to(values[node.inputs[0]][0], wrong.shape)
        for branch, here in ((node.inputs[1], chosen), (node.inputs[2], ~chosen)):
            marked = np.broadcast_to(_wrong(values[branch][0]), wrong.shape) & here & wrong
            if marked.any():
                same = branch.shape == node.shape
                return branch, marked if same else _wrong(values[branch][0])
        return None
    for operand in node.inputs:
        if _is_constant(operand):  # a literal infinity, such as that of a mask
            continue
        for result in values[operand]:
            marked = _wrong(result)
            if isinstance(node.op, Scalar) and marked.shape == wrong.shape:
                marked = marked & wrong
            if marked.any():
                return operand, marked
    return None


def _diagnostic(node: Node, wrong: Array, values: Values) -> Diagnostic:
    """Names the operation, its line, and the first wrong element."""
    while isinstance(node.op, Pick):
        node = node.inputs[0]
    result = next(r for r in values[node] if _wrong(r).any())
    marked = wrong if wrong.shape == result.shape else _wrong(result)
    at = tuple(int(n) for n in np.argwhere(marked)[0])
    nan = bool(np.isnan(result[at].astype(np.float64)))
    kind, code = ("NaN", "XL6022") if nan else ("infinity", "XL6023")
    where = f" at {list(at)}" if at else ""
    message = f"{kind} appears in the result of {node.op.mnemonic}, and no operand holds any{where}"
    problem = f"{node.name!r}: {message}" if node.name else message
    return Diagnostic(code, problem, node.origin.span if node.origin else None)
