"""The phases of a model on the ranks of a mesh: of inference, or of a step of training."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from xlac.ir.graph import Graph
from xlac.ir.text import show
from xlac.ir.types import Type
from xlac.model import Model, SaidPipeline
from xlac.ops.collective.group import Collective
from xlac.ops.tensor.leaf import Param, param
from xlac.ops.walks import every_node, substituted
from xlac.passes.cse import merge
from xlac.passes.rewrite.trace import Trace
from xlac.pipelining.balance import stages_of
from xlac.pipelining.phases import holders, phases_of
from xlac.pipelining.plan import PhasePlan
from xlac.pipelining.schedule import Task
from xlac.pipelining.sums import sums_at_home
from xlac.spmd.mesh import Mesh
from xlac.spmd.model import of_rank
from xlac.spmd.partition import Partitioned
from xlac.spmd.run_time import Rates
from xlac_sdk.host.ranks.communicator import group_of
from xlac_sdk.support.hashing import blake2b
from xlac_sdk.target import Target


@dataclass(frozen=True, slots=True, eq=False)
class LocalModel:
    """The whole model as the ranks of one place of the mesh's other axes have it, of primitives,
    before its stages are cut; how it was partitioned, and the types of the whole values.
    """

    model: Model
    plan: Partitioned
    inputs: Mapping[str, Type]
    outputs: Mapping[str, Type]

    @staticmethod
    def of(model: Model, mesh: Mesh, rank: int, target: Target) -> LocalModel:
        """The model of a rank; its sizes are fixed. The axis of stages divides no value."""
        own, plan = of_rank(model, mesh, rank, target, idle_axes=True)
        own = replace(own, graph=merge(own.graph, Trace()))  # so that no value is sent twice
        inputs = {param(node).name: node.type for node in model.inputs}
        outputs = {name: node.type for name, node in model.graph.outputs.items()}
        return LocalModel(own, plan, inputs, outputs)

    def groups(self, rank: int) -> list[tuple[int, ...]]:
        """A rank's groups of all collectives, of this rank's phases or not, in one order."""
        axes = {n.op.axes for n in every_node(self.model.graph) if isinstance(n.op, Collective)}
        return [group_of(self.plan.mesh.axes, names, rank)[0] for names in sorted(axes)]


def digest_of(plans: Sequence[PhasePlan], order: Sequence[Sequence[Task]]) -> str:
    """Names what all ranks have to agree on."""
    parts = [f"{order}"]
    for plan in dict.fromkeys(plans):
        parts += [show(plan.whole.graph), f"{[(one.rank, one.stage) for one in plan.phases]}"]
        parts += [f"{[(one.source, one.rank, one.values) for one in plan.messages]}"]
    return blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()


def without_state(model: Model, names: Sequence[str]) -> Model:
    """The model with some of its states given by callers, and their next values left out."""
    found = {
        node: replace(node, op=Param(param(node).name, node.type, "input"))
        for node in model.graph.inputs
        if param(node).name in names
    }
    gone = {model.state[name] for name in names if name in model.state}
    outputs = {name: node for name, node in model.graph.outputs.items() if name not in gone}
    nodes = substituted(list(outputs.values()), found)
    inputs = tuple(found.get(node, node) for node in model.graph.inputs)
    graph = Graph(model.graph.name, inputs, dict(zip(outputs, nodes, strict=True)))
    state = {name: output for name, output in model.state.items() if name not in names}
    return replace(model, graph=graph, state=state)


@dataclass(frozen=True, slots=True, eq=False)
class StepModels:
    """The models of a step, by name, of fixed sizes: the first has the nodes by which stages are
    found, `micro` names those of its micro-batches in order. `kept` are the states that stay
    between steps, and `numbers` those that callers give.
    """

    models: Mapping[str, Model]
    micro: Sequence[str]
    kept: Container[str] = ()
    numbers: Sequence[str] = ()

    @staticmethod
    def alone(model: Model) -> StepModels:
        """A model that is called."""
        return StepModels({"run": model}, ("run",))

    def plans(
        self, said: SaidPipeline, mesh: Mesh, rank: int, target: Target, rates: Rates
    ) -> tuple[dict[str, LocalModel], dict[str, PhasePlan]]:
        """The models as a rank has them, and their phases. Raises SourceError as `stages_of`."""
        locals, plans, _ = self.staged(said, mesh, rank, target, rates)
        return locals, plans

    def staged(
        self, said: SaidPipeline, mesh: Mesh, rank: int, target: Target, rates: Rates
    ) -> tuple[dict[str, LocalModel], dict[str, PhasePlan], dict[str, frozenset[int]]]:
        """The same, and the ranks that hold each state."""
        locals = {
            kind: LocalModel.of(without_state(model, self.numbers), mesh, rank, target)
            for kind, model in self.models.items()
        }
        ranks = mesh.sizes[said.axis]
        first = next(iter(locals.values())).model.graph
        stage_of = stages_of(said, ranks, first, rates)
        sums = sums_at_home([one.model for one in locals.values()], stage_of, ranks, self.kept)
        stage_of = sums.stage_of
        locals = {kind: replace(one, model=sums.read(one.model)) for kind, one in locals.items()}
        held = holders((one.model for one in locals.values()), stage_of, ranks, self.kept)
        plans = {
            kind: phases_of(locals[kind].model, stage_of, ranks, held)
            for kind in dict.fromkeys(self.micro)
        }
        return locals, plans, held
