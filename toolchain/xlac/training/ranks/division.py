"""How the state of training is divided among the ranks of a mesh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from xlac.driver import specialized
from xlac.ir.dims import Symbol, static
from xlac.ir.graph import Graph, apply
from xlac.model import MeshSection, Model, SaidSharding
from xlac.ops.tensor.leaf import param
from xlac.ops.walks import substituted
from xlac.spmd.mesh import AxisNames, Mesh, Sharding
from xlac.spmd.model import DATA, of_rank
from xlac.spmd.sums.states import partial_states, with_partial_states
from xlac.training.graphs import TrainingGraphs
from xlac.training.micro_batches.accumulate import ACCUMULATE
from xlac.training.program import with_entries
from xlac.training.state import StateTensor
from xlac_sdk.target import Target


@dataclass(frozen=True, slots=True)
class RankTraining:
    """How training is divided: the mesh, as text or as sizes by axis; the tensors of the state, and
    what of them is held in parts along the mesh axis `data` (`optimizer`, `gradients`, `weights`).
    """

    mesh: str | Mapping[str, int]
    tensors: Mapping[str, StateTensor]
    shard: str | None

    def is_divided(self, name: str) -> bool:
        """Whether ranks along `data` hold parts of a tensor."""
        tensor = self.tensors[name]
        if tensor.learns:
            return self.shard == "weights"
        if tensor.transient:
            return self.shard in ("gradients", "weights")
        return self.shard is not None


@dataclass(frozen=True, slots=True, eq=False)
class TrainingDivision:
    """The sharding of each tensor of the state, and for the weights that every entry gathers, how
    it then has them. Of the tensors `partial` ranks along some axes hold summands.
    """

    mesh: Mesh
    section: MeshSection
    shardings: Mapping[str, Sharding]
    gathering: Mapping[str, Sharding]
    partial: Mapping[str, AxisNames] = field(default_factory=dict)

    @staticmethod
    def of(
        entries: Mapping[str, Model], among: RankTraining, mesh: Mesh, rank: int, target: Target
    ) -> TrainingDivision:
        """What a step says of its weights, what is held in parts besides, and which sums over
        micro-batches ranks add up for themselves until the last one. `entries` are the models of
        training by name.
        """
        tensors, step = among.tensors, entries["step"]
        shapes = {name: static(one.type.shape) for name, one in tensors.items()}
        asked = _asked(step, list(tensors), mesh, rank, target)
        shardings = {
            name: _divided(shapes[name], axes, mesh) if among.is_divided(name) else axes
            for name, axes in asked.items()
        }
        gathering = {
            name: axes
            for name, axes in asked.items()
            if axes != shardings[name] and tensors[name].learns
        }
        said = step.ranks.params if step.ranks is not None else {}
        fixed = {name: SaidSharding(axes) for name, axes in shardings.items()}
        stages = step.ranks.pipeline if step.ranks is not None else None
        section = MeshSection(dict(mesh.axes), {**said, **fixed}, pipeline=stages)
        division = TrainingDivision(mesh, section, shardings, gathering)
        several = {n: one for n, one in entries.items() if n.startswith(ACCUMULATE)}
        parts = {n: _usual(division.of_entry(one), mesh) for n, one in several.items()}
        sums = partial_states(parts, mesh, rank, target)
        section = with_partial_states(section, sums)
        partial = {name: one.partial for name, one in sums.items()}
        return replace(division, section=section, partial=partial)

    @staticmethod
    def of_graphs(graphs: TrainingGraphs, mesh: Mesh, target: Target) -> TrainingDivision:
        """The division of training as its section `train` says, for rank 0."""
        tensors = {tensor.name: tensor for tensor in graphs.state}
        among = RankTraining(mesh.sizes, tensors, graphs.shard)
        return TrainingDivision.of(graphs.entries, among, mesh, 0, target)

    def of_entries(self, graphs: TrainingGraphs) -> TrainingGraphs:
        """The graphs of training with the mesh and the state divided so."""
        return with_entries(graphs, {n: self.of_entry(one) for n, one in graphs.entries.items()})

    def of_entry(self, model: Model) -> Model:
        """The model of an entry with the mesh and its state divided so; weights that are held in
        parts along `data` are gathered, once.
        """
        model = replace(model, ranks=self.section, allow_kernels=False)
        if not self.gathering:
            return model
        whole = {
            node: apply("shard", node, axes=tuple(names or None for names in self.gathering[name]))
            for node in model.graph.inputs
            if (name := param(node).name) in self.gathering
        }
        names = list(model.graph.outputs)
        nodes = substituted(list(model.graph.outputs.values()), whole)
        outputs = dict(zip(names, nodes, strict=True))
        return replace(model, graph=Graph(model.graph.name, model.graph.inputs, outputs))


def _asked(
    step: Model, names: list[str], mesh: Mesh, rank: int, target: Target
) -> dict[str, Sharding]:
    """How the state is divided by what the model says of its weights: as a step has it, for a batch
    that all ranks share.
    """
    _, plan = of_rank(_usual(step, mesh), mesh, rank, target)
    return {name: plan.inputs[name] for name in names}


def _usual(model: Model, mesh: Mesh) -> Model:
    """An entry for a batch that all ranks share, of about the usual size."""
    parts = mesh.sizes.get(DATA, 1)
    return specialized(model, {n: _multiple(symbol, parts) for n, symbol in model.dims.items()})


def _divided(shape: tuple[int, ...], sharding: Sharding, mesh: Mesh) -> Sharding:
    """The sharding of a tensor with `data` added to the first axis that has equal parts."""
    used = {axis for names in sharding for axis in names}
    if mesh.sizes.get(DATA, 1) == 1 or DATA in used:
        return sharding
    for axis, (size, names) in enumerate(zip(shape, sharding, strict=True)):
        more = (*names, DATA)
        if size and size % mesh.parts(more) == 0:
            return (*sharding[:axis], more, *sharding[axis + 1 :])
    return sharding


def _multiple(symbol: Symbol, parts: int) -> int:
    """A size near the usual one that has equal parts, where the bounds permit one."""
    step = int(np.lcm(symbol.multiple_of, parts))
    size = max(symbol.opt // step, 1) * step
    return size if symbol.min <= size <= symbol.max else symbol.opt
