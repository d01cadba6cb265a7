"""Merges loops with small bodies into one kernel each, with the loop inside.

The steps of a scan or a while are launches of kernels; a body of a few scalars takes less time than
its launches, and than passing its values through memory from one launch to the next. A loop is
merged where (`_Estimate`)

* every step in it is a launch of a serial kernel, a copy, a branch, or a loop of such steps, and a
  launch takes the buffers of all,
* its launches take at least `WORTH` of its time, and it has at most `MOST_STATEMENTS`,
* the temporaries that it alone uses fit in half of the first-level cache; they become local.

Small values that a loop carries in one place become local as well, copied in before the loop and
out after it, so that compilers keep them in registers. A `while` becomes a host loop around
launches of up to `TURNS` iterations, each of which tests the condition, so that a call can be
stopped, and signals are handled, between launches. Counted loops are divided by
`xlac_sdk/lowering/stop_checks.py` like any loop of a kernel.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count as numbers

from xlac.memory.arena import ALIGN
from xlac.memory.loops.inlining import is_serial
from xlac.memory.loops.loop_writer import LoopWriter
from xlac_sdk.dims import size_hint
from xlac_sdk.kernel_ir.kernel import statements
from xlac_sdk.lowering.loop_times import BYTES, known_time
from xlac_sdk.programs.program import (
    Branch,
    Choice,
    Copy,
    Launch,
    Program,
    Repeat,
    Role,
    Slot,
    Step,
    While,
    arguments,
    walk,
)
from xlac_sdk.target import Target

LAUNCH = 20.0  # nanoseconds of a launch, with passing its arguments through memory
WORTH = 0.05  # a loop is merged when its launches take at least this part of its time
MOST_STATEMENTS = 1500  # in all kernels of a loop: compile time grows faster than their number


def with_loop_kernels(program: Program, target: Target) -> Program:
    """The program with small loops as kernels; the same object where there are none, or where the
    device launches whole grids.
    """
    if target.device != "cpu":
        return program
    merger = _Merger(program, target)
    steps = merger.steps(program.steps)
    if not merger.merged:
        return program
    slots = tuple(slot for slot in program.slots if slot not in merger.local)
    end = max((s.offset + s.nbytes for s in slots if s.role is Role.TEMPORARY), default=0)
    arena = min(program.arena_bytes, -(-end // ALIGN) * ALIGN)
    live = min(program.facts.get("live_bytes", arena), arena)
    facts = {**program.facts, "live_bytes": live}
    return replace(program, steps=steps, slots=slots, arena_bytes=arena, facts=facts)


class _Merger:
    """Merges the loops of one program."""

    def __init__(self, program: Program, target: Target) -> None:
        self.program, self.target = program, target
        self.uses = Counter(a.slot for a in arguments(program.every_step))
        self.written = {
            slot for slot in program.slots if slot.role in (Role.INPUT, Role.CONSTANT, Role.STATE)
        }
        self.local: set[Slot] = set()
        self.merged = 0
        self.fresh = numbers()

    def steps(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """The steps in order, with merged loops."""
        merged: list[Step] = []
        for step in steps:
            match step:
                case Repeat() | While():
                    merged += self.loop(step)
                case Branch(branches=branches):
                    step = replace(step, branches=tuple(map(self.steps, branches)))
                    merged.append(step)
                case Choice(cases=cases, otherwise=otherwise):
                    cases = tuple(replace(c, steps=self.steps(c.steps)) for c in cases)
                    merged.append(replace(step, cases=cases, otherwise=self.steps(otherwise)))
                case _:
                    merged.append(step)
            self.written |= {a.slot for a in arguments((step,))}
        return tuple(merged)

    def loop(self, step: Repeat | While) -> tuple[Step, ...]:
        """A loop as a kernel, or the loop with those inside it merged."""
        inside = Counter(a.slot for a in arguments((step,)))
        local = {
            slot
            for slot, uses in inside.items()
            if slot.role is Role.TEMPORARY and uses == self.uses[slot]
        }
        if isinstance(step, While):
            local.discard(step.flag.slot)  # the host reads it
        room = sum(slot.nbytes for slot in local)
        if room <= self.target.shipped.l1_bytes // 2 and _pays(step):
            writer = LoopWriter(step, self.target, local, self.written, self.fresh)
            steps = writer.steps()
            if steps and self._takes(steps):
                self.merged += 1
                self.local |= local
                return steps
        if isinstance(step, Repeat):
            return (replace(step, body=self.steps(step.body)),)
        condition = self.steps(step.condition)
        return (replace(step, condition=condition, body=self.steps(step.body)),)

    def _takes(self, steps: tuple[Step, ...]) -> bool:
        """Whether launches take the buffers of these."""
        most = self.target.most_buffers
        launches = [step for step in walk(steps) if isinstance(step, Launch)]
        return not most or all(len(launch.arguments) <= most for launch in launches)


def _pays(step: Repeat | While) -> bool:
    """Whether a loop can be merged, and its launches take at least `WORTH` of its time."""
    estimate = _Estimate()
    if isinstance(step, While):
        estimate.add((*step.condition, *step.body), 1.0)
    else:
        estimate.add(step.body, 1.0)
    return (
        estimate.allowed
        and estimate.statements <= MOST_STATEMENTS
        and estimate.launches * LAUNCH >= WORTH * estimate.time
    )


class _Estimate:
    """The launches and the time of one iteration of a loop."""

    def __init__(self) -> None:
        self.launches = self.time = 0.0
        self.statements = 0
        self.allowed = True

    def add(self, steps: tuple[Step, ...], times: float) -> None:
        """Counts steps that run `times` times per iteration."""
        for step in steps:
            match step:
                case Launch(kernel=kernel):
                    self.allowed &= is_serial(kernel)
                    self.statements += sum(1 for _ in statements(kernel.body))
                    self.launches += times
                    self.time += times * known_time(kernel)
                case Copy(count=count, target=target):
                    self.launches += times
                    nbytes = size_hint(count) * target.slot.dtype.nbytes
                    self.time += times * nbytes / BYTES
                case Repeat(count=count, body=body):
                    self.add(body, times * size_hint(count))
                case Branch(branches=branches):
                    for branch in branches:
                        self.add(branch, times)
                case _:
                    self.allowed = False
