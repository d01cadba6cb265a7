"""Every buffer of a program over its steps: where it lies, and from when to when it is used."""

from __future__ import annotations

from typing import Any

from xlac_sdk.programs.lifetimes import StepNames, lives
from xlac_sdk.programs.program import Program, Role, Slot

NAMED = (Role.INPUT, Role.OUTPUT, Role.STATE)


def memory_json(program: Program) -> dict[str, Any]:
    """The section `memory`: buffers of the arena with their bytes, offset, first and last step; all
    others by their bytes alone; and how many bytes are alive at each step.
    """
    names = StepNames()
    lifetimes = lives(program, names)
    used = [slot for slot in program.slots if slot.role is Role.TEMPORARY and slot.nbytes]
    steps = max(names, default=0)
    alive = [0] * (steps + 2)
    buffers = []
    for slot in used:
        if slot not in lifetimes:
            continue
        first, last = lifetimes[slot]
        buffers.append({**_slot(slot), "offset": slot.offset, "first": first, "last": last})
        alive[first] += slot.nbytes
        if last + 1 < len(alive):
            alive[last + 1] -= slot.nbytes
    for step in range(1, len(alive)):
        alive[step] += alive[step - 1]
    alive = alive[: steps + 1]
    return {
        "arena": program.arena_bytes,
        "live": int(program.facts.get("live_bytes", program.arena_bytes)),
        "constants": sum(s.nbytes for s in program.slots if s.role is Role.CONSTANT),
        "state": program.state_bytes,
        "steps": [names.get(step, "") for step in range(steps + 1)],
        "alive": alive,
        "buffers": buffers,
        "others": [{**_slot(s), "role": s.role.value} for s in program.slots if s.role in NAMED],
    }


def _slot(slot: Slot) -> dict[str, Any]:
    return {
        "symbol": slot.symbol,
        "name": slot.name or (slot.origin.name if slot.origin else ""),
        "type": f"{slot.dtype}[{', '.join(map(str, slot.shape))}]",
        "bytes": slot.nbytes,
    }
