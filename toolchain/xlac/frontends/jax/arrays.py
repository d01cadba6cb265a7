"""Converts arrays and numbers between JAX and NumPy: random keys, integers below 8 bits, floats of
8 bits and fewer.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from xlac.ir.op import Array
from xlac_sdk.host.array_values import as_array, wrong
from xlac_sdk.host.call_binding import fits, other_shape, other_type
from xlac_sdk.source import Diagnostic, SourceError


def is_key(dtype: Any) -> bool:
    """Whether an element type is one of JAX's keys for random numbers."""
    return not isinstance(dtype, np.dtype) and hasattr(dtype, "_impl")


_PLATFORM: dict[type, Callable[[Any], str] | None] = {}
"""By class of leaf: for JAX arrays, a function that tells where an array lies."""


def is_plain(dtype: Any) -> bool:
    """Whether JAX, NumPy and xlac store an element type alike."""
    if is_key(dtype):
        return False
    type = np.dtype(dtype)
    special = type.kind == "c" or type.name.startswith("void")
    return not (special or narrow(type) or minifloat(type))


def as_it_is(leaf: Any, dtype: np.dtype[Any], shape: tuple[int, ...], weak: bool) -> Array | None:
    """The array of a leaf that has this plain type and lies in host memory: an array, or a Python
    number. None for any other leaf.
    """
    kind = type(leaf)
    if kind is np.ndarray:
        array: Array = leaf
    elif (platform := _PLATFORM[kind] if kind in _PLATFORM else _platform(kind, leaf)) is not None:
        # a deleted array has no other attributes
        if leaf.is_deleted() or leaf.weak_type is not weak or platform(leaf) != "cpu":
            return None
        array, weak = np.asarray(leaf), False
    elif kind is float or kind is int or kind is bool:
        return _number(leaf, kind, dtype, weak) if shape == () else None
    elif issubclass(kind, np.generic):
        array = np.asarray(leaf)
    else:
        return None
    return array if not weak and array.dtype == dtype and array.shape == shape else None


def _platform(kind: type, leaf: Any) -> Callable[[Any], str] | None:
    """A function that tells where an array of a JAX class lies; None for another class."""
    import jax

    concrete = isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
    # this method is much faster, but not part of the public interface
    _PLATFORM[kind] = getattr(kind, "platform", _slow_platform) if concrete else None
    return _PLATFORM[kind]


def _slow_platform(leaf: Any) -> str:
    kinds = {device.platform for device in leaf.devices()}
    return kinds.pop() if len(kinds) == 1 else "several"


def _number(value: Any, kind: type, dtype: np.dtype[Any], weak: bool) -> Array | None:
    """A Python number as an array of the dtype that JAX gives to numbers of its class."""
    wanted = "f" if kind is float else "i" if kind is int else "b"
    if dtype.kind != wanted or dtype.itemsize not in (1, 4, 8) or weak is (kind is bool):
        return None
    if kind is int and not -(1 << (8 * dtype.itemsize - 1)) <= value < 1 << (
        8 * dtype.itemsize - 1
    ):
        return None
    return np.asarray(value, dtype)


def special(leaf: Any, type: Any, name: str) -> Array | None:
    """The model's array for a leaf of a type that JAX stores differently, or of open sizes; None
    where the leaf has another type.
    """
    same = (
        getattr(leaf, "dtype", None) == type.dtype
        and fits(getattr(leaf, "shape", ()), type.shape)
        and bool(getattr(leaf, "weak_type", False)) is bool(getattr(type, "weak_type", False))
    )
    return inward(leaf, type, name) if same else None


def leaf_type(leaf: Any, name: str) -> tuple[Any, tuple[Any, ...]]:
    """A leaf that JAX can trace, and its type as `jax.jit` distinguishes types: shape, dtype (64
    bits become 32 where JAX has no others) and whether it is a Python number.

    Raises SourceError for anything else, and for a tracer of JAX.
    """
    import jax
    from jax.api_util import shaped_abstractify

    if isinstance(leaf, jax.core.Tracer):
        kinds = "grad, vmap, jit and scan"
        raise wrong(
            "XL7214",
            f"input '{name}' is a value that JAX traces: {kinds} of JAX cannot see into a program",
            "transform first, then compile: xlac.from_jax(jax.grad(f), …); or jax.custom_vjp",
        )
    alive(leaf, name)
    try:
        aval = shaped_abstractify(leaf)
    except OverflowError as error:
        raise wrong("XL6002", f"input '{name}': {error}") from None
    except (
        TypeError,
        ValueError,
        RuntimeError,
    ):  # the last by tensors of PyTorch that are no arrays
        leaf = as_array(leaf, None, name)
        try:
            aval = shaped_abstractify(leaf)
        except (TypeError, ValueError) as error:
            raise wrong("XL6002", f"input '{name}': {error}") from None
    return leaf, (aval.shape, aval.dtype, bool(getattr(aval, "weak_type", False)))


def alive(leaf: Any, name: str) -> None:
    """Raises SourceError for a deleted array of JAX."""
    if getattr(leaf, "is_deleted", bool)():
        hint = "donated arguments are deleted: keep the results"
        raise wrong("XL6002", f"input '{name}' was deleted", hint)


def as_example(leaf: Any) -> Any:
    """The shape and dtype of an array, as an example argument; any other leaf unchanged."""
    import jax

    if isinstance(leaf, jax.Array | np.ndarray | np.generic):
        weak = bool(getattr(leaf, "weak_type", False))
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=weak)
    return leaf


def inward(leaf: Any, type: Any, name: str, cast: bool = False) -> Array:
    """The model's array for a leaf of the arguments. With `cast`, 64-bit numbers become the 32-bit
    ones that JAX converts them to. Raises SourceError that names the leaf.
    """
    alive(leaf, name)
    if is_key(type.dtype):
        if getattr(leaf, "dtype", None) != type.dtype:  # another dtype of keys has other bits
            given = getattr(leaf, "dtype", builtins.type(leaf).__name__)
            hint = f"jax.random.key(seed, impl={type.dtype._impl.name!r}) makes one"
            raise wrong("XL6002", f"input '{name}' must be {type.dtype}, not {given}", hint)
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
    if cast and array.dtype != type.dtype and _canonical(array.dtype) == type.dtype:
        array = array.astype(type.dtype)
    if array.dtype != type.dtype:
        raise other_type("input", name, type.dtype, array.dtype)
    if not fits(array.shape, type.shape):
        raise other_shape("input", name, type.shape, array.shape)
    return stored(array)


def _canonical(dtype: np.dtype[Any]) -> Any:
    import jax

    return jax.dtypes.canonicalize_dtype(dtype)


def _typed(number: Array, dtype: Any, name: str) -> Array:
    """A Python number as an array of `dtype`. Raises SourceError if the dtype cannot represent
    it.
    """
    with np.errstate(all="ignore"):
        converted = number.astype(dtype)
    if (np.dtype(dtype).kind in "iub" and converted != number) or (
        np.dtype(dtype).kind != "c" and number.dtype.kind == "c"
    ):
        raise SourceError(
            Diagnostic("XL6002", f"input '{name}' must be {dtype}, which cannot hold {number}")
        )
    return converted


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
