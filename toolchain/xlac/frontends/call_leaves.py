"""The leaves of a jitted call: what a program is compiled for, and what it is called with."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlac.frontends.pytree import is_number
from xlac.frontends.traced_function import Leaf
from xlac.ir.types import Type
from xlac_sdk.dtypes import DType
from xlac_sdk.host.array_values import as_array, device_of, type_of, wrong


def kind_of(leaf: Any, number: int) -> Any:
    """The part of a leaf that a program is compiled for: the Python type of a number, shape and
    dtype of an array.
    """
    if type(leaf) is np.ndarray:
        return leaf.shape, leaf.dtype
    if is_number(leaf):
        return float if isinstance(leaf, float) else int
    # an array on a device: the program checks whether it can read it there
    if hasattr(leaf, "dtype") and device_of(leaf):
        return tuple(leaf.shape), np.dtype(str(leaf.dtype).rpartition(".")[2])
    array = as_array(leaf, None, f"arg{number}")
    return array.shape, array.dtype


def arrays_of(args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The shapes and dtypes of arguments that are all arrays of NumPy, not of a subclass; None for
    others.
    """
    kinds: list[Any] = []
    for one in args:
        if type(one) is not np.ndarray:
            return None
        kinds += one.shape, one.dtype
    return tuple(kinds)


def leaf_of(kind: Any, number: int) -> Leaf:
    """What a leaf of this kind is while tracing."""
    if isinstance(kind, type):
        return kind
    shape, dtype = kind
    return Type(type_of(dtype, f"arg{number}"), shape)


def argument_of(leaf: Any, dtype: DType | None, number: int) -> Any:
    """A leaf as an argument of its program: a number as an array of the dtype that it has there.
    Raises SourceError for one that does not fit.
    """
    if dtype is None:
        return leaf
    if dtype is DType.F32 and -1e38 < leaf < 1e38:  # the common case, without the checks below
        return np.array(leaf, np.float32)
    try:
        with np.errstate(over="ignore"):
            return np.asarray(leaf, dtype.compute.numpy).astype(dtype.numpy, copy=False)
    except OverflowError:  # an integer, perhaps of more digits than Python prints
        shown = leaf if abs(leaf) < 1 << 128 else f"an integer of {leaf.bit_length():,} bits"
        problem = f"input 'arg{number}': {shown} does not fit {dtype}"
        raise wrong("XL6002", problem, "pass an array of a wider type") from None
