"""Calls of the functions by which ranks exchange values: `xlac_sdk/host/ranks/communicator.py`."""

from __future__ import annotations

from collections.abc import Callable

from xlac_cpu.emit.writer import LlvmWriter
from xlac_sdk.programs.program import Argument
from xlac_sdk.programs.steps import Collective, CollectiveStart
from xlac_sdk.source import Diagnostic, UnsupportedError


def call(w: LlvmWriter, step: Collective, pointer: Callable[[Argument], str], place: int) -> None:
    """Writes the call for a step; `place` is that of the table of functions among the addresses in
    `fixed`.
    """
    where = w.fresh(f"getelementptr ptr, ptr %fixed, i64 {place}")
    table = w.fresh(f"load ptr, ptr {where}, align 8")
    number = step.exchange.number
    if isinstance(step, CollectiveStart):
        function = w.fresh(f"load ptr, ptr {table}, align 8")
        source, target = pointer(step.source), pointer(step.target)
        w.do(f"call void {function}(ptr {table}, i64 {number}, ptr {source}, ptr {target})")
        return
    second = w.fresh(f"getelementptr ptr, ptr {table}, i64 1")
    function = w.fresh(f"load ptr, ptr {second}, align 8")
    w.do(f"call void {function}(ptr {table}, i64 {number})")


def ahead() -> UnsupportedError:
    """The error for collectives in code that is compiled ahead of time."""
    problem = "code built ahead of time has no collectives"
    return UnsupportedError(
        Diagnostic("XL7806", problem, hint="mpirun -n … xlac run SPEC --mesh …")
    )
