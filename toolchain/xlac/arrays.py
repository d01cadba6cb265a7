"""NumPy arrays of anything array-like."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlac_sdk.backend import Array
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, SourceError


def as_array(value: Any, dtype: DType | None = None) -> Array:
    """A NumPy array of anything array-like, without a copy where that is possible."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError):  # on another device, or of a dtype NumPy lacks
            pass
    if hasattr(value, "__array__"):
        return np.asarray(value)
    try:
        return np.asarray(value, dtype.numpy if dtype else None)
    except (TypeError, ValueError, OverflowError) as error:
        problem = f"a {type(value).__name__} is not an array: {error}"
        raise SourceError(Diagnostic("XL6002", problem)) from None
