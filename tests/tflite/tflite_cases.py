"""All cases: models of one operator each, and of a few."""

from __future__ import annotations

import cases_elementwise
import cases_indexing
import cases_layers
import cases_models
import cases_quantized
import cases_shapes
from tflite_case import Case


def cases() -> list[Case]:
    """All cases, whose names differ."""
    families = (
        cases_elementwise,
        cases_layers,
        cases_models,
        cases_quantized,
        cases_shapes,
        cases_indexing,
    )
    found = [case for family in families for case in family.cases()]
    assert len({c.name for c in found}) == len(found)
    return found
