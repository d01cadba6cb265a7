"""Sections on what calls see: sizes, inputs, state; and on training."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from xlac.spec.schema.fields import Expression, Name, TypeText, Whole
from xlac.spec.schema.strict import Strict


class DimSpec(Strict):
    """A symbolic size and its bounds; `opt` is the size to optimise for."""

    min: Whole = Field(default=1, description="the least size")
    max: Whole = Field(default=None, description="the greatest size")
    opt: Whole = Field(default=None, description="the size to optimise for; max unless given")
    multiple_of: Whole = Field(default=1, description="every size is a multiple of this")


class InputSpec(Strict):
    """An input with a description."""

    type: TypeText
    doc: str = ""


InputLike = Annotated[
    Annotated[TypeText, Tag("<text>")] | Annotated[InputSpec, Tag("<input>")],
    Discriminator(lambda value: "<input>" if isinstance(value, dict) else "<text>"),
]


class StateSpec(Strict):
    """A value that the model keeps between calls."""

    type: TypeText = Field(description="its type")
    next: Expression = Field(description="its value after a call")
    doc: str = ""


class TrainSpec(Strict):
    """What to minimise, and how."""

    loss: Expression
    metrics: dict[Name, Expression] = {}
    optimizer: dict[Literal["sgd", "momentum", "adam", "adamw"], dict[str, Any]] = Field(
        min_length=1, max_length=1
    )
    wrt: list[str] = Field(default=["*"], description="patterns of the weights that learn")
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0


DimLike = Annotated[
    Annotated[Whole, Tag("<whole>")] | Annotated[DimSpec, Tag("<bounds>")],
    Discriminator(lambda value: "<bounds>" if isinstance(value, dict | None) else "<whole>"),
]
