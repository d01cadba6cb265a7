"""Formats bytes and memory usage."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlac_sdk.programs.program import Program


def peak(program: Program) -> str:
    """The bytes that a call needs: those of the memory plan, plus the caller's inputs and
    outputs.
    """
    from xlac_sdk.programs.program import Role

    constants = sum(s.nbytes for s in program.slots if s.role is Role.CONSTANT)
    return memory(program.arena_bytes, constants, program.state_bytes)


def memory(arena: int, weights: int, state: int) -> str:
    """The parts of the memory that a call needs, and their sum."""
    kept = f", {state:,} bytes of state" if state else ""
    return (
        f"peak memory {arena + weights + state:,} bytes: {arena:,} arena, {weights:,} weights{kept}"
    )


def size(nbytes: int) -> str:
    """Bytes in the largest unit that fits."""
    value = float(nbytes)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"
