"""What the optimizer knows of the values of an ONNX graph: which are constant, and which are
equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlac.frontends.onnx.graph.values import Value
from xlac.frontends.onnx.read import Imported
from xlac.integrations.simplify.protos import RandomNodes, reads
from xlac.ir.dims import Sym
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array
from xlac.ops.tensor.leaf import Const, Iota, Param, RngBits
from xlac.passes.pipeline import Pipeline, optimize
from xlac.passes.weights import Weights
from xlac_sdk.source import LimitError
from xlac_sdk.target import Target

PASSES = "simplify,expand,inline,simplify,cse,fold,simplify,cse"
"""Passes that fold constants and merge equal values, independently of any target."""

QUANTIZING = ("DequantizeLinear", "DequantizeBFP", "GatherBlockQuantized", "MatMulNBits")
"""Operators that expand compact constants; values that depend on them are not folded."""

MOST = 1 << 28  # bytes of a folded value, intermediate values included


@dataclass(frozen=True, slots=True)
class ValueFacts:
    """The values of a graph by name, as nodes of the optimized graph. Values that are not plain
    tensors, or random, are absent.
    """

    nodes: Mapping[str, Node]
    weights: Weights
    kept: frozenset[str] = frozenset()  # names of values that are not folded
    # nodes that depend on constants alone, with the bytes of these
    sources: Mapping[Node, int] = field(default_factory=dict)

    def source(self, name: str) -> int | None:
        """Bytes of the constants that a value is computed from; None where it depends on anything
        else, or must not be folded.
        """
        node = self.nodes.get(name)
        return None if node is None or name in self.kept else self.sources.get(node)

    def array(self, name: str) -> Array:
        """The elements of a value that has a `source`, computed in f64 and rounded once."""
        node = self.nodes[name]
        if isinstance(node.op, Const):
            return node.op.value
        if not (isinstance(node.op, Param) and node.op.kind == "weight"):
            node = self.weights.derive(node)
        assert isinstance(node.op, Param)
        return np.asarray(self.weights[node.op.name])


def analysed(proto: Any, imported: Imported) -> ValueFacts:
    """Optimizes all values of a graph together. Raises LimitError for a model that is too large."""
    values = imported.importer.scope.values
    drawn, kept = _marked(proto, lambda name: _constant(imported, values.get(name)))
    nodes = {
        name: value
        for name, value in values.items()
        if isinstance(value, Node) and name not in drawn
    }
    distinct = list(dict.fromkeys(nodes.values()))
    outputs = {f"v{number}": node for number, node in enumerate(distinct)}
    weights = Weights(imported.importer.weights)
    graph = optimize(
        Graph("values", tuple(imported.inputs.nodes), outputs),
        Target("generic"),
        weights=weights,
        pipeline=Pipeline.parse(PASSES),
        is_kept=lambda node, target: False,
    )
    new = dict(zip(distinct, graph.outputs.values(), strict=True))
    optimized = {name: new[node] for name, node in nodes.items()}
    return ValueFacts(optimized, weights, frozenset(kept), _sources(graph))


def _sources(graph: Graph) -> dict[Node, int]:
    """The nodes that depend on constants alone, each with the bytes of these constants."""
    nbytes: dict[Node, int] = {}
    for node in graph.nodes():
        op = node.op
        sizes = [n for t in node.results for n in t.shape]
        if isinstance(op, Const) or (isinstance(op, Param) and op.kind == "weight"):
            nbytes[node] = node.type.nbytes
        elif any(isinstance(n, Sym) for n in sizes) or any(t.nbytes > MOST for t in node.results):
            continue
        elif isinstance(op, Iota):
            nbytes[node] = 0
        elif node.inputs and not isinstance(op, RngBits) and not op.bodies():
            parts = [nbytes.get(i) for i in dict.fromkeys(node.inputs)]
            if None not in parts:
                nbytes[node] = sum(part for part in parts if part is not None)
    return nbytes


def _marked(proto: Any, known: Callable[[str], Any]) -> tuple[set[str], set[str]]:
    """The names of values that depend on random numbers, and of those that are not folded."""
    random: set[str] = set()
    kept: set[str] = set()
    randomness = RandomNodes(proto.functions)
    for node in proto.graph.node:
        given = set(reads(node))
        if not given.isdisjoint(random) or randomness.has(node, known):
            random.update(node.output)
        if not given.isdisjoint(kept) or node.op_type in QUANTIZING:
            kept.update(node.output)
    return random, kept


def _constant(imported: Imported, value: Value | None) -> Array | None:
    try:
        return imported.importer.known.constant(value) if isinstance(value, Node) else None
    except LimitError:
        return None
