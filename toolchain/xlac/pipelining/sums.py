"""Sums over micro-batches that several stages read, such as the count of a loss by which each
stage divides its gradients: the stage that adds to them reads them for all, and sends them.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from xlac.ir.graph import Graph, Node
from xlac.model import Model
from xlac.ops.tensor.leaf import Param
from xlac.ops.tensor.view import Reshape
from xlac.ops.walks import substituted
from xlac.pipelining.stages import SUM, StageOfPath, staged
from xlac_sdk.source import Origin


@dataclass(frozen=True, slots=True, eq=False)
class SumsAtHome:
    """The stage of each sum, by name, and what is said of all other paths."""

    homes: Mapping[str, int]
    said: StageOfPath

    def stage_of(self, path: str) -> int | None:
        """The stage of a path of nodes."""
        if path.startswith(SUM):
            return self.homes.get(path.removeprefix(SUM))
        return self.said(path)

    def read(self, model: Model) -> Model:
        """The model with each sum read by a node of its stage, which others read."""
        graph = model.graph
        read = {
            node: Node.of(Reshape(node.shape), node, origin=Origin(SUM + node.op.name))
            for node in graph.order
            if isinstance(node.op, Param) and node.op.kind == "state" and node.op.name in self.homes
        }
        if not read:
            return model
        nodes = substituted(list(graph.outputs.values()), read)
        outputs = dict(zip(graph.outputs, nodes, strict=True))
        return replace(model, graph=Graph(graph.name, graph.inputs, outputs))


def sums_at_home(
    models: Sequence[Model], said: StageOfPath, ranks: int, kept: Container[str]
) -> SumsAtHome:
    """The sums of some models of a step: numbers of the state that are not `kept` between steps,
    each with the stage that adds to it.
    """
    homes: dict[str, int] = {}
    for model in models:
        whole = staged(model.graph, said, ranks, model.state)
        for name, output in model.state.items():
            node = whole.graph.outputs[output]
            is_sum = name not in kept and node.type.size == 1 and output not in whole.copies
            if is_sum and node in whole.stage_of:
                homes.setdefault(name, whole.stage_of[node])
    return SumsAtHome(homes, said)
