"""Model to executable: every stage, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import Any

from xlac.codegen.claims import check_host_calls, is_kept, kind_taken
from xlac.codegen.gpu.core.instructions import permitted
from xlac.codegen.kernel_dedup import LoweringCache
from xlac.codegen.schedules import document
from xlac.frontends.loader import load
from xlac.fusion.group import Partition
from xlac.fusion.partition import partition
from xlac.hand_written.agreement import FACT, compared
from xlac.hand_written.permission import permitted as permitted_kernels
from xlac.memory.limit import MemoryLimit, check_addressable
from xlac.memory.loops.loop_kernels import with_loop_kernels
from xlac.model import Model, Undecided
from xlac.options import CompileOptions
from xlac.passes.capture import captured
from xlac.passes.checks.insert import facts as check_facts
from xlac.passes.checks.insert import watched
from xlac.passes.expand import ExpandPass, check_expanded
from xlac.passes.narrow import fixed, unfixed
from xlac.passes.pipeline import DEFAULT, Observers, Pipeline, optimize
from xlac.passes.quantize import Quantised, quantised
from xlac.passes.rewrite.choices import RewriteChoices
from xlac.passes.rewrite.trace import Trace
from xlac.passes.specialize import known_sizes, of_sizes
from xlac.passes.weights import Weights
from xlac.placement.places import check_one_target, in_stages, no_program_options
from xlac.program_variants import Variant, merged
from xlac.recompute.fewer_carries import explained, with_fewer_carries
from xlac.recompute.fit import fit_memory
from xlac.recompute.program_planner import ProgramPlanner
from xlac.recompute.smaller_temporaries import Temporaries, noted, with_smaller_temporaries
from xlac.runtime.built import built
from xlac.runtime.compiled import Compiled
from xlac.runtime.in_stages import CompiledInStages, callable_of
from xlac.runtime.specialization import Specializing
from xlac.runtime.variants import asked, checked
from xlac.settings import settings
from xlac.support.gc_pause import paused
from xlac_sdk.backend import Backend
from xlac_sdk.host.registry import find
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.support.limits import checkpoint, within
from xlac_sdk.target import Target

TUNING = "xlac.debug.tune.python_api"  # imported where a model is to be tuned


@dataclass(frozen=True, slots=True, eq=False)
class Lowered:
    """A program and what it was made from. The groups of `partition` are those of `fused` in the
    order in which they run.
    """

    model: Model
    target: Target
    partition: Partition
    schedules: LoweringCache
    program: Program
    fused: Partition
    quantised: Quantised | None = None
    choices: RewriteChoices = field(default_factory=RewriteChoices)  # rewrites that may be left


@paused()
def compile(source: object, target: str, options: CompileOptions) -> Compiled | Specializing:
    """Compiles a model that is not in the cache; `api.compile` documents options and errors."""
    asked(options.variants, options.sizes)
    backend, checks = find(target), options.checks
    facts = backend.target_for(options.request)
    lowered = partial(
        lower,
        target=facts,
        pipeline=Pipeline.asked(options.passes),
        verify_each=options.verify_each,
        memory=MemoryLimit.of(options.max_memory),
    )

    def read(sizes: Mapping[str, int], values: Mapping[str, Any]) -> Model:
        model = load(
            source,
            dims={**options.dims, **sizes},
            params={**options.params, **values},
            precision=options.precision,
            signature=options.signature,
        )
        allowed = options.allow_kernels
        model = model if allowed is None else replace(model, allow_kernels=allowed)
        return options.placing(model)

    def build(sizes: Mapping[str, Any], values: Mapping[str, Any]) -> Compiled:
        with bounded():
            again = of_sizes(model, read, sizes, values)
            again = options.placing(unfixed(again) if again.dims else again)
            if again.place:
                return compiled_in_stages(again, target, options)
            again = watched(again, checks)
            return executable(lowered(again, wanted=wanted(again), every=False), backend)

    bounded = partial(within, options.max_compile_seconds, options.max_compile_memory)
    given, model = document.read(options.schedules), None
    tuner = None if options.tune is None else import_module(TUNING)
    wanted = tuner.for_models(options, backend) if tuner else lambda model: given
    with bounded():
        try:
            model = read({}, {})
        except Undecided as undecided:
            if options.variants:
                raise
            return Specializing(undecided.interface, build)
        if model.dims and options.sizes == "specialize":
            grows = facts.device == "cpu" and model.grows and not model.place
            return Specializing(model.interface, build, grows=grows)
        if model.place:
            return compiled_in_stages(unfixed(model), target, options)
        closed = watched(unfixed(model), checks)
        again = lowered(closed, wanted=wanted(closed), variants=options.variants)
        return executable(again, backend)


def compiled_in_stages(model: Model, target: str, options: CompileOptions) -> CompiledInStages:
    """A model whose nodes are on several targets, as one callable. Raises UnsupportedError for
    options that only programs of one target have.
    """
    no_program_options(options)

    def make(stage: Model, name: str) -> Compiled:
        backend, pipeline = find(name), Pipeline.asked(options.passes)
        facts, every = backend.target_for(options.request), options.verify_each
        stage = watched(stage, options.checks)
        return executable(lower(stage, facts, pipeline=pipeline, verify_each=every), backend)

    return callable_of(in_stages(model, target, make), options.place)


def specialized(model: Model, sizes: Mapping[str, int] | None = None) -> Model:
    """The model with its open sizes fixed, to the given values or else to their `opt`."""
    given = sizes or {}
    return fixed(model, {name: given.get(name, symbol.opt) for name, symbol in model.dims.items()})


def lower(
    model: Model,
    target: Target,
    *,
    variants: Sequence[Mapping[str, int]] = (),
    observers: Observers = (),
    trace: Trace | None = None,
    pipeline: Pipeline = DEFAULT,
    verify_each: bool = False,
    fuse: bool = True,
    int8: bool = False,
    wanted: document.Asked | None = None,
    every: bool = True,
    memory: MemoryLimit | None = None,
    loop_kernels: bool = True,
) -> Lowered:
    """Model to program: optimise the graph, cut it into groups, schedule each, plan memory.

    Open sizes are read at every call (see `unfixed`); for the sizes of each of `variants` the
    program has steps of its own. `pipeline`, `verify_each`, `observers` and `trace` are passed to
    `optimize`; variants are optimised without the last two. Without `fuse` every node gets a kernel
    of its own. Without `loop_kernels` (or `fuse`) loops of small bodies stay host steps. With
    `int8` the weights of contractions are quantised to 8-bit integers, listed in
    `Lowered.quantised`. `wanted` are schedules by group; with `every`, one for a group that does
    not exist is an error. Raises LimitError for a program that takes more than `memory` however it
    is planned (`recompute`).
    """
    check_one_target(model, target.name)
    chosen = checked(variants, model.dims)
    facts = permitted(replace(target, fast=model.precision == "fast"), model.precision)
    schedules = LoweringCache(permitted_kernels(facts, model), wanted)
    every_pass, loops = verify_each or settings().verify_each, fuse and loop_kernels
    stages = _Stages(schedules, pipeline, every_pass, fuse, int8, memory, loops)
    lowered = stages.run(model, observers, trace)
    programs = [Variant(sizes, stages.run(fixed(model, sizes)).program) for sizes in chosen]
    if every:
        schedules.check_asked()
    if programs:
        lowered = replace(lowered, program=merged(lowered.program, programs))
        check_addressable(lowered.program)
    return lowered


@dataclass(frozen=True, slots=True)
class _Stages:
    """Lowers the variants of a model; groups of equal structure share kernels (`schedules`)."""

    schedules: LoweringCache
    pipeline: Pipeline
    verify_each: bool
    fuse: bool
    int8: bool
    memory: MemoryLimit | None = None
    loop_kernels: bool = True

    def run(self, model: Model, observers: Observers = (), trace: Trace | None = None) -> Lowered:
        """Lowers one model, with fewer loop carries kept where the memory limit asks for that."""
        whole, scale = with_fewer_carries(model, lambda one: self.fitted(one, observers, trace))
        return replace(whole, program=explained(whole.program, model, scale)) if scale else whole

    def fitted(self, model: Model, observers: Observers, trace: Trace | None) -> Lowered:
        """Lowers one model, with smaller temporaries where the memory limit asks for that."""

        def lowered(small: Temporaries) -> Lowered:
            schedules = small.given_to(self.schedules)
            return replace(self, schedules=schedules).lower(model, observers, trace)

        whole, small = with_smaller_temporaries(lowered, self.schedules.target.fast)
        return replace(whole, target=self.schedules.target, program=noted(whole.program, small))

    def lower(self, model: Model, observers: Observers, trace: Trace | None) -> Lowered:
        """Lowers one model to a program."""
        target, asked = self.schedules.target, self.schedules.asked
        weights = Weights.over(model.weights)
        choices = RewriteChoices(self.schedules.rewrites, asked.every_rewrite)
        with paused(), known_sizes():
            graph = optimize(
                model.graph,
                target,
                weights=weights,
                precision=model.precision,
                observers=observers,
                trace=trace,
                pipeline=self.pipeline,
                verify_each=self.verify_each,
                is_kept=is_kept,
                choices=choices,
            )
            if asked.rewrites:
                self.schedules.met(choices.named())
            check_host_calls(graph, target)
            if not self.pipeline.has(ExpandPass):  # else a trace refused some expansions
                check_expanded(graph, target, is_kept)
            own = captured(graph)
            scheduled, done = quantised(own, weights) if self.int8 else (own, None)
            checkpoint("fusion")
            places, fuse = self.schedules.placements, self.fuse
            cut = partition(scheduled, target, fuse=fuse, kind_taken=kind_taken, placements=places)
            self.schedules.check_placements(cut)
            checkpoint("the kernels")
            self.schedules.lowered(cut)
            checkpoint("the memory plan")
            dims = tuple(model.dims.values())
            planner = ProgramPlanner(self.schedules, weights, model.state, dims)
            # the limit is checked once loops are kernels
            for limit in (None, self.memory):
                groups, program = fit_memory(cut, planner, self.schedules, model.state, limit)
                if self.loop_kernels:
                    program = with_loop_kernels(program, target)
                if self.memory is None or self.memory.holds(program):
                    break
            check_addressable(program)
            if model.checks:  # temporaries are written before they are read, too
                verify_program(program)
            program = replace(program, facts={**program.facts, **_facts(model)})
        optimized = replace(model, graph=graph, weights=weights)
        return Lowered(optimized, target, groups, self.schedules, program, cut, done, choices)


def _facts(model: Model) -> dict[str, Any]:
    """Facts of a model that its program carries."""
    facts = {name: getattr(model, name) for name in ("precision", "extents", "forms")}
    facts |= check_facts(model) | {"mesh": model.mesh_of_rank}
    return {key: value for key, value in facts.items() if value}


def executable(lowered: Lowered, backend: Backend) -> Compiled:
    """Program to something that runs: emit, build, load. What was built before is taken from the
    cache. Raises SourceError for a hand-written kernel that is not what it should be.
    """
    whole = agreed(lowered, backend)
    return built(whole.program, whole.target, backend)


def agreed(lowered: Lowered, backend: Backend) -> Lowered:
    """The program, with the fact that its hand-written kernels were compared with their reference
    graphs. Raises SourceError with the first difference.
    """
    if not lowered.target.languages:
        return lowered

    def runs(model: Model) -> Compiled:
        one = lower(model, lowered.target)
        return built(one.program, one.target, backend)

    if not (of_kernels := compared(lowered.partition, lowered.target, runs)):
        return lowered
    facts = {**lowered.program.facts, FACT: of_kernels}
    return replace(lowered, program=replace(lowered.program, facts=facts))
