"""Sections on the interface: sizes, inputs, state."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from xlac.spec.schema.fields import Expression, TypeText, Whole
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
    init: Expression = Field(
        default=0, description="its value before the first call, an expression over the inputs"
    )
    doc: str = ""


DimLike = Annotated[
    Annotated[Whole, Tag("<whole>")] | Annotated[DimSpec, Tag("<bounds>")],
    Discriminator(lambda value: "<bounds>" if isinstance(value, dict | None) else "<whole>"),
]
