"""A program as its device launches it: every kernel a grid, in the target's primitives and within
its limits.
"""

from __future__ import annotations

from xlac_sdk.kernel_ir.bounds import bounds
from xlac_sdk.kernel_ir.grid import grid
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.lowering.legalize import legalize, placed
from xlac_sdk.lowering.long_integers.split import split_long_integers, with_long_integers
from xlac_sdk.lowering.spread import THREADS, spread
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.rewrite import with_kernels
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.target import Target


def grids(program: Program, target: Target) -> Program:
    """The program with each kernel legalized and spread. On a processor a work-item runs as many
    iterations as are worth a task, on a GPU each iteration is a thread. Raises UnsupportedError for
    a kernel beyond the target's limits, with its operations.
    """
    fast = program.facts.get("precision") == "fast"
    known = with_long_integers(target) if target.splits_long_integers else target
    gpu = target.device == "gpu"
    threads = min(THREADS, target.block_threads or THREADS) if gpu else 1

    def launchable(kernel: Kernel) -> Kernel:
        legal = legalize(kernel, known, fast)
        ready = spread(legal, threads, not gpu, target.most_blocks, target.most_rows)
        if target.splits_long_integers:
            ready = split_long_integers(ready, target)
        check_limits(ready, target)
        return ready

    return with_kernels(program, launchable)


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
