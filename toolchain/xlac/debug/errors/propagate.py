"""Propagates the documented error bounds of all operations through a graph, beside the exact
values.

This is running error analysis with interval enclosures: each operation's own bound, at its
operands' magnitudes, and the effect of its operands' errors. Where nothing is known (an index with
an error, a branch that may go either way) the error is infinite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xlac.debug.errors import sums
from xlac.debug.errors.approximation import Approximation, exact, settled, ulp
from xlac.debug.errors.elementwise import SCALAR, spread
from xlac.debug.errors.structural import MOVED, combined, moved, sorted_values, unknown
from xlac.debug.errors.sums import Promise
from xlac.ir.composite import Composite
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import evaluate
from xlac.ir.op import Array, attributes
from xlac.ops.control.control import Call, Cond, Pick, Scan, While
from xlac.ops.error_bounds import FAST_FUNCTION, FUNCTIONS, SUM_OF
from xlac.ops.tensor.leaf import Const, Param
from xlac.ops.transforms.fft import Transform
from xlac_sdk.dtypes import DType

Values = tuple[Approximation, ...]
LONGEST = 4096  # iterations of a loop that are followed at most


def outputs_of(
    graph: Graph,
    inputs: Mapping[str, Array],
    weights: Mapping[str, Array] | None = None,
    promise: Promise | None = None,
) -> dict[str, Approximation]:
    """The exact values of a graph's outputs and their error bounds. Inputs and weights are exact.
    Raises KeyError for a parameter without a value.
    """
    given: dict[Node, Values] = {}
    for node in graph.nodes():
        if isinstance(node.op, Param):
            source = (weights or {}) if node.op.kind == "weight" else inputs
            given[node] = (Approximation(_wide(np.asarray(source[node.op.name]))),)
    return dict(zip(graph.outputs, propagate(graph, given, promise or Promise()), strict=True))


def propagate(graph: Graph, given: Mapping[Node, Values], promise: Promise) -> list[Approximation]:
    """The outputs of a graph in order, given the values of its parameters; values are dropped after
    their last use.
    """
    order = list(graph.nodes())
    outputs = list(graph.outputs.values())
    left: dict[Node, int] = {}
    for node in (*(i for n in order for i in n.inputs), *outputs):
        left[node] = left.get(node, 0) + 1
    values: dict[Node, Values] = {}
    for node in order:
        values[node] = (
            given[node]
            if node in given
            else of_node(node, [values[i] for i in node.inputs], promise)
        )
        for i in node.inputs:
            left[i] -= 1
            if not left[i]:
                del values[i]
    return [values[node][0] for node in outputs]


def of_node(node: Node, inputs: Sequence[Values], promise: Promise) -> Values:
    """All results of one node, given all results of each of its inputs."""
    if isinstance(node.op, Pick):
        return (inputs[0][node.op.index],)
    operands = [results[0] for results in inputs]
    followed = _entered(node, operands, promise)
    if followed is not None:
        return followed
    values = evaluate(node, [(x.value,) for x in operands], float64=True)
    errors = _errors(node, operands, values, promise)
    certain = exact(operands)
    types = [t.dtype for t in node.results]
    ranges = []
    for value, error, dtype in zip(values, errors, types, strict=True):
        error = _rounded(node, value, error, dtype, promise)
        ranges.append(settled(value, error, dtype, certain))
    if types[0].is_float:
        ranges[0] = replace(ranges[0], overflowed=_overflowed(node, operands, ranges[0]))
    return tuple(ranges)


def _overflowed(
    node: Node, operands: Sequence[Approximation], result: Approximation
) -> Array | None:
    """The products of finite numbers that are infinite, or where they are after they were moved or
    negated.
    """
    if node.op.mnemonic == "mul":
        marked = np.isinf(result.value)
        if marked.any():
            marked &= np.isfinite(operands[0].value) & np.isfinite(operands[1].value)
        return marked if marked.any() else None
    if all(x.overflowed is None for x in operands):
        return None
    if node.op.mnemonic == "neg":
        return operands[0].overflowed
    if node.op.mnemonic not in MOVED:
        return None
    places = [replace(x, error=_as_error(x.overflowed)) for x in operands]
    error = moved(node, places)
    return None if error is None else error > 0


def _as_error(marked: Array | None) -> Array | None:
    return None if marked is None else marked.astype(np.float64)


def _errors(
    node: Node, operands: Sequence[Approximation], values: Sequence[Array], promise: Promise
) -> tuple[Array | None, ...]:
    """The errors of the results before rounding to their types."""
    op, value = node.op, values[0]
    name = op.mnemonic
    if isinstance(op, Const | Param) or not operands:
        return (None,) * len(values)
    if name in SCALAR:
        return (_fused(node, operands, spread(node, operands, value)),)
    if name in MOVED:
        return (moved(node, operands),)
    if name in ("dot", "conv"):
        return (sums.multiplied(node, operands, promise),)
    if name == "sort":
        return sorted_values(node, operands, values)
    if name in ("reduce", "window", "cumulative", "scatter") and len(values) == 1:
        at = (0, 2) if name == "scatter" else (0,)
        combine = attributes(op)["combine"]
        if name == "scatter" and not exact([operands[1]]):
            return unknown(node, operands, values)
        if combine == "add":
            return (sums.added(node, operands, promise, at),)
        if combine == "assign":
            arrays = [operands[0].bound, operands[1].value, operands[2].bound]
            return (None if exact(operands) else np.asarray(op.evaluate(*arrays)),)
        if combine != "body":
            return (combined(node, operands, value, at),)
    return unknown(node, operands, values)


def _fused(node: Node, operands: Sequence[Approximation], error: Array | None) -> Array | None:
    """The error of a scalar operation: anything where it adds a product that may not overflow, as
    it may be computed together with the sum.
    """
    if node.op.mnemonic not in ("add", "sub"):
        return error
    for x in operands:
        if x.overflowed is not None:
            error = np.where(x.overflowed, np.nan, 0.0 if error is None else error)
    return error


def _rounded(
    node: Node, value: Array, error: Array | None, dtype: DType, promise: Promise
) -> Array | None:
    """The error, with the operation's own rounding added."""
    if not dtype.is_float:
        return error
    name = node.op.mnemonic
    bound = FUNCTIONS.get(name)
    if bound is not None:
        units = bound.of(dtype)
        if promise.fast:
            units = max(units, FAST_FUNCTION)
        if name == "cast" and not _narrows(node):
            return error
    elif name in SUM_OF and attributes(node.op).get("combine", "add") in ("add", "mul"):
        # the bound of a sum includes its last rounding in f32
        units = 0.5 if dtype.is_half else 0.0
    else:
        return error
    if dtype is DType.F64:
        units *= 2  # the float64 reference is rounded as well
    with np.errstate(all="ignore"):
        size = np.abs(value) if error is None else np.abs(value) + error
        own = np.where(np.isfinite(size), units * ulp(size, dtype), 0.0)
    own = np.where(value == 0, np.where(size == 0, 0.0, own), own)
    return own if error is None else error + own


