"""Searches meshes, and weights to divide, on paper: plans by the step time that is predicted.

Every mesh of so many ranks is tried. Within one, weights are tried in the order of their bytes,
each along the axes of the mesh other than that of the batch, and what shortens the step is kept;
what is not said of a weight follows from the others by propagation. Weights of one name but for
numbers, as those of equal layers, are divided alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from xlac.ir.graph import Graph, Node
from xlac.model import MeshSection, Model, SaidSharding
from xlac.ops.collective.manual import ManualComputation
from xlac.ops.cost import nbytes
from xlac.ops.nn.attention import Attention
from xlac.ops.tensor.leaf import Param
from xlac.placement.places import refuse_places
from xlac.spmd.cost import NetworkLink, RankDevice, seconds
from xlac.spmd.manual import computations
from xlac.spmd.mesh import Mesh, Sharding
from xlac.spmd.model import DATA, expanded, of_rank
from xlac.spmd.partition import Partitioned
from xlac.spmd.run_time import Rates, computing
from xlac.spmd.step_time import StepTime, step_time
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError
from xlac_sdk.target import Target

AXES = (DATA, "model")  # of a mesh where a model names none
GROUPS = 12  # of weights that are tried, the largest
OPTIMIZER = "optimizer."  # its state is divided as the weights are


@dataclass(frozen=True, slots=True, eq=False)
class MeshPlan:
    """A model with a mesh of known sizes and weights to divide, and what is predicted of a step.
    `kept`: bytes of weights and state on a rank.
    """

    model: Model
    mesh: Mesh
    chosen: Mapping[str, Sharding]
    time: StepTime
    kept: int

    @property
    def seconds(self) -> float:
        """The time of a step."""
        return self.time.seconds


StepTimer = Callable[[Model, Mesh, Partitioned], "tuple[StepTime, int]"]
"""The time of a step of a model on a mesh, as its ranks have it, and the bytes that one keeps."""


@dataclass(frozen=True, slots=True)
class PlanSearch:
    """What plans are made for. `limit`: bytes of a rank. `of_mesh` gives the model of a mesh, where
    that depends on it, and raises UnsupportedError where there is none. `timer` predicts steps of
    more than the model: of several micro-batches, or in stages.
    """

    target: Target
    link: NetworkLink
    device: RankDevice
    limit: int | None = None
    of_mesh: Callable[[Mesh], Model] | None = None
    timer: StepTimer | None = None

    @property
    def rates(self) -> Rates:
        """What times are predicted for."""
        return Rates(self.link, self.device)

    def plans(self, model: Model, ranks: int) -> list[MeshPlan]:
        """The best plan of every mesh, the shortest step first. Meshes that leave ranks without
        work of their own are left out, and those whose weights and state alone exceed the limit.
        Raises SourceError where none is left.
        """
        refuse_places(model, "xlac plan")
        model = self._expanded(model)
        tried = by_hand(model.graph, ranks) or meshes(model.ranks, ranks)
        plans = [plan for mesh in tried if (plan := self._planned(model, mesh))]
        if not plans:
            problem = f"no mesh of {ranks} ranks gives each of them work of its own"
            hint = "larger dimensions, fewer --ranks, or a section mesh with other axes"
            raise SourceError(Diagnostic("XL7814", problem, hint=hint))
        fitting = [plan for plan in plans if not self._over(plan)]
        if not fitting:
            raise too_large(min(plan.kept for plan in plans), self.limit)
        return sorted(fitting, key=lambda plan: plan.seconds)

    def alone(self, model: Model) -> float:
        """The time of a step in one process."""
        return sum(computing(expanded(model.graph, self.target), self.rates).values())

    def _expanded(self, model: Model) -> Model:
        return replace(model, graph=expanded(model.graph, self.target, (Attention,)))

    def _planned(self, model: Model, mesh: Mesh) -> MeshPlan | None:
        if self.of_mesh is None:
            return self._best(model, mesh)
        try:
            return self._best(self._expanded(self.of_mesh(mesh)), mesh)
        except UnsupportedError:  # such as a batch without equal parts
            return None

    def _best(self, model: Model, mesh: Mesh) -> MeshPlan | None:
        """The best plan of a mesh; None where none divides along all of its axes."""
        best = self._tried(model, mesh, {})
        for group in weight_groups(model):
            chosen = best.chosen if best is not None else {}
            for option in _options(group, mesh, stages_of(model)):
                trial = self._tried(model, mesh, {**chosen, **option})
                if trial and (best is None or self._order(trial) < self._order(best)):
                    best = trial
        return best

    def _order(self, plan: MeshPlan) -> tuple[int, float]:
        return self._over(plan), plan.seconds

    def _over(self, plan: MeshPlan) -> int:
        return 0 if self.limit is None else max(plan.kept - self.limit, 0)

    def _tried(self, model: Model, mesh: Mesh, chosen: Mapping[str, Sharding]) -> MeshPlan | None:
        said = dict(model.ranks.params) if model.ranks else {}
        said |= {name: SaidSharding(axes) for name, axes in chosen.items()}
        stages = model.ranks.pipeline if model.ranks else None
        own = replace(model, ranks=MeshSection(dict(mesh.axes), said, pipeline=stages))
        try:
            _, made = of_rank(own, mesh, 0, self.target)
            time, bytes_kept = (self.timer or self.timed)(own, mesh, made)
        except SourceError:  # ranks along an axis would do the same work
            return None
        return MeshPlan(own, mesh, chosen, time, bytes_kept)

    def timed(self, model: Model, mesh: Mesh, made: Partitioned) -> tuple[StepTime, int]:
        """The time of one call of a model."""
        compute = computing(made.graph, self.rates)
        time = step_time(made.graph, compute, partial(seconds, link=self.link))
        return time, kept(made)


def too_large(least: int, limit: int | None) -> SourceError:
    """The error where no plan fits the memory of a rank."""
    problem = f"every plan needs {least:,} bytes on a rank or more, and {limit:,} are allowed"
    return SourceError(Diagnostic("XL7814", problem, hint="more --ranks, or more --max-memory"))


def by_hand(graph: Graph, ranks: int) -> list[Mesh]:
    """The mesh on which a model computes by hand; empty where it does not. Raises SourceError where
    that is not of so many ranks.
    """
    for node in computations(graph):
        assert isinstance(node.op, ManualComputation)
        mesh = Mesh(node.op.mesh)
        if mesh.ranks != ranks:
            problem = f"the model computes by hand on the mesh {mesh}, and not on {ranks} ranks"
            span = node.origin.span if node.origin else None
            raise SourceError(Diagnostic("XL7814", problem, span, f"--ranks {mesh.ranks}"))
        return [mesh]
    return []


def meshes(section: MeshSection | None, ranks: int) -> Iterator[Mesh]:
    """Every mesh of so many ranks: sizes for the axes that a model leaves open, or for AXES."""
    axes = dict(section.mesh) if section is not None and section.mesh else dict.fromkeys(AXES)
    fixed = prod(size for size in axes.values() if size is not None)
    open_axes = [name for name, size in axes.items() if size is None]
    if ranks % fixed:
        return
    for sizes in _products(ranks // fixed, len(open_axes)):
        given = dict(zip(open_axes, sizes, strict=True))
        yield Mesh(tuple((n, given[n] if size is None else size) for n, size in axes.items()))


def _products(number: int, count: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a number as a product of so many, in order."""
    if count == 0:
        if number == 1:
            yield ()
        return
    for first in range(1, number + 1):
        if number % first == 0:
            for others in _products(number // first, count - 1):
                yield first, *others


def weight_groups(model: Model) -> list[list[Node]]:
    """The weights that may be divided and of which the model says nothing, the largest first."""
    said = model.ranks.params if model.ranks else {}
    groups: dict[tuple[str, object], list[Node]] = {}
    for node in dict.fromkeys((*model.graph.inputs, *model.graph.nodes())):
        op = node.op
        if not isinstance(op, Param) or op.kind == "input" or node.type.rank < 2:
            continue
        if op.name not in said and not op.name.startswith(OPTIMIZER):
            groups.setdefault((re.sub(r"\d+", "*", op.name), node.shape), []).append(node)
    large = sorted(groups.values(), key=lambda group: -sum(nbytes(n.type) for n in group))
    return large[:GROUPS]


def stages_of(model: Model) -> str:
    """The axis along which the stages of a model are; empty where it has none."""
    said = model.ranks.pipeline if model.ranks is not None else None
    return said.axis if said is not None else ""


def _options(group: Sequence[Node], mesh: Mesh, stages: str = "") -> Iterator[dict[str, Sharding]]:
    """The ways to divide the weights of a group into equal parts, along one axis of the mesh, but
    for those of the batch and of `stages`.
    """
    for name, parts in mesh.axes:
        if name in (DATA, stages) or parts == 1:
            continue
        for axis, size in enumerate(group[0].shape):
            if isinstance(size, int) and size % parts == 0:
                rank = group[0].type.rank
                sharding = tuple((name,) if a == axis else () for a in range(rank))
                yield {n.op.name: sharding for n in group if isinstance(n.op, Param)}


def kept(made: Partitioned) -> int:
    """Bytes of weights and state on a rank."""
    params = (n for n in dict.fromkeys((*made.graph.inputs, *made.graph.nodes())))
    return sum(nbytes(n.type) for n in params if isinstance(n.op, Param) and n.op.kind != "input")
