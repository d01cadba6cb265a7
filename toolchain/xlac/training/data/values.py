"""Samples and batches from Python programs: arrays by name, tensors, lists of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from xlac.training.data.column import TrainingInput, fault
from xlac_sdk.dtypes import Array, DType


def named(item: Any, inputs: Mapping[str, TrainingInput], place: str) -> dict[str, Any]:
    """The values of a sample or batch by input: of a mapping by name, of a tuple in the inputs'
    order. Raises SourceError.
    """
    if isinstance(item, Mapping):
        missing = [name for name in inputs if name not in item]
        if missing:
            have = ", ".join(map(repr, item)) or "nothing"
            raise fault("XL6302", f"{place}: there is no '{missing[0]}'; it has {have}")
        return {name: item[name] for name in inputs}
    if isinstance(item, tuple | list) and len(item) == len(inputs):
        return dict(zip(inputs, item, strict=True))
    if len(inputs) == 1:
        return dict.fromkeys(inputs, item)
    wanted = ", ".join(inputs)
    problem = f"{place}: {type(item).__name__} is not a mapping with {wanted}, or a tuple of these"
    raise fault("XL6310", problem)


def array_of(value: Any, one: TrainingInput, place: str) -> Array:
    """A value as an array. Python floats take the dtype of a float input. Raises SourceError for
    what holds no numbers.
    """
    try:
        if isinstance(value, list | tuple | float | int):
            array = np.asarray(value)
            if array.dtype.kind == "f" and one.type.dtype.is_float:
                return array.astype(one.type.dtype.numpy)
        else:
            array = np.asarray(value)
    except Exception as error:  # conversions of foreign types may raise anything
        raise fault("XL6304", f"{place}: input '{one.name}' is not an array: {error}") from None
    try:
        DType.of(array.dtype)
    except KeyError:
        problem = f"{place}: input '{one.name}' is {type(value).__name__}, which holds no numbers"
        raise fault("XL6303", problem) from None
    return array
