"""Runs graphs in NumPy: the living definition of what a graph means.

With `float64=True` every float is held and computed in float64 whatever the types say, so that a
result shows what a model means apart from rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array, Op, attributes
from xlac.ir.types import Type
from xlac_sdk.dtypes import DType


def interpret(
    graph: Graph,
    inputs: Mapping[str, Array],
    weights: Mapping[str, Array] | None = None,
    float64: bool = False,
) -> dict[str, Array]:
    """The outputs of a graph by name. `inputs` has inputs and states by name, `weights` the
    weights.

    Raises KeyError for a parameter without a value, and ValueError for a value of another shape or
    type.
    """
    given: dict[Node, Array] = {}
    for node in graph.nodes():
        if node.op.mnemonic == "param":
            about = attributes(node.op)
            source = (weights or {}) if about["kind"] == "weight" else inputs
            given[node] = _fitted(node, about["name"], np.asarray(source[about["name"]]))
    return dict(zip(graph.outputs, _run(graph, given, float64), strict=True))


def run_body(body: Graph, arrays: Sequence[Array]) -> list[Array]:
    """The results of a closed graph in order. Computes in float64 where given float64 for other
    float types.
    """
    given = dict(zip(body.inputs, (np.asarray(a) for a in arrays), strict=True))
    return _run(body, given, any(_wider(node.type, array) for node, array in given.items()))


def _fitted(node: Node, name: str, array: Array) -> Array:
    wanted = node.type
    if array.shape != wanted.shape or array.dtype != wanted.dtype.numpy:
        raise ValueError(f"parameter {name!r} is {wanted}, got {array.dtype}{list(array.shape)}")
    return array


def _wider(wanted: Type, array: Array) -> bool:
    return array.dtype == np.float64 and wanted.dtype.is_float and wanted.dtype.bits < 64


def _run(graph: Graph, given: Mapping[Node, Array], float64: bool) -> list[Array]:
    """The outputs in order; values are dropped after their last use."""
    order = list(graph.nodes())
    outputs = list(graph.outputs.values())
    left: dict[Node, int] = {}
    for node in (*(i for n in order for i in n.inputs), *outputs):
        left[node] = left.get(node, 0) + 1
    values: dict[Node, tuple[Array, ...]] = {}
    for node in order:
        if node in given:
            values[node] = (widened(given[node], float64),)
        else:
            values[node] = evaluate(node, [values[i] for i in node.inputs], float64)
        for i in node.inputs:
            left[i] -= 1
            if not left[i]:
                del values[i]
    return [values[node][0] for node in outputs]


def evaluate(
    node: Node, inputs: Sequence[tuple[Array, ...]], float64: bool = False
) -> tuple[Array, ...]:
    """The results of one node, given all results of each of its inputs."""
    if node.op.mnemonic == "pick":
        return (inputs[0][attributes(node.op)["index"]],)
    arrays = [results[0] for results in inputs]
    with np.errstate(all="ignore"):
        returned = _op(node, float64).evaluate(*_down(node, arrays, float64))
    results = returned if isinstance(returned, tuple) else (returned,)
    return tuple(widened(a, float64) for a in results)


def _op(node: Node, float64: bool) -> Op:
    """The operation to evaluate: in float64, conversions between float types keep all digits."""
    if float64 and node.op.mnemonic == "cast" and attributes(node.op)["dtype"].is_float:
        wide: Op = replace(node.op, dtype=DType.F64)  # type: ignore[call-arg]
        return wide
    return node.op


def _down(node: Node, arrays: Sequence[Array], float64: bool) -> Sequence[Array]:
    """Casts to the declared type even in float64 where the operation reads bits."""
    if float64 and node.op.mnemonic == "bitcast":
        with np.errstate(all="ignore"):
            return [a.astype(i.type.dtype.numpy) for a, i in zip(arrays, node.inputs, strict=True)]
    return arrays


def widened(array: Array, float64: bool) -> Array:
    """An array as it is, or a float one in float64."""
    array = np.asarray(array)
    if float64 and (array.dtype.kind == "f" or array.dtype.name == "bfloat16"):
        return array.astype(np.float64, copy=False)
    return array
