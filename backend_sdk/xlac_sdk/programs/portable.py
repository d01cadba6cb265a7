"""A lowered program as two files, to run without the compiler: its kernels and steps as JSON, and
its constants.

Objects are numbered in order of traversal: shared objects stay shared, which matters for slots
(compared by identity) and for expressions (most are used more than once). Origins are dropped, as
they are places in the user's files. Reading creates only objects of these modules, and verifies the
program as after compilation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from xlac_sdk import dtypes, machine_facts, source, symbolic, target
from xlac_sdk.dims import static
from xlac_sdk.dtypes import Array
from xlac_sdk.kernel_ir import expressions, kernel, primitives
from xlac_sdk.libraries import attention, convolution, product, strided
from xlac_sdk.programs import entries, program, steps
from xlac_sdk.programs.constants import places, weights_file
from xlac_sdk.programs.program import RECORD, Program
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.mapping import file_bytes
from xlac_sdk.target import Target

FILE, CONSTANTS = "program.json", "program.weights"
MODULES = (
    attention,
    convolution,
    dtypes,
    entries,
    expressions,
    kernel,
    machine_facts,
    primitives,
    product,
    program,
    steps,
    strided,
    symbolic,
    target,
)
CLASSES: dict[str, Any] = {
    name: value
    for module in MODULES
    for name, value in vars(module).items()
    if isinstance(value, type)
    and (is_dataclass(value) or issubclass(value, Enum))
    and value.__module__ == module.__name__
}


def write(folder: Path, program: Program, target: Target) -> None:
    """Writes both files."""
    writer = _ObjectNumbers()
    facts = {
        key: value
        for key, value in program.facts.items()
        if isinstance(value, str | int | float | bool) or key == RECORD
    }
    root = writer.of((replace(program, constants={}, facts=facts), target))
    text = json.dumps({"objects": writer.objects, "root": root}, separators=(",", ":"))
    (folder / FILE).write_text(text + "\n", encoding="utf-8")
    with (folder / CONSTANTS).open("wb") as file:
        file.writelines(weights_file(program))


def read(folder: Path) -> tuple[Program, Target]:
    """The program and its target; constants are memory-mapped. Raises SourceError for invalid
    files.
    """
    try:
        document = json.loads((folder / FILE).read_text(encoding="utf-8"))
        objects: list[Any] = []
        for name, values in document["objects"]:
            objects.append(_object(name, [_value(v, objects) for v in values]))
        program, machine = _value(document["root"], objects)
        if not isinstance(program, Program) or not isinstance(machine, Target):
            raise TypeError("no program")
        data = np.frombuffer(file_bytes(folder / CONSTANTS), np.uint8)
        constants: Mapping[str, Array] = {
            slot.symbol: data[at : at + slot.nbytes]
            .view(slot.dtype.numpy)
            .reshape(static(slot.shape))
            for slot, at in places(program).items()
        }
        program = replace(program, constants=constants)
        verify_program(program)
    except OSError:
        raise
    except Exception as error:  # a manipulated file may raise anything in the classes' constructors
        problem = f"'{folder / FILE}' holds no program: {type(error).__name__}"
        raise SourceError(Diagnostic("XL5024", problem, hint="build it again")) from None
    return program, machine


class _ObjectNumbers:
    """Numbers objects, after those that they contain."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.numbers: dict[int, int] = {}
        self.kept: list[Any] = []  # keeps objects alive, so that no id is reused

    def of(self, value: Any) -> Any:
        if value is None or isinstance(value, str | int | float | bool):
            return value
        if isinstance(value, source.Origin):
            return None
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, tuple):
            if value and isinstance(value[0], source.Origin):
                return {"tuple": []}
            return {"tuple": [self.of(v) for v in value]}
        if isinstance(value, frozenset):
            return {"set": sorted((self.of(v) for v in value), key=json.dumps)}
        if isinstance(value, Mapping):
            return {"map": [[self.of(k), self.of(v)] for k, v in value.items()]}
        if isinstance(value, Enum):
            return {"enum": [type(value).__name__, value.value]}
        if id(value) not in self.numbers:
            entry = [type(value).__name__, [self.of(getattr(value, f.name)) for f in fields(value)]]
            self.numbers[id(value)] = len(self.objects)
            self.objects.append(entry)
            self.kept.append(value)
        return {"is": self.numbers[id(value)]}


def _value(data: Any, objects: list[Any]) -> Any:
    match data:
        case {"is": int(number)}:
            return objects[number]
        case {"tuple": list(values)}:
            return tuple(_value(v, objects) for v in values)
        case {"set": list(values)}:
            return frozenset(_value(v, objects) for v in values)
        case {"map": list(pairs)}:
            return {_value(k, objects): _value(v, objects) for k, v in pairs}
        case {"enum": [str(name), value]}:
            return CLASSES[name](value)
        case dict() | list():
            raise TypeError("no value")
    return data


def _object(name: str, values: list[Any]) -> Any:
    kind = CLASSES[name]
    return kind(**dict(zip((f.name for f in fields(kind)), values, strict=True)))
