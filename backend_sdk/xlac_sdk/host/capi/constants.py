"""Constants as C arrays, each with a comment, in the shortest text that is exact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlac_sdk.dtypes import DType
from xlac_sdk.emit.cfunctions import TYPES
from xlac_sdk.emit.ctext import comment, literal
from xlac_sdk.host.ranks.parts import RankParts
from xlac_sdk.programs.program import Program, Role, Slot

WIDTH = 8  # numbers per line


@dataclass(frozen=True, slots=True)
class Constant:
    """A `static const` array: its name, element type, length, lines of numbers and a
    description.
    """

    symbol: str
    type: str
    count: int
    lines: tuple[str, ...]
    about: str


def constants(
    program: Program, used: set[Slot], parts: RankParts | None = None, stage: int = 0
) -> Iterator[Constant]:
    """The arrays of the slots that are used, in the order of the program. One that differs among
    the parts of ranks, of a stage, is an array for each part, and a table of them.
    """
    for slot in program.slots:
        if slot.role is not Role.CONSTANT or slot not in used or not slot.size:
            continue
        if parts is None or slot.symbol not in parts.varying:
            yield _constant(slot, slot.symbol, program)
            continue
        names = ["NULL"] * len(parts.programs)
        for number in parts.stages[stage]:
            names[number] = f"{slot.symbol}_{number}"
            yield _constant(slot, names[number], parts.programs[number])
        about = f"{comment(slot.name)} of each part"
        kind = f"{TYPES[slot.dtype]} *const"
        yield Constant(slot.symbol, kind, len(names), (", ".join(names),), about)


def _constant(slot: Slot, name: str, program: Program) -> Constant:
    flat = np.asarray(program.constants[slot.symbol]).reshape(-1)
    numbers = [_number(v, slot.dtype) for v in flat.tolist()]
    lines = [", ".join(numbers[i : i + WIDTH]) + "," for i in range(0, len(numbers), WIDTH)]
    lines[-1] = lines[-1][:-1]
    about = f"{comment(slot.name)}: {slot.dtype}[{', '.join(map(str, slot.shape))}]"
    return Constant(name, TYPES[slot.dtype], slot.size, tuple(lines), about)


def _number(value: Any, dtype: DType) -> str:
    return literal(value, dtype).removeprefix(f"({TYPES[dtype]})")
