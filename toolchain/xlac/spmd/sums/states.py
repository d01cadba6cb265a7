"""States to which several programs add one after the other, and of which ranks hold summands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from xlac.ir.graph import Graph
from xlac.model import MeshSection, Model, SaidSharding
from xlac.ops.tensor.leaf import Param, param
from xlac.spmd.mesh import Mesh
from xlac.spmd.model import of_rank
from xlac.spmd.run_time import Rates
from xlac.spmd.same_ways import check_ways
from xlac.spmd.sums.move import carried_sums
from xlac_sdk.target import Target

LEAST_TURNS = 2
"""Programs that add to a state before one that reads it, and that one."""


def partial_states(
    models: Mapping[str, Model], mesh: Mesh, rank: int, target: Target
) -> dict[str, SaidSharding]:
    """The states to which programs add sums over ranks, where it takes less time that each rank
    adds up its own summands until a later program reads the state: how they are divided, and along
    which axes of the mesh they are summands. `models` are those programs, by name, of fixed sizes;
    what one of them adds to and another reads is left out.
    """
    found: dict[str, SaidSharding] = {}
    reads = {kind: _read(model.graph) for kind, model in models.items()}
    for kind, model in models.items():
        plan = of_rank(model, mesh, rank, target, idle_axes=True)[1]
        others = {name for other, names in reads.items() if other != kind for name in names}
        graph = plan.unmoved
        states = {param(n).name: n for n in graph.inputs if param(n).kind == "state"}
        links = {states[n]: output for n, output in model.state.items() if n not in others}
        differs = check_ways(graph, {**plan.inputs, **plan.weights})
        for node, axes in carried_sums(graph, differs, links, LEAST_TURNS, Rates().link).items():
            name = param(node).name
            found[name] = SaidSharding(plan.inputs[name], partial=axes)
    return found


def with_partial_states(section: MeshSection, states: Mapping[str, SaidSharding]) -> MeshSection:
    """What a model says of ranks, with states of which they hold summands."""
    return replace(section, params={**section.params, **states})


def _read(graph: Graph) -> set[str]:
    """The names of the parameters that a graph reads."""
    return {node.op.name for node in graph.nodes() if isinstance(node.op, Param)}
