"""The section `place`: which targets compute which nodes."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from xlac.spec.schema.fields import Name, shown


def _targets(value: Any) -> Any:
    """The name of a target, or a list of them in the order of preference; as a tuple."""
    names = value if isinstance(value, list) and value else [value]
    if not all(isinstance(name, str) and name for name in names):
        found = shown(value).replace("{", "{{").replace("}", "}}")
        problem = f"expected a target such as cpu, or a list in order of preference, found {found}"
        raise PydanticCustomError("kind", problem)
    return tuple(names)


Targets = Annotated[
    Any,
    BeforeValidator(_targets),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
            ]
        }
    ),
]

PlaceLike = dict[Name, Targets]

PLACE: Any = Field(
    default={},
    description="by pattern of the path of a node: the target that computes it, or several in the "
    "order of preference; the first pattern that fits wins",
)
