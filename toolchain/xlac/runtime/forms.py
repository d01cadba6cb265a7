"""What decides which program a call needs beside sizes: the types of the parts of sequences, and
values.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from xlac.ir.types import Type
from xlac_sdk.dtypes import Array
from xlac_sdk.host.array_values import as_array, type_of


def form_of(name: str, value: Any) -> Any:
    """The types of the parts of a sequence or optional: a type, None, or a list of such."""
    if isinstance(value, list | tuple):
        return [form_of(name, part) for part in value]
    if value is None:
        return None
    array = as_array(value, None, name)
    return Type(type_of(array.dtype, name), array.shape)


def parts(inputs: Mapping[str, Any], forms: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays by name, those of sequences and optionals by the names of their parts: `images.0`,
    `mask.0`.
    """
    arrays: dict[str, Any] = {}

    def visit(name: str, value: Any) -> None:
        for number, part in enumerate(
            value if isinstance(value, list | tuple) else () if value is None else (value,)
        ):
            if isinstance(part, list | tuple):
                visit(f"{name}.{number}", part)
            else:
                arrays[f"{name}.{number}"] = as_array(part)

    for name, value in inputs.items():
        if name in forms:
            visit(name, value)
        else:
            arrays[name] = value
    return arrays


def frozen(value: Any) -> Hashable:
    """Nested lists of types as a hashable key."""
    if isinstance(value, dict):
        return tuple(sorted((name, frozen(form)) for name, form in value.items()))
    return tuple(frozen(v) for v in value) if isinstance(value, list) else str(value)


def signature(array: Array) -> Hashable:
    """The values of an array as a hashable key."""
    return str(array.dtype), array.shape, array.tobytes()
