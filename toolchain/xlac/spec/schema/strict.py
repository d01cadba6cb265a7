"""What every section of a spec is: keys that it does not have are mistakes."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

VERSION = 1


class Strict(BaseModel):
    """Unknown keys are errors, and nothing is converted silently."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
