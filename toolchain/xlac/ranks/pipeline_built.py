"""The stages of a pipeline as programs to be built ahead of time: of a model that is called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xlac.driver import Lowered, lower
from xlac.ir.dims import static
from xlac.ir.types import Type
from xlac.model import Model, SaidPipeline
from xlac.ops.tensor.leaf import param
from xlac.pipelining.check import check_order
from xlac.pipelining.plan import Phase, PhasePlan
from xlac.pipelining.schedule import PipelineOrder, ordered
from xlac.placement.places import refuse_places
from xlac.ranks.pipeline_plans import LocalModel, StepModels
from xlac.ranks.stage_program import StageProgram, StagePrograms, placed_state
from xlac.ranks.stage_steps import PipelinedFunction, stage_program
from xlac.spmd.mesh import Mesh, Sharding
from xlac.spmd.run_time import Rates
from xlac_sdk.backend import Backend
from xlac_sdk.host.ranks.parts import DividedArray, RankParts, differing
from xlac_sdk.programs.program import Program, Role, Slot
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.target import Target


@dataclass(frozen=True, eq=False)
class CalledFunction:
    """A function of the API before its slots are known: the kinds of its micro-batches, in order,
    and the output, not a caller's, that says whether the state was changed. `rows` has the number
    of each in its pass over the caller's micro-batches; () where there is one pass.
    """

    name: str
    kinds: Sequence[str]
    flag: str = ""
    rows: Sequence[int] = ()

    @property
    def many(self) -> int:
        """The micro-batches that a caller gives."""
        return max(self.rows) + 1 if self.rows else len(self.kinds)


@dataclass(eq=False)
class PipelineSlots:
    """The inputs and outputs of functions, shared by all that have them of one type; how the whole
    arrays are divided, by name. `numbers` are inputs that no caller gives; the others are in the
    order in which functions, added one after the other, have them.
    """

    known: dict[tuple[str, Role], list[Slot]]
    arrays: dict[str, DividedArray]
    batch: frozenset[str] | None  # inputs that each micro-batch has its part of; None: all
    numbers: Sequence[str] = ()
    results: Sequence[str] = ()  # outputs that come first, in order

    def function(
        self, called: CalledFunction, locals: Mapping[str, LocalModel], plans: Sequence[PhasePlan]
    ) -> tuple[tuple[Slot, ...], tuple[Slot, ...]]:
        """The slots of a function, whose micro-batches are in order."""
        many = called.many
        every = [locals[kind] for kind in dict.fromkeys(called.kinds)]
        inputs: dict[str, Slot] = {}
        for local in every:
            for node in local.model.graph.inputs:
                one = param(node)
                if one.kind == "input" and one.name not in self.numbers:
                    parts = many if self.batch is None or one.name in self.batch else 1
                    whole, axes = local.inputs[one.name], local.plan.inputs[one.name]
                    slot = self._slot(one.name, Role.INPUT, parts, node.type, whole, axes)
                    inputs.setdefault(one.name, slot)
        outputs: list[Slot] = []
        owners = {name: n for n, plan in enumerate(plans) for name in plan.outputs}
        for name, at in owners.items():
            if name == called.flag:
                continue
            parts = many if sum(name in plan.outputs for plan in plans) == many else 1
            type = plans[at].values[plans[at].outputs[name]].node.type
            local = locals[called.kinds[at]]
            whole, axes = local.outputs[name], local.plan.outputs[name]
            outputs.append(self._slot(name, Role.OUTPUT, parts, type, whole, axes))
        first = {name: at for at, name in enumerate(self.results)}
        outputs.sort(key=lambda slot: first.get(slot.name, len(first)))
        known = [name for name, role in self.known if role is Role.INPUT]
        ordered = sorted(inputs, key=known.index)
        return tuple(inputs[name] for name in ordered), tuple(outputs)

    def _slot(
        self, name: str, role: Role, parts: int, type: Type, whole: Type, axes: Sharding
    ) -> Slot:
        own, all_of_it = static(type.shape), static(whole.shape)
        if parts > 1:
            own, all_of_it, axes = (parts, *own), (parts, *all_of_it), ((), *axes)
        for slot in (slots := self.known.setdefault((name, role), [])):
            if (slot.dtype, slot.shape) == (type.dtype, own):
                return slot
        count = len(self.known) + len(slots)
        slots.append(Slot(name, f"{role.value}{count}_{len(slots)}", type.dtype, own, role))
        self.arrays.setdefault(name, DividedArray(all_of_it, axes))
        return slots[-1]


@dataclass(frozen=True, eq=False)
class BuiltStages:
    """The stages of the ranks at one place of the mesh's other axes."""

    stages: Sequence[StageProgram]
    functions: Sequence[PipelinedFunction]
    state: Mapping[str, Slot]
    facts: Mapping[str, Any]
    lowered: Lowered  # of one of the phases


