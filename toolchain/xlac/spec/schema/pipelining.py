"""The section `pipeline`: which ranks compute which layers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from xlac.spec.schema.fields import Name, shown
from xlac.spec.schema.strict import Strict


def _patterns(value: Any) -> Any:
    """A pattern, or a list of them; as a tuple."""
    patterns = value if isinstance(value, list) and value else [value]
    if not all(isinstance(one, str) and one for one in patterns):
        found = shown(value).replace("{", "{{").replace("}", "}}")
        problem = f"expected a pattern of nodes, or a list of them, found {found}"
        raise PydanticCustomError("kind", problem)
    return tuple(patterns)


Patterns = Annotated[
    Any,
    BeforeValidator(_patterns),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
            ]
        }
    ),
]


class PipelineSpec(Strict):
    """Stages of a model, each on the ranks at one place along an axis of the mesh."""

    axis: Name = Field(description="the mesh axis along which stages are")
    stages: Annotated[list[Patterns], Field(min_length=1)] | None = Field(
        default=None,
        description="for each stage patterns of the paths of its nodes: as many as there are ranks "
        "along the axis, or a multiple of that; found by predicted time unless given",
    )
    chunks: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=1, description="how many stages each rank has, where `stages` are not given"
    )
    schedule: Literal["1f1b", "gpipe"] = Field(
        default="1f1b",
        description="in training, when backward passes run: as soon as they can, with as few "
        "micro-batches under way as there are stages after it, or after all forward passes",
    )


PIPELINE: Any = Field(
    default=None, description="stages of the model on different ranks, through which data passes"
)
