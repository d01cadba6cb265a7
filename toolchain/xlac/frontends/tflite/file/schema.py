"""The schema of TensorFlow Lite's files, parsed from schema.txt."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SCALARS = {
    "bool": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "f32": 4, "i64": 8,
    "u64": 8, "f64": 8,
}  # fmt: skip
"""The bytes of each scalar type."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a table: `kind` names a scalar type, "string", "union" or a table; `many` marks
    vectors.
    """

    slot: int
    kind: str
    many: bool
    default: int | float | bool | None


@dataclass(frozen=True, slots=True)
class Schema:
    """Tables by name, each with its fields by name; enumerations and unions by name, each with the
    names of its values.
    """

    tables: dict[str, dict[str, Field]]
    enums: dict[str, dict[int, str]]


@cache
def schema() -> Schema:
    """The schema."""
    text = (Path(__file__).parent / "schema.txt").read_text()
    text = re.sub(r"//[^\n]*", "", text)
    tables: dict[str, dict[str, Field]] = {}
    enums: dict[str, dict[int, str]] = {}
    for kind, name, body in re.findall(r"(table|enum|union) (\w+) \{([^}]*)\}", text):
        if kind == "table":
            tables[name] = _fields(body)
        else:
            enums[name] = _values(body)
    return Schema(tables, enums)


def _fields(body: str) -> dict[str, Field]:
    fields = {}
    for slot, part in enumerate(body.split(";")):
        if part.strip() == "-":
            continue
        name, _, rest = part.strip().partition(":")
        kind, _, default = rest.strip().partition(" = ")
        many = kind.startswith("[")
        kind = kind.strip("[]")
        scalar = kind in SCALARS and not many
        fields[name] = Field(slot, kind, many, _default(kind, default) if scalar else None)
    return fields


def _default(kind: str, text: str) -> int | float | bool:
    if kind == "bool":
        return text == "true"
    return float(text or 0) if kind.startswith("f") else int(text or 0)


def _values(body: str) -> dict[int, str]:
    values, number = {}, 0
    for part in body.split(","):
        name, _, given = part.strip().partition(" = ")
        number = int(given) if given else number
        values[number] = name
        number += 1
    return values