def built_stages(
    models: StepModels,
    called: Sequence[CalledFunction],
    said: SaidPipeline,
    mesh: Mesh,
    rank: int,
    slots: PipelineSlots,
    backend: Backend,
    target: Target,
    check: Callable[[str, PhasePlan], None] | None = None,
    **options: Any,
) -> tuple[BuiltStages, Mapping[str, LocalModel]]:
    """The programs of all stages, as the ranks at the place of `rank` have them; `options` are
    those of `driver.lower`. Raises SourceError as `StepModels.plans`, and UnsupportedError as
    `rank_program`.
    """
    locals, plans, held = models.staged(said, mesh, rank, target, Rates())
    for kind, plan in plans.items():
        if check is not None:
            check(kind, plan)
    if any(one.plan.reasons for one in locals.values()) and not target.collectives:
        problem = f"{backend.name} has no collectives, and the ranks of a stage exchange values"
        raise UnsupportedError(Diagnostic("XL7806", problem))
    first: list[Lowered] = []
    programs: dict[Phase, Program] = {}
    for kind in dict.fromkeys(kind for one in called for kind in one.kinds):
        for phase in plans[kind].phases:
            made = lower(phase.model, target, every=False, **options)
            programs[phase] = made.program
            first.append(made)
    functions = [_function(one, said, locals, plans, slots) for one in called]
    types = _state_types(locals.values(), held)
    state = placed_state(types, held)
    shared = StagePrograms(said.axis, programs, state, held, models.numbers)
    count = mesh.sizes[said.axis]
    stages = [stage_program(shared, stage, functions) for stage in range(count)]
    facts = {**first[0].program.facts, "mesh": [list(axis) for axis in mesh.axes]}
    return BuiltStages(stages, functions, state, facts, first[0]), locals


def _function(
    called: CalledFunction,
    said: SaidPipeline,
    locals: Mapping[str, LocalModel],
    plans: Mapping[str, PhasePlan],
    slots: PipelineSlots,
) -> PipelinedFunction:
    micro = [plans[kind] for kind in called.kinds]
    order: PipelineOrder = ordered(micro, said.schedule)
    check_order(micro, order.ranks)
    inputs, outputs = slots.function(called, locals, micro)
    rows = tuple(called.rows) or tuple(range(len(micro)))
    return PipelinedFunction(called.name, micro, order, inputs, outputs, rows, called.flag)


def _state_types(
    locals: Iterable[LocalModel], held: Mapping[str, frozenset[int]]
) -> dict[str, Type]:
    """The tensors of the state that some stage holds, as a rank has them."""
    types: dict[str, Type] = {}
    for local in locals:
        for node in local.model.graph.inputs:
            one = param(node)
            if one.kind == "state" and one.name in held:
                types.setdefault(one.name, node.type)
    return types


def stage_parts(
    mesh: Mesh,
    axis: str,
    shardings: Iterable[Sharding],
    programs_of: Callable[[int], Sequence[Program]],
    arrays: Mapping[str, DividedArray],
) -> RankParts:
    """The ranks of a pipeline along an axis. `programs_of` makes the programs of all stages as the
    place of a rank has them, for one of all places that hold the same parts of what has such
    shardings. Raises UnsupportedError as `built_ranks`.
    """
    dividing = {name for sharding in shardings for names in sharding for name in names}
    made: dict[tuple[int, ...], Sequence[Program]] = {}
    numbers: dict[tuple[int, tuple[int, ...]], int] = {}
    programs: list[Program] = []
    part_of: list[int] = []
    for rank in range(mesh.ranks):
        places = mesh.place(rank)
        place = tuple(at for name, at in places.items() if name in dividing)
        if place not in made:
            made[place] = programs_of(rank)
        key = (places[axis], place)
        if key not in numbers:
            numbers[key] = len(programs)
            programs.append(made[place][places[axis]])
        part_of.append(numbers[key])
    parts = RankParts(tuple(programs), tuple(part_of), arrays, axis)
    for same in parts.stages:
        other = differing(programs[number] for number in same)
        if other is not None:
            rank = part_of.index(same[other])
            problem = f"the values of weights make another program of rank {rank} than of others"
            hint = (
                "divide along another axis: a part of equal integers becomes a number in the code"
            )
            raise UnsupportedError(Diagnostic("XL7817", problem, hint=hint))
    return parts


def interface(parts: RankParts, built: BuiltStages) -> Lowered:
    """What all stages have together, for the API and the manifest: the program of the first, with
    room for any, and all tensors of the state.
    """
    firsts = parts.firsts
    slots = dict.fromkeys((*firsts[0].slots, *built.state.values()))
    program = replace(
        firsts[0],
        slots=(*(s for s in slots if s.role is not Role.STATE), *built.state.values()),
        arena_bytes=max(one.arena_bytes for one in firsts),
        state_bytes=max(one.state_bytes for one in firsts),
    )
    return replace(built.lowered, program=program)


def built_pipeline(
    model: Model, mesh: Mesh, backend: Backend, target: Target, **options: Any
) -> tuple[Lowered, RankParts]:
    """The programs of the stages of a model, each call of which goes through them one after the
    other. The sizes of the model are fixed. Raises UnsupportedError and SourceError as
    `built_stages`.
    """
    refuse_places(model, "--mesh")
    assert model.ranks is not None and model.ranks.pipeline is not None
    said = model.ranks.pipeline
    options.pop("every", None)
    slots = PipelineSlots({}, {}, None)
    models, called = StepModels.alone(model), [CalledFunction("run", ["run"])]
    built: dict[int, BuiltStages] = {}
    shardings: list[Sharding] = []

    def programs_of(rank: int) -> list[Program]:
        made, locals = built_stages(
            models, called, said, mesh, rank, slots, backend, target, **options
        )
        built[rank] = made
        shardings.extend(locals["run"].plan.weights.values())
        return [one.program(model.name, "run", made.facts) for one in made.stages]

    first = programs_of(0)
    parts = stage_parts(
        mesh,
        said.axis,
        shardings,
        lambda rank: first if rank == 0 else programs_of(rank),
        slots.arrays,
    )
    return interface(parts, built[0]), parts