def _narrows(node: Node) -> bool:
    """Whether a conversion may round."""
    source, target = node.inputs[0].type.dtype, node.type.dtype
    if source is DType.BOOL or source is target:
        return False
    if source.is_float:
        return not (source.bits < target.bits)
    return True


# ---- bodies --------------------------------------------------------------------------------------


def _entered(node: Node, operands: Sequence[Approximation], promise: Promise) -> Values | None:
    """The results of an operation with a body, or of a composite by its expansion; None where they
    cannot be followed.
    """
    op = node.op
    if isinstance(op, Composite) and op.mnemonic not in SCALAR:
        params = tuple(Node.of(Param(f"x{n}", i.type)) for n, i in enumerate(node.inputs))
        results = {str(n): r for n, r in enumerate(op.expanded(*params))}
        graph = Graph(op.mnemonic, params, results)
        values = run(graph, operands, promise)
        if isinstance(op, Transform):
            lost = op.undefined(*(x.value for x in operands))
            if lost.any():
                return tuple(replace(x, error=np.where(lost, np.inf, x.bound)) for x in values)
        return tuple(values)
    match op:
        case Call(body=Graph() as body):
            return tuple(run(body, operands, promise))
        case Cond(branches=branches) if operands[0].error is None:
            index = int(operands[0].value)
            chosen = branches[index if 0 <= index < len(branches) else -1]
            return tuple(run(chosen, operands[1:], promise))
        case Scan(body=Graph(), length=int() as length) if 0 < length <= LONGEST:
            return _scanned(op, operands, promise)
        case While(cond=Graph() as cond, body=Graph() as body):
            return _looped(cond, body, operands, promise)
    return None


def run(body: Graph, operands: Sequence[Approximation], promise: Promise) -> list[Approximation]:
    """The results of a closed graph in order."""
    given = {p: (x,) for p, x in zip(body.inputs, operands, strict=True)}
    return propagate(body, given, promise)


def _scanned(op: Scan, operands: Sequence[Approximation], promise: Promise) -> Values:
    body: Any = op.body
    first, xs, rest = op.parts(operands)
    carry, rows = list(first), []
    assert isinstance(op.length, int)
    steps = range(op.length)
    for step in reversed(steps) if op.reverse else steps:
        results = run(body, [*carry, *(_slice(x, step) for x in xs), *rest], promise)
        carry = results[: op.carries]
        rows.append(results[op.carries :])
    ordered = rows[::-1] if op.reverse else rows
    return (*carry, *(_stacked(column) for column in zip(*ordered, strict=True)))


def _slice(x: Approximation, step: int) -> Approximation:
    error = None if x.error is None else x.error[step]
    return Approximation(np.asarray(x.value[step]), None if error is None else np.asarray(error))


def _stacked(column: Sequence[Approximation]) -> Approximation:
    error = None if exact(column) else np.stack([x.bound for x in column])
    return Approximation(np.stack([x.value for x in column]), error)


def _looped(
    cond: Graph, body: Graph, operands: Sequence[Approximation], promise: Promise
) -> Values | None:
    """A loop, followed while its condition is exact; None where that has an error, or the loop is
    too long.
    """
    carry = list(operands)
    for _ in range(LONGEST):
        (more,) = run(cond, carry, promise)
        if more.error is not None:
            return None
        if not bool(more.value):
            return tuple(carry)
        carry = run(body, carry, promise)
    return None


def _wide(array: Array) -> Array:
    floats = array.dtype.kind == "f" or array.dtype.name == "bfloat16"
    return array.astype(np.float64, copy=False) if floats else array
