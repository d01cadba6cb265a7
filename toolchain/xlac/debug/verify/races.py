"""Finds parallel loops whose iterations are not independent: in reverse order the results
differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from xlac_sdk.dtypes import Array
from xlac_sdk.interpreter.kernels import run_kernel
from xlac_sdk.kernel_ir.build import add, div, mul, sub
from xlac_sdk.kernel_ir.kernel import Expr, Kernel
from xlac_sdk.kernel_ir.rewrite import KernelRewriter
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.rewrite import with_kernels

MOST = 1 << 20  # operations of a kernel up to which the interpreter runs it


def backwards(program: Program) -> Program | None:
    """The program with every parallel loop in reverse order; None where it has none."""
    changed = with_kernels(program, turned)
    return None if changed.kernels == program.kernels else changed


def turned(kernel: Kernel) -> Kernel:
    """A kernel with its parallel loop in reverse order; unchanged where it has none."""
    loop = kernel.parallel
    if loop is None:
        return kernel
    # the sum of the first and the last iteration's counter
    rounds = div(sub(sub(loop.stop, loop.start), 1), loop.step)
    ends = add(add(loop.start, loop.start), mul(rounds, loop.step))

    def visit(node: Expr) -> Expr:
        return sub(ends, loop.counter) if node == loop.counter else node

    body = KernelRewriter(visit).block(loop.body)
    return replace(kernel, body=(replace(loop, body=body),))


def order_matters(kernel: Kernel) -> bool:
    """Whether a kernel, on random data in the SDK's interpreter, gives other results in reverse
    order. Long kernels, and those with open sizes, are not run.
    """
    if kernel.parallel is None or kernel.sizes or kernel.work.flops > MOST:
        return False
    results = [_ran(kernel), _ran(turned(kernel))]
    return any(results[0][name].tobytes() != array.tobytes() for name, array in results[1].items())


def _ran(kernel: Kernel) -> Mapping[str, Array]:
    generator = np.random.default_rng(0)
    given = {}
    for buffer in kernel.parameters:
        size = buffer.size
        assert isinstance(size, int), "a kernel without open sizes"
        if buffer.dtype.is_float:
            given[buffer.name] = generator.standard_normal(size).astype(buffer.dtype.numpy)
        else:
            given[buffer.name] = generator.integers(0, 2, size).astype(buffer.dtype.numpy)
    run_kernel(kernel, given)
    return given
