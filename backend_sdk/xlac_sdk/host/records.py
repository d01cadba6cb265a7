"""Records of checked programs built ahead of time: the record of the first failed check is stored
in the program's own memory.

A checked program's last output is the record, four i64: the check that failed, counted from 1 (0:
none), the position, the value there, the iteration of the loop. Callers of the C API pass no array
for it: NAME_run returns CHECK_FAILED, and NAME_failure returns the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlac_sdk.programs.program import RECORD, Program, Role, alignment_of
from xlac_sdk.programs.rewrite import with_slots
from xlac_sdk.source import Diagnostic, SourceError

WORDS = 4


def inside(
    programs: Sequence[Program], texts: Sequence[str], arena: int = 0
) -> tuple[Program, ...]:
    """The programs with their record at a common place at the end of the arena, which has at least
    `arena` bytes before it.

    `texts` describe every check.
    """
    align = max(map(alignment_of, programs))
    start = -(-max(arena, *(program.arena_bytes for program in programs)) // align) * align
    return tuple(_inside(program, start, tuple(texts)) for program in programs)


def _inside(program: Program, start: int, texts: tuple[str, ...]) -> Program:
    record = program.outputs[-1]
    place = replace(record, role=Role.TEMPORARY, offset=start, name="")
    slots = tuple(place if slot is record else slot for slot in program.slots)
    return replace(
        program,
        outputs=program.outputs[:-1],
        slots=slots,
        steps=with_slots(program.steps, {record: place}),
        arena_bytes=start + WORDS * 8,
        facts={**program.facts, RECORD: {"offset": start, "texts": texts}},
    )


def failure(told: str, position: int, value: int) -> SourceError:
    """The error of a check that failed in a call, from its text and what the record holds."""
    text, _, code = told.rpartition(" [")
    valued = not code.startswith(("XL6022", "XL6023"))  # NaN and infinity need not be shown
    where = f"element {position}{f', value {value}' if valued else ''}"
    return SourceError(Diagnostic(code.rstrip("]"), f"{text} ({where})"))
