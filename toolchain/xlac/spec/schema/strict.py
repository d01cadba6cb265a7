"""The base of a spec's sections, in which unknown keys are errors."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

VERSION = 1


class Strict(BaseModel):
    """Unknown keys are errors, and values are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
