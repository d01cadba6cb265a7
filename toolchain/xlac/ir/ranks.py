"""Evaluates a graph for all ranks of a mesh at once: arrays have the axes of the mesh first.

A rank computes each operation on its own values; a collective (`ops/collective/`) is given those of
all ranks. So properties of partitioned graphs are tested in one process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import evaluate, widened
from xlac.ir.op import Array, attributes


def interpret_ranks(
    graph: Graph,
    mesh: Sequence[tuple[str, int]],
    inputs: Mapping[str, Array],
    weights: Mapping[str, Array] | None = None,
    float64: bool = False,
) -> dict[str, Array]:
    """Every output by name. `inputs` and `weights` are arrays by name whose first axes are those of
    `mesh`, one local array for each rank. With `float64` as `interpret`.
    """
    sizes = tuple(size for _, size in mesh)
    values: dict[Node, tuple[Array, ...]] = {}
    for node in graph.nodes():
        if node.op.mnemonic == "param":
            about = attributes(node.op)
            source = (weights or {}) if about["kind"] == "weight" else inputs
            array = np.asarray(source[about["name"]])
            wanted = (*sizes, *node.shape)
            if array.shape != wanted:
                raise ValueError(f"{about['name']!r} is {wanted} with the mesh, got {array.shape}")
            values[node] = (widened(array, float64),)
        else:
            values[node] = _results(node, [values[i] for i in node.inputs], sizes, float64)
    return {name: values[node][0] for name, node in graph.outputs.items()}


def _results(
    node: Node, inputs: Sequence[tuple[Array, ...]], sizes: tuple[int, ...], float64: bool
) -> tuple[Array, ...]:
    across: Any = getattr(node.op, "across", None)
    if across is not None:
        with np.errstate(all="ignore"):
            return (widened(across(*(results[0] for results in inputs)), float64),)
    results: list[tuple[Array, ...]] = []
    for rank in np.ndindex(*sizes):
        own = [tuple(array[rank] for array in results) for results in inputs]
        results.append(evaluate(node, own, float64))
    return tuple(np.stack(one).reshape(*sizes, *one[0].shape) for one in zip(*results, strict=True))
