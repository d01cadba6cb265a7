"""LLVM's passes over whole modules.

What llvmlite 0.50 leaves in memory is avoided where that is possible. A builder of passes leaves
1,488 bytes, and each run adds a callback to its builder, of 32 bytes, that all later runs call and
that is never freed: so a builder serves a number of modules, but not every one of a long process.
A manager's `close` frees nothing (its class inherits an empty `_dispose` before the right one).
`tests/stress/llvm_leaks.py` measures all of this.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from itertools import count
from typing import Any

from xlac_cpu.emit.function import PRODUCTS
from xlac_cpu.llvm.generator import code_generator
from xlac_cpu.machine import Machine

RUNS = 128  # functions that one builder of two or three passes serves
DEFAULT_RUNS = 16  # and one of LLVM's own pipelines, which call its callbacks often
_runs, _default_runs = count(), count()
_PRODUCTS = f'"{PRODUCTS}"'.encode()


def simplify(module: Any, machine: Machine) -> None:
    """Two or three passes over each function: what is written with explicit vectors and unrolling
    needs no others, and this takes a tenth of the time of -O3.
    """
    for function in module.functions:
        if not function.is_declaration:
            combined = machine.size or _PRODUCTS not in b"".join(function.attributes)
            builder = _builder(machine, 2, False, next(_runs) // RUNS)
            _simplification(combined).run(function, builder)


def shrink(module: Any, machine: Machine) -> None:
    """LLVM's pipeline for size: inlines functions called once, and the like."""
    _default(module, machine, 2, False)


def optimise_fully(module: Any, machine: Machine) -> None:
    """LLVM's -O3, with loops vectorized and unrolled: for what people wrote."""
    _default(module, machine, 3, True)


def _default(module: Any, machine: Machine, level: int, loops: bool) -> None:
    builder = _builder(machine, level, loops, next(_default_runs) // DEFAULT_RUNS)
    with _freed(builder.getModulePassManager()) as passes:  # a run uses it up
        passes.run(module, builder)


@lru_cache(maxsize=4)
def _builder(machine: Machine, level: int, loops: bool, _generation: int) -> Any:
    import llvmlite.binding as llvm

    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = loops
    return llvm.create_pass_builder(code_generator(machine), options)


@cache
def _simplification(combined: bool) -> Any:
    import llvmlite.binding as llvm

    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    if combined:
        passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    return passes


@contextmanager
def _freed(passes: Any) -> Iterator[Any]:
    """A manager of passes that is freed at the end of a `with` statement."""
    from llvmlite.binding.newpassmanagers import NewPassManager

    try:
        yield passes
    finally:
        NewPassManager._dispose(passes)
        passes.detach()
