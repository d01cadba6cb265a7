"""The exact results of a model, in float64: of the user's graph, and of the lowered graph node by
node.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from xlac.debug.errors.approximation import Approximation, ulp
from xlac.debug.verify.nodes import handed
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import evaluate, interpret
from xlac.ir.op import Array
from xlac.ops.tensor.leaf import Param
from xlac.ops.transforms.fft import UNDEFINED
from xlac_sdk.dtypes import DType

ROOM = 64.0
"""The tolerance for an output of a whole model, as a multiple of the interpreter's largest error in
the model's own types. Beyond it, the errors of the nodes must explain the output.
"""


def estimated(
    graph: Graph, inputs: Mapping[str, Array], weights: Mapping[str, Array]
) -> dict[str, Approximation]:
    """The outputs in float64, with an estimate of the rounding error. For deep models worst-case
    bounds are useless, so the error of interpreting the model in its own types is the measure.
    Results that are not defined are NaN in one and 0 in the other, and so may be anything.
    """
    exact = interpret(graph, inputs, weights, float64=True)
    token = UNDEFINED.set(0.0)
    try:
        own = interpret(graph, inputs, weights)
    finally:
        UNDEFINED.reset(token)
    rounded = {}
    for name, value in exact.items():
        dtype = DType.of(own[name].dtype)
        rounded[name] = Approximation(value, _room(value, own[name], dtype))
    return rounded


def _room(value: Array, own: Array, dtype: DType) -> Array | None:
    if not dtype.is_float or not value.size:
        changed = bool((value != own).any())
        return np.full(value.shape, np.inf) if changed else None
    wide = own.astype(np.float64)
    with np.errstate(all="ignore"):
        apart = np.abs(wide - value)
        finite = np.isfinite(value) & np.isfinite(wide)
        largest = float(np.where(finite, apart, 0.0).max())
        scale = float(np.where(np.isfinite(value), np.abs(value), 0.0).max())
        same = (value == wide) | (np.isnan(value) & np.isnan(wide))
    room = np.full(value.shape, ROOM * largest + 8 * float(ulp(np.asarray(scale), dtype)))
    return np.where(finite | same, room, np.inf)


def chain(
    graph: Graph, inputs: Mapping[str, Array], weights: Mapping[str, Array], kept: Collection[Node]
) -> tuple[dict[str, Array], dict[Node, Array]]:
    """The outputs of a lowered graph in float64, and the values of the nodes in `kept`."""
    order = list(graph.nodes())
    outputs = list(graph.outputs.values())
    left: dict[Node, int] = {}
    for node in (*(i for n in order for i in n.inputs), *outputs, *kept):
        left[node] = left.get(node, 0) + 1
    values: dict[Node, tuple[Array, ...]] = {}
    for node in order:
        if isinstance(node.op, Param):
            source = weights if node.op.kind == "weight" else inputs
            array = np.asarray(source[node.op.name])
            values[node] = (array.astype(np.float64) if node.type.dtype.is_float else array,)
        else:
            node_values = handed(node, weights)
            values[node] = evaluate(node_values, [values[i] for i in node.inputs], float64=True)
        for i in node.inputs:
            left[i] -= 1
            if not left[i]:
                del values[i]
    named = {name: values[node][0] for name, node in graph.outputs.items()}
    return named, {node: values[node][0] for node in kept if node in values}
