"""Loops of small bodies become one kernel each, with the loop inside.

The steps of a scan or a while are launches of kernels; a body of a few numbers takes less time than
its launches, and than the way of its values through memory from one launch to the next. A loop is
merged where (`_Estimate`)

* every step in it is a launch of a serial kernel, a copy, a branch, or a loop of such steps,
* its launches take a part of its time that is worth it, and it is not long as text,
* what it needs of memory for itself fits in half of the first cache, where it is local.

Values that a loop carries at one place, and are small, are local as well, copied in before the loop
and out after it, so that compilers keep them in registers. A `while` becomes a host loop around
launches of up to `TURNS` iterations, each of which tests the flag: a call is still stopped, and
signals are seen, between them. Counted loops are divided by `xlac_sdk/lowering/stop_checks.py` as
any loop of a kernel.
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
)
from xlac_sdk.target import Target

LAUNCH = 20.0  # nanoseconds of a launch, with what its arguments cost that pass through memory
WORTH = 0.05  # the part of a loop's time in its launches from which on it is merged
MOST_STATEMENTS = 1500  # of all kernels of a loop: compile time grows faster than their number


def with_loop_kernels(program: Program, target: Target) -> Program:
    """The program with small loops as kernels; the same object where there are none, or its
    device launches whole grids.
    """
    if target.device != "cpu":
        return program
    merger = _Merger(program, target)
    steps = merger.steps(program.steps)
    if not merger.made:
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
        self.made = 0
        self.fresh = numbers()

    def steps(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """Steps in order, with merged loops."""
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
            made = writer.steps()
            if made:
                self.made += 1
                self.local |= local
                return made
        if isinstance(step, Repeat):
            return (replace(step, body=self.steps(step.body)),)
        condition = self.steps(step.condition)
        return (replace(step, condition=condition, body=self.steps(step.body)),)


def _pays(step: Repeat | While) -> bool:
    """Whether a loop may be merged, and its launches take a part of its time that is worth it."""
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
    """What an iteration of a loop launches, and takes."""

    def __init__(self) -> None:
        self.launches = self.time = 0.0
        self.statements = 0
        self.allowed = True

    def add(self, steps: tuple[Step, ...], times: float) -> None:
        """Counts steps that run so many times an iteration."""
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
