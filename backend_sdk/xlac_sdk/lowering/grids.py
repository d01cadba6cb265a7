"""A program as its device launches it: every kernel a grid, in the target's primitives and within
its limits.
"""

from __future__ import annotations

from functools import partial
from math import gcd

from xlac_sdk.kernel_ir.bounds import bounds
from xlac_sdk.kernel_ir.grid import grid
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.kernel_ir.rewrite import aligned
from xlac_sdk.lowering.alignment import alignments
from xlac_sdk.lowering.copies import copies_as_kernels
from xlac_sdk.lowering.legalize import legalize, placed
from xlac_sdk.lowering.long_integers.split import split_long_integers, with_long_integers
from xlac_sdk.lowering.outline import with_functions
from xlac_sdk.lowering.spread import THREADS, spread
from xlac_sdk.programs.program import Program, Role, Slot
from xlac_sdk.programs.rewrite import with_kernels
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.target import Target


def grids(program: Program, target: Target) -> Program:
    """The program with each kernel legalized and spread, and copies that the device cannot make as
    kernels. On a processor a work-item runs as many
    iterations as are worth a task, on a GPU each iteration is a thread. The alignment of parameters
    is that in every launch. Raises UnsupportedError for a kernel beyond the target's limits, with
    its operations.
    """
    fast = program.facts.get("precision") == "fast"
    known = with_long_integers(target) if target.splits_long_integers else target
    gpu = target.device == "gpu"
    threads = min(THREADS, target.block_threads or THREADS) if gpu else 1
    start = partial(_start, target.storage_alignment)
    program = copies_as_kernels(program, target.copy_alignment, start)
    starts = alignments(program, start)
    legalized = with_functions if target.functions else legalize

    def launchable(kernel: Kernel) -> Kernel:
        least = (min(b.align, n) for b, n in zip(kernel.parameters, starts[kernel], strict=True))
        legal = legalized(aligned(kernel, tuple(least)), known, fast)
        ready = spread(legal, threads, not gpu, target.most_blocks, target.most_rows)
        if target.splits_long_integers:
            ready = split_long_integers(ready, target)
        check_limits(ready, target)
        return ready

    return with_kernels(program, launchable)


def _start(storage: int, slot: Slot) -> int:
    """The known alignment of a slot's address, where allocations have that of `storage`."""
    return gcd(storage, slot.offset if slot.role in (Role.TEMPORARY, Role.STATE) else slot.align)


def check_limits(kernel: Kernel, target: Target) -> None:
    """Raises UnsupportedError for a grid with more buffers, threads or shared memory than the
    target's launches may have, with the operations that it computes.
    """
    form = grid(kernel)
    assert form is not None, f"kernel {kernel.name} is no grid"
    most = target.most_blocks * target.most_rows
    needs = (
        ("buffers", len(kernel.parameters), target.most_buffers),
        ("threads of a block", form.threads, target.block_threads),
        ("bytes of shared memory", form.shared_bytes, target.shared_bytes),
        ("blocks", bounds(form.blocks)[1] or 0, most),
    )
    for what, needed, limit in needs:
        if limit and needed > limit:
            problem = f"a kernel needs {needed:,} {what}, of {limit:,} that '{target.name}' has"
            hint = "`--no-fusion` makes more, smaller kernels" if what == "buffers" else ""
            error = UnsupportedError(Diagnostic("XL5010", problem, hint=hint))
            raise placed(error, kernel)
