"""Rewrites the steps of a program, also inside loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.programs.program import (
    Argument,
    Branch,
    Call,
    Choice,
    CollectiveDone,
    CollectiveStart,
    Copy,
    Launch,
    Program,
    Repeat,
    Slot,
    Stamp,
    Step,
    While,
)

Steps = tuple[Step, ...]


def with_kernels(program: Program, change: Callable[[Kernel], Kernel]) -> Program:
    """The program with `change` applied to every kernel once."""
    changed = {kernel: change(kernel) for kernel in program.kernels}

    def visit(step: Step) -> Steps:
        return (
            (replace(step, kernel=changed[step.kernel]),) if isinstance(step, Launch) else (step,)
        )

    return with_leaves(program, visit)


def with_unique_kernels(program: Program, taken: dict[str, Kernel]) -> Program:
    """The program with those kernels renamed whose names others of `taken`, kernels by name, have.
    Adds its kernels to these.
    """

    def named(kernel: Kernel) -> Kernel:
        name, count = kernel.name, 1
        while taken.get(name, kernel) is not kernel:
            count += 1
            name = f"{kernel.name}_{count}"
        same = name == kernel.name
        return taken.setdefault(name, kernel if same else replace(kernel, name=name))

    return with_kernels(program, named)


def with_leaves(program: Program, visit: Callable[[Step], Steps]) -> Program:
    """The program with each leaf step of each entry replaced by the result of `visit`."""
    entries = program.entries
    if entries is not None:
        entries = replace(
            entries,
            first=with_steps(entries.first, visit),
            entries=tuple(replace(e, steps=with_steps(e.steps, visit)) for e in entries.entries),
        )
    return replace(program, steps=with_steps(program.steps, visit), entries=entries)


def with_steps(steps: Steps, visit: Callable[[Step], Steps]) -> Steps:
    """The steps with each leaf step replaced by the result of `visit`; loops and
    branches are kept.
    """
    rewritten: list[Step] = []
    for step in steps:
        inner = _inside(step, lambda part: with_steps(part, visit))
        rewritten += visit(step) if inner is None else (inner,)
    return tuple(rewritten)


def with_slots(steps: Steps, slots: Mapping[Slot, Slot]) -> Steps:
    """The steps with slots replaced according to `slots`, including the flags and indices of loops
    and branches.
    """

    def at(argument: Argument) -> Argument:
        slot = slots.get(argument.slot)
        return replace(argument, slot=slot) if slot else argument

    return with_arguments(steps, at)


def with_arguments(steps: Steps, at: Callable[[Argument], Argument]) -> Steps:
    """The steps with `at` applied to every argument, including the flags and indices of loops and
    branches.
    """

    def one(step: Step) -> Step:
        step = _inside(step, lambda part: with_arguments(part, at)) or step
        match step:
            case Launch() | Call():
                return replace(step, arguments=tuple(map(at, step.arguments)))
            case Copy() | CollectiveStart() | CollectiveDone():
                return replace(step, target=at(step.target), source=at(step.source))
            case While():
                return replace(step, flag=at(step.flag))
            case Branch():
                return replace(step, index=at(step.index))
            case Stamp():
                return replace(step, log=at(step.log))
            case Repeat() | Choice():
                return step

    return tuple(map(one, steps))


def _inside(step: Step, change: Callable[[Steps], Steps]) -> Step | None:
    """A step with its nested steps changed; None for a leaf step."""
    match step:
        case Repeat(body=body):
            return replace(step, body=change(body))
        case While(condition=condition, body=body):
            return replace(step, condition=change(condition), body=change(body))
        case Branch(branches=branches):
            return replace(step, branches=tuple(map(change, branches)))
        case Choice(cases=cases, otherwise=otherwise):
            cases = tuple(replace(case, steps=change(case.steps)) for case in cases)
            return replace(step, cases=cases, otherwise=change(otherwise))
    return None
