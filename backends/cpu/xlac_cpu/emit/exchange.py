"""Calls of functions of the host between kernels: those by which ranks exchange values
(`xlac_sdk/host/ranks/communicator.py`), and Python functions (`xlac_sdk/programs/host_calls.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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


def host_call(w: LlvmWriter, number: int, pointers: Sequence[str], place: int, block: str) -> None:
    """Writes a call, and leaves where Python raised. `place` is that of the table of functions
    among the addresses in `fixed`, `block` the address of the call's stop block.
    """
    where = w.fresh(f"getelementptr ptr, ptr %fixed, i64 {place}")
    table = w.fresh(f"load ptr, ptr {where}, align 8")
    function = w.fresh(f"load ptr, ptr {table}, align 8")
    addresses = w.stack(f"[{max(1, len(pointers))} x ptr]")
    for at, pointer in enumerate(pointers):
        cell = w.fresh(f"getelementptr ptr, ptr {addresses}, i64 {at}")
        w.do(f"store ptr {pointer}, ptr {cell}, align 8")
    raised = w.fresh(f"call i32 {function}(i64 {number}, ptr {addresses}, ptr {block})")
    go = w.name("on")
    w.do(f"br i1 {w.fresh(f'icmp ne i32 {raised}, 0')}, label %leave, label %{go}")
    w.label(go)


def ahead() -> UnsupportedError:
    """The error for collectives in code that is compiled ahead of time."""
    problem = "code built ahead of time has no collectives"
    return UnsupportedError(
        Diagnostic("XL7806", problem, hint="mpirun -n … xlac run SPEC --mesh …")
    )
