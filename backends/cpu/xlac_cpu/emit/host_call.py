"""Calls of Python functions between kernels: `xlac_sdk/programs/host_calls.py`."""

from __future__ import annotations

from collections.abc import Sequence

from xlac_cpu.emit.writer import LlvmWriter


def call(w: LlvmWriter, number: int, pointers: Sequence[str], place: int, block: str) -> None:
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
