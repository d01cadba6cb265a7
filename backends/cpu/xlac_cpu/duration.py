"""Rough run time on one thread of a slow core, at the sizes to optimise for."""

from __future__ import annotations

from xlac_sdk.dims import size_hint
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.programs.program import Branch, Choice, Copy, Launch, Repeat, Step, While

FLOPS_PER_NS, BYTES_PER_NS = 20, 10
ENDLESS = 1e9  # assumed iterations of a loop of unknown length


def nanoseconds(kernel: Kernel) -> float:
    """Of a kernel."""
    return max(kernel.work.flops / FLOPS_PER_NS, kernel.work.bytes / BYTES_PER_NS)


def estimate(steps: tuple[Step, ...]) -> float:
    """Of steps, in nanoseconds, along the longest path."""
    total = 0.0
    for step in steps:
        match step:
            case Launch(kernel=kernel):
                total += nanoseconds(kernel)
            case Copy(count=count, target=target):
                total += size_hint(count) * target.slot.dtype.nbytes / BYTES_PER_NS
            case Repeat(count=count, body=body):
                total += size_hint(count) * estimate(body)
            case While():
                total += ENDLESS
            case Branch(branches=branches):
                total += max(map(estimate, branches), default=0.0)
            case Choice():
                total += max(map(estimate, step.paths))
    return total
