"""Nests of tuples, lists and dicts with arrays at their leaves: what Python functions take and give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlac.arrays import as_array as any_array
from xlac.ir.op import Array

Nest = Any  # a hashable description: ("tuple", (…)), ("dict", ((key, …), …)), ("leaf", number), ("static", value)


def flatten(value: Any, leaves: list[Any]) -> Nest:
    """A hashable description of a nest of tuples, lists and dicts; its arrays are appended to `leaves`."""
    if isinstance(value, tuple | list):
        return type(value).__name__, tuple(flatten(v, leaves) for v in value)
    if isinstance(value, dict):
        return "dict", tuple((k, flatten(v, leaves)) for k, v in value.items())
    if isinstance(value, str | bytes | bool | type(None)):
        return "static", value
    leaves.append(value)
    return "leaf", len(leaves) - 1


def unflatten(tree: Any, leaves: Sequence[Any]) -> Any:
    kind, content = tree
    match kind:
        case "tuple":
            return tuple(unflatten(t, leaves) for t in content)
        case "list":
            return [unflatten(t, leaves) for t in content]
        case "dict":
            return {key: unflatten(t, leaves) for key, t in content}
        case "leaf":
            return leaves[content]
    return content


def as_array(value: Any) -> Array:
    if isinstance(value, int | float) and not isinstance(value, np.generic):
        return np.asarray(value, np.float32 if isinstance(value, float) else np.int32)
    return any_array(value)
