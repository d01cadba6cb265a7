"""What a call needs to know of a program, as JSON: its slots, sizes and facts, but no steps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from xlac.cache.slots import constants_of, slot_from_json, slot_to_json
from xlac_sdk.backend import Backend
from xlac_sdk.dims import Symbol
from xlac_sdk.programs.program import Program
from xlac_sdk.target import Target


def record_text(program: Program, target: Target, code: str, backend: Backend) -> str | None:
    """The record of a program whose code is kept by the name `code`; None where loading it needs
    more, such as its steps.
    """
    summary = backend.summary(program)
    if summary is None:
        return None
    work = program.work
    counted = {"flops": work.flops, "bytes": work.bytes, **summary}
    # one that was loaded from a record has no steps, and these facts of the program that had them
    facts = {**program.facts, **counted} if program.steps else {**counted, **program.facts}
    try:
        record: dict[str, Any] = {
            "name": program.name,
            "slots": [slot_to_json(slot) for slot in program.slots],
            "inputs": [program.slots.index(s) for s in program.inputs],
            "outputs": [program.slots.index(s) for s in program.outputs],
            "arena_bytes": program.arena_bytes,
            "state_bytes": program.state_bytes,
            "facts": facts,
            "sizes": [asdict(symbol) for symbol in program.sizes],
            "code": code,
            "built_for": target.to_json(),
        }
        text = json.dumps(record)
    except (TypeError, ValueError):
        return None
    # facts that are not equal after a round trip through JSON cannot be kept
    return text if json.loads(text)["facts"] == facts else None


def program_of(record: Mapping[str, Any], constants: str, copy: bool) -> Program:
    """The program of a record, with the constants in a file, mapped unless `copy`. Raises KeyError,
    TypeError and others for what is no record.
    """
    symbols = [Symbol(**size) for size in record["sizes"]]
    slots = [slot_from_json(entry, symbols) for entry in record["slots"]]
    return Program(
        name=record["name"],
        inputs=tuple(slots[i] for i in record["inputs"]),
        outputs=tuple(slots[i] for i in record["outputs"]),
        slots=tuple(slots),
        steps=(),
        constants=constants_of(constants, slots, copy),
        arena_bytes=record["arena_bytes"],
        state_bytes=record["state_bytes"],
        facts=dict(record["facts"]),
        sizes=tuple(symbols),
    )
