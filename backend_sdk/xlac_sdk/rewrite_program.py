"""Replaces the kernels of a program, wherever its steps launch them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xlac_sdk.kernel import Kernel
from xlac_sdk.program import Branch, Launch, Program, Repeat, Step, While


def with_kernels(program: Program, change: Callable[[Kernel], Kernel]) -> Program:
    """The same program with every kernel changed, each once."""
    changed = {kernel: change(kernel) for kernel in program.kernels}

    def block(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(map(one, steps))

    def one(step: Step) -> Step:
        match step:
            case Launch(kernel=kernel):
                return replace(step, kernel=changed[kernel])
            case Repeat(body=body):
                return replace(step, body=block(body))
            case While(condition=condition, body=body):
                return replace(step, condition=block(condition), body=block(body))
            case Branch(branches=branches):
                return replace(step, branches=tuple(map(block, branches)))
        return step

    return replace(program, steps=block(program.steps))
