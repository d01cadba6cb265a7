"""Changes the steps of a program, wherever they stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xlac_sdk.kernel import Kernel
from xlac_sdk.program import Branch, Launch, Program, Repeat, Step, While

Steps = tuple[Step, ...]


def with_kernels(program: Program, change: Callable[[Kernel], Kernel]) -> Program:
    """The same program with every kernel changed, each once."""
    changed = {kernel: change(kernel) for kernel in program.kernels}

    def visit(step: Step) -> Steps:
        return (replace(step, kernel=changed[step.kernel]),) if isinstance(step, Launch) else (step,)

    return replace(program, steps=with_steps(program.steps, visit))


def with_steps(steps: Steps, visit: Callable[[Step], Steps]) -> Steps:
    """The steps with what `visit` gives in place of each that has none inside; loops and branches are kept."""
    found: list[Step] = []
    for step in steps:
        match step:
            case Repeat(body=body):
                found.append(replace(step, body=with_steps(body, visit)))
            case While(condition=condition, body=body):
                found.append(replace(step, condition=with_steps(condition, visit), body=with_steps(body, visit)))
            case Branch(branches=branches):
                found.append(replace(step, branches=tuple(with_steps(branch, visit) for branch in branches)))
            case _:
                found += visit(step)
    return tuple(found)
