"""Step, evaluation and model as one program with several entries: what `xlac build` writes for a
spec with a section `train`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from xlac.autodiff.checkpoints import checkpointing, scans
from xlac.autodiff.errors import NoDerivativeError
from xlac.driver import Lowered
from xlac.ir.graph import Graph
from xlac.model import Model
from xlac.program_variants import Merging
from xlac.spec.report import Fault
from xlac.spec.training.section import Training
from xlac.spmd.model import DATA, mesh_of, parsed
from xlac.support.failures import FACT, checks_of
from xlac.training.graphs import TrainingGraphs
from xlac.training.settings import settings_of_program
from xlac.training.state import LENGTH
from xlac.training.step import FINITE, training_graphs
from xlac_sdk.programs.entries import Entries, Entry
from xlac_sdk.programs.fingerprint import fingerprint
from xlac_sdk.programs.program import (
    RECORD,
    Argument,
    Copy,
    Program,
    Role,
    Slot,
    Step,
    alignment_of,
)
from xlac_sdk.programs.rewrite import with_slots
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError


def graphs_of(
    model: Model, training: Training, mesh: str | Mapping[str, int] | None = None
) -> TrainingGraphs:
    """`training_graphs`, its exceptions turned into diagnostics: UnsupportedError where there is no
    derivative, or where the batch has no equal parts for statistics of ranks' own, and SourceError
    for an optimizer that cannot update one of its weights. `mesh` are the sizes given for the ranks
    that train together.
    """
    if mesh is not None and training.statistics == "local":
        ranks = mesh_of(model.ranks, parsed(mesh) if isinstance(mesh, str) else mesh)
        training = replace(training, parts=ranks.sizes.get(DATA, 1))
    try:
        return _with_checkpoints(training_graphs(model, training), model, training)
    except NoDerivativeError as error:
        span = error.node.origin.span if error.node.origin else None
        raise UnsupportedError(Diagnostic("XL2042", str(error), span, error.hint)) from None
    except Fault as fault:
        raise SourceError(fault.diagnostic) from None


def _with_checkpoints(graphs: TrainingGraphs, model: Model, training: Training) -> TrainingGraphs:
    """The graphs, and a function that makes those whose loops keep fewer carries for the backward
    pass.
    """
    roots = (n for one in training.objectives for n in one.loss.nodes())
    if not any(scans(Graph("losses", (), {f"{n}": root for n, root in enumerate(roots)}))):
        return graphs

    def again(name: str, scale: float) -> Graph:
        with checkpointing(scale):
            return training_graphs(model, training).entry(name).graph

    learning = ("step", *graphs.accumulate)
    models = {
        name: replace(one, checkpointed=partial(again, name)) if name in learning else one
        for name, one in graphs.entries.items()
    }
    return with_entries(graphs, models)


def with_entries(graphs: TrainingGraphs, models: Mapping[str, Model]) -> TrainingGraphs:
    """The same training by other models, by entry name."""
    return replace(
        graphs,
        step=models["step"],
        evaluate=models["evaluate"],
        run=models["run"],
        averaged={name: models[name] for name in graphs.averaged},
        accumulate={name: models[name] for name in graphs.accumulate},
    )


def training_program(
    name: str, graphs: TrainingGraphs, lowered: Callable[[Model, bool], Lowered]
) -> Lowered:
    """The program of the model, called `name`, with further entries: `step` and `evaluate`,
    `accumulate` where a step has several micro-batches, and those that use averaged weights. Its
    state begins with the initial weights. The other fields of the result are the step's.

    `lowered` compiles a graph to a program; its flag says whether observers (dumps, reports) are to
    see it. All entries share the state, by name, and constants of equal data; their temporaries
    share one arena.
    """
    lowered_step = lowered(graphs.step, True)
    others = {"evaluate": graphs.evaluate, **graphs.averaged, **graphs.accumulate}
    programs = {kind: lowered(model, False).program for kind, model in others.items()}
    run = lowered(graphs.run, False).program
    merged = _EntryMerger(run, graphs).merged(name, {"step": lowered_step.program, **programs})
    return replace(lowered_step, program=merged)


class _EntryMerger:
    """Merges programs over one state into a program with entries."""

    def __init__(self, run: Program, graphs: TrainingGraphs) -> None:
        self.checks, self.align = checks_of(run.facts), alignment_of(run)
        self.run, _ = self.inside(run)
        self.graphs = graphs
        self.merging = Merging(self.run)
        self.arena_bytes = self.run.arena_bytes

    def merged(self, name: str, programs: Mapping[str, Program]) -> Program:
        for one in programs.values():
            if one.sizes != self.run.sizes:
                problem = "the step, the evaluation and the model take different sizes"
                raise UnsupportedError(Diagnostic("XL5010", problem, hint="fix them with --dim"))
        entries = Entries(
            tuple(self.entry(kind, one) for kind, one in programs.items()),
            tuple(self.initial_state()),
            settings_of_program(self.graphs, self.states()),
        )
        merging = self.merging
        live = max(one.facts["live_bytes"] for one in (self.run, *programs.values()))
        return replace(
            self.run,
            name=name,
            slots=tuple(merging.slots),
            constants=merging.constants,
            arena_bytes=self.arena_bytes,
            state_bytes=merging.state_bytes,
            facts={**self.facts(), "live_bytes": live},
            entries=entries,
        )

    def facts(self) -> dict[str, Any]:
        """The facts of the model's program; of a checked one, where the record is."""
        facts = {name: fact for name, fact in self.run.facts.items() if name != FACT}
        texts = tuple(check.text for check in self.checks)
        return facts | ({RECORD: {"offset": self.align, "texts": texts}} if texts else {})

    def inside(self, program: Program) -> tuple[Program, Slot | None]:
        """`_with_results_inside`: with the record of its checks, where it has such."""
        return _with_results_inside(program, program.outputs[-1] if self.checks else None)

    def entry(self, name: str, program: Program) -> Entry:
        """A program as an entry. The flag that gradients were finite, and the record of a checked
        program, are no outputs of the entry, but temporaries that the runtime reads.
        """
        program, finite = self.inside(program)
        self.arena_bytes = max(self.arena_bytes, program.arena_bytes)
        for slot in (*program.inputs, *program.outputs):
            self.add_interface_slot(name, slot)
        steps = self.merging.steps(name, program)
        ends = [s for s in self.merging.slots if finite and s.symbol == f"{name}_{finite.symbol}"]
        first = {slot.name: n for n, slot in enumerate(self.run.inputs)}
        inputs = sorted(program.inputs, key=lambda slot: first.get(slot.name, len(first)))
        covers = any(tensor.name == LENGTH for tensor in self.graphs.state)
        return Entry(
            name,
            tuple(self.fixed(slot) for slot in inputs),
            tuple(self.fixed(slot) for slot in program.outputs),
            steps,
            ends[0] if ends else None,
            self.state(LENGTH) if covers and name == "step" else None,
        )

    def add_interface_slot(self, name: str, slot: Slot) -> None:
        """Shares an input or output with an earlier entry where name and type are equal; else adds
        one.
        """
        key = slot.role, slot.name
        held = self.merging.fixed.get(key)
        if held is None or (held.dtype, held.shape) != (slot.dtype, slot.shape):
            self.merging.fixed[key] = self.merging.added(name, slot)

    def fixed(self, slot: Slot) -> Slot:
        return self.merging.fixed[slot.role, slot.name]

    def state(self, name: str) -> Slot:
        return self.merging.fixed[Role.STATE, name]

    def states(self) -> dict[str, Slot]:
        """The slots of the state tensors by name."""
        return {n: slot for (role, n), slot in self.merging.fixed.items() if role is Role.STATE}

    def initial_state(self) -> list[Step]:
        """Copies of initial values to the state tensors that do not begin as zeros."""
        merging, steps = self.merging, list[Step]()
        for number, tensor in enumerate(self.graphs.state):
            data = np.ascontiguousarray(tensor.initial())
            if not data.reshape(-1).view(np.uint8).any():
                continue
            kept = self.state(tensor.name)
            key = fingerprint(data)
            if key not in merging.held:
                slot = replace(kept, symbol=f"value{number}", role=Role.CONSTANT, offset=0)
                merging.held[key] = merging.added("first", slot)
                merging.constants[merging.held[key].symbol] = data
            source = Argument(merging.held[key])
            steps.append(Copy(Argument(kept), source, kept.size))
        return steps


def _with_results_inside(program: Program, record: Slot | None) -> tuple[Program, Slot | None]:
    """The program with its output FINITE as a temporary at offset 0 of the arena, and that slot;
    its output `record` is one after it.
    """
    flag = next((slot for slot in program.outputs if slot.name == FINITE), None)
    if flag is None and record is None:
        return program, None
    align = alignment_of(program)
    room = align if record is None else 2 * align
    changed = {
        slot: replace(slot, offset=slot.offset + room)
        for slot in program.slots
        if slot.role is Role.TEMPORARY
    }
    if flag is not None:
        changed[flag] = replace(flag, role=Role.TEMPORARY, align=align)
    if record is not None:
        changed[record] = replace(record, role=Role.TEMPORARY, offset=align, name="", align=align)
    inner = replace(
        program,
        outputs=tuple(slot for slot in program.outputs if slot not in (flag, record)),
        slots=tuple(changed.get(slot, slot) for slot in program.slots),
        steps=with_slots(program.steps, changed),
        arena_bytes=program.arena_bytes + room,
    )
    return inner, None if flag is None else changed[flag]
