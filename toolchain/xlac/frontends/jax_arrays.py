"""Converts arrays and numbers between JAX and NumPy: random keys, integers below 8 bits, floats of
8 bits and fewer.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from xlac.ir.op import Array
from xlac_sdk.host.array_values import as_array, wrong
from xlac_sdk.host.call_binding import fits, other_shape, other_type
from xlac_sdk.source import Diagnostic, SourceError


def is_key(dtype: Any) -> bool:
    """Whether an element type is one of JAX's keys for random numbers."""
    return not isinstance(dtype, np.dtype) and hasattr(dtype, "_impl")


_CONCRETE: dict[type, bool] = {}
"""Classes of leaves: whether they are JAX's arrays, and no tracers."""


def is_plain(dtype: Any) -> bool:
    """Whether JAX, NumPy and xlac store an element type alike."""
    if is_key(dtype):
        return False
    found = np.dtype(dtype)
    special = found.kind == "c" or found.name.startswith("void")
    return not (special or narrow(found) or minifloat(found))


def as_it_is(leaf: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array | None:
    """The array of a leaf that needs no conversion: dense memory of the host, of a plain type. None
    for any other leaf, wrong ones too.
    """
    kind = type(leaf)
    if kind is not np.ndarray:
        known = _CONCRETE.get(kind)
        if known is None:
            import jax

            known = isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
            _CONCRETE[kind] = known
        if not known:
            return None
    if leaf.dtype != dtype or leaf.shape != shape:
        return None
    if kind is np.ndarray:
        found: Array = leaf
        return found
    if leaf.is_deleted() or not _on_host(leaf):
        return None
    return np.asarray(leaf)


def _on_host(leaf: Any) -> bool:
    """Whether an array of JAX lies in the processor's memory."""
    if hasattr(leaf, "platform"):  # quicker by far
        return bool(leaf.platform() == "cpu")
    return all(device.platform == "cpu" for device in leaf.devices())


def inward(leaf: Any, type: Any, name: str) -> Array:
    """Converts a leaf of the arguments to the array that the model takes. Raises SourceError that
    names the leaf.
    """
    if is_key(type.dtype):
        if getattr(leaf, "dtype", None) != type.dtype:  # other bits come of other keys
            found = getattr(leaf, "dtype", builtins.type(leaf).__name__)
            hint = f"jax.random.key(seed, impl={type.dtype._impl.name!r}) makes one"
            raise wrong("XL6002", f"input '{name}' must be {type.dtype}, not {found}", hint)
        # JAX offers no other access that compiles nothing
        numbers = getattr(leaf, "_base_array", None)
        if numbers is not None:
            return np.asarray(numbers)
        import jax

        return np.asarray(jax.random.key_data(leaf))
    array = as_array(leaf, None, name)
    # JAX gives Python numbers the dtype that the function was lowered for
    if isinstance(leaf, bool | int | float | complex) and not isinstance(leaf, np.generic):
        array = _typed(array, type.dtype, name)
    if array.dtype != type.dtype:
        raise other_type("input", name, type.dtype, array.dtype)
    if not fits(array.shape, type.shape):
        raise other_shape("input", name, type.shape, array.shape)
    return stored(array)


def _typed(number: Array, dtype: Any, name: str) -> Array:
    """A Python number as an array of `dtype`. Raises SourceError if the dtype cannot represent
    it.
    """
    with np.errstate(all="ignore"):
        found = number.astype(dtype)
    if (np.dtype(dtype).kind in "iub" and found != number) or (
        np.dtype(dtype).kind != "c" and number.dtype.kind == "c"
    ):
        raise SourceError(
            Diagnostic("XL6002", f"input '{name}' must be {dtype}, which cannot hold {number}")
        )
    return found


def stored(array: Array) -> Array:
    """An array in xlac's storage format: complex numbers as real and imaginary parts along a last
    axis, minifloats as codes, narrow integers in 8 bits.
    """
    if array.dtype.kind == "c":
        return np.ascontiguousarray(array).view(array.real.dtype).reshape(*array.shape, 2)
    if narrow(array.dtype):
        return array.astype(np.uint8 if array.dtype.name.startswith("u") else np.int8)
    return array.view(np.uint8) if minifloat(array.dtype) else array


def narrow(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is one of ml_dtypes' integers of fewer than 8 bits."""
    return dtype.isbuiltin != 1 and dtype.name.startswith(("int", "uint"))


def minifloat(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is one of ml_dtypes' floats of up to 8 bits."""
    return dtype.isbuiltin != 1 and dtype.name.startswith("float") and dtype.itemsize == 1


def outward(array: Array, type: Any) -> Any:
    """Converts a result of the model to the array that the JAX function returns."""
    if is_key(type.dtype):
        import jax

        return jax.random.wrap_key_data(jax.numpy.asarray(array), impl=type.dtype._impl.name)
    dtype = np.dtype(type.dtype)
    if dtype.kind == "c":
        return np.ascontiguousarray(array).view(dtype).reshape(array.shape[:-1])
    if dtype.name.startswith("void"):  # float0, JAX's tangent dtype of integers
        return np.zeros(array.shape, dtype)
    if narrow(dtype):
        return array.astype(dtype)
    return array.view(dtype) if minifloat(dtype) else array
