"""Sections on ranks: the mesh, and how weights and inputs are divided among it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from xlac.spec.schema.fields import Name, shown


def _axes(value: Any) -> Any:
    """A list with an entry for each axis of a value: a mesh axis, a list of these, or null."""
    if not isinstance(value, list):
        raise PydanticCustomError("kind", f"expected a list of mesh axes, found {_text(value)}")
    for entry in value:
        names = entry if isinstance(entry, list) and entry else [entry]
        if entry is not None and not all(isinstance(name, str) for name in names):
            raise PydanticCustomError(
                "kind",
                "expected a mesh axis, a list of them, or null for each axis, found "
                + _text(entry),
            )
    return value


def _text(value: Any) -> str:
    return shown(value).replace("{", "{{").replace("}", "}}")


_NAMES = {"type": "array", "items": {"type": "string"}, "minItems": 1}

Axes = Annotated[
    Any,
    BeforeValidator(_axes),
    WithJsonSchema(
        {"type": "array", "items": {"anyOf": [{"type": "string"}, _NAMES, {"type": "null"}]}}
    ),
]

MeshSize = Annotated[int, Field(ge=1, le=1 << 20)] | None

MeshLike = dict[Name, MeshSize]
ShardLike = dict[Name, Axes]

MESH: Any = Field(
    default={}, description="axes of ranks by name, with sizes; null is left to --mesh"
)
SHARD: Any = Field(
    default={},
    description="by pattern of the name of a weight, an input or a state: "
    "for each of its axes the mesh axes that divide it, or null",
)
