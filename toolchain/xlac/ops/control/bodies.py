"""Graphs inside operations: what their types must be, and running them in NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.graph import Graph
from xlac.ir.interpret import run_body
from xlac.ir.op import Array, ShapeError
from xlac.ir.types import Type
from xlac.ops.scalar.comparison import Compare, Select
from xlac.ops.scalar.convert import Cast
from xlac.ops.scalar.primitive import Scalar
from xlac.ops.tensor.leaf import Const, Param


def outputs(body: Graph) -> tuple[Type, ...]:
    """The types of a body's results, in order."""
    return tuple(node.type for node in body.outputs.values())


def check(
    mnemonic: str,
    body: Graph,
    takes: Sequence[Type],
    gives: Sequence[Type] | None = None,
    attribute: str = "body",
) -> None:
    """A body fits the values that it is given and the results that are expected of it."""
    types = tuple(node.type for node in body.inputs)
    if types != tuple(takes):
        raise ShapeError(
            f"the body of {mnemonic} takes {listed(types)}, but is given {listed(takes)}",
            attribute=attribute,
        )
    if gives is not None and outputs(body) != tuple(gives):
        raise ShapeError(
            f"the body of {mnemonic} gives {listed(outputs(body))}, not {listed(gives)}",
            attribute=attribute,
        )


def listed(types: Sequence[Type]) -> str:
    """Types in a message."""
    return f"({', '.join(map(str, types))})"


def run(body: Graph, arrays: Sequence[Array]) -> list[Array]:
    """The results of a body, in order."""
    return run_body(body, arrays)


def elementwise(body: Graph, arrays: Sequence[Array]) -> list[Array]:
    """A body on scalars, applied to every element of arrays of equal shape."""
    shape = arrays[0].shape
    if all(
        isinstance(node.op, Const | Param | Scalar | Compare | Select | Cast)
        for node in body.nodes()
    ):
        # scalar operations work on arrays as they do on scalars
        return [np.broadcast_to(result, shape) for result in run(body, arrays)]
    results = [np.empty(shape, node.type.dtype.numpy) for node in body.outputs.values()]
    for position in np.ndindex(shape):
        for result, value in zip(results, run(body, [a[position] for a in arrays]), strict=True):
            result[position] = value
    return results
