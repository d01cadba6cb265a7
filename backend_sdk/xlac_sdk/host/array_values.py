"""Converts arguments to host arrays: anything that NumPy, DLPack or the buffer protocol can
read.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from xlac_sdk.dtypes import Array, DType
from xlac_sdk.source import Diagnostic, SourceError, XlacError

# values of DLDeviceType that the CPU can access
HOST = {1: "cpu", 3: "cuda_host", 11: "rocm_host", 13: "cuda_managed"}


ELSEWHERE = {
    2: "cuda",
    4: "opencl",
    7: "vulkan",
    8: "metal",
    10: "rocm",
    14: "oneapi",
    15: "webgpu",
}


def wrong(code: str, message: str, hint: str = "") -> SourceError:
    """The error for an invalid argument."""
    return SourceError(Diagnostic(code, message, hint=hint))


def as_array(value: Any, dtype: DType | None = None, name: str = "") -> Array:
    """A NumPy array of anything array-like, without a copy where possible; `name` is the input's,
    for errors.

    Numbers and nested lists of them become arrays of `dtype`. Raises SourceError for values without
    numbers that the CPU can read, and for numbers that the type cannot represent.
    """
    if isinstance(value, np.ndarray | np.generic):
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            raise wrong(
                "XL6002",
                f"{_input(name)}a masked array is not an array: some of its numbers are missing",
                "x.filled(0.0) says what they are",
            )
        return np.asarray(value)
    if isinstance(value, bool | int | float) and dtype is None:
        return _numbers(value, None, name)
    elsewhere = device_of(value)
    if elsewhere:
        raise on_device(name, elsewhere)
    check_regular(value, name)
    if without_memory(value):
        raise on_device(name, NOWHERE)
    try:
        # PyTorch exports such a tensor without its negation
        if hasattr(value, "is_neg") and value.is_neg():
            value = value.resolve_neg()
        if str(getattr(value, "dtype", "")) == "torch.bfloat16" and not value.requires_grad:
            return np.asarray(value.view(sys.modules["torch"].int16)).view(DType.BF16.numpy)
        if hasattr(value, "__dlpack__"):
            exported = _exported(value)
            if exported is not None:
                return exported
        if hasattr(value, "__array__"):
            return np.asarray(value)
    except XlacError:
        raise
    except Exception as error:  # raised by the object's own functions
        raise wrong(
            "XL6002", f"{_input(name)}is not an array that can be read: {_first_line(error)}"
        ) from None
    return _numbers(value, dtype, name)


def check_regular(value: Any, name: str = "") -> None:
    """Raises SourceError for a tensor of PyTorch that is no array: a sparse or a nested one."""
    if getattr(value, "is_nested", False) is True:
        problem = (
            f"{_input(name)}a nested tensor is not an array: its parts have lengths of their own"
        )
        raise wrong("XL6002", problem, "torch.nested.to_padded_tensor(x, 0.0) makes them equal")
    if str(getattr(value, "layout", "")).startswith(("torch.sparse", "torch._mkldnn")):
        problem = f"{_input(name)}a sparse tensor is not an array: it leaves out numbers"
        raise wrong("XL6002", problem, "x.to_dense() has all of them")


def _exported(value: Any) -> Array | None:
    """The array on the memory of a DLPack exporter; None where it refuses, or has a type that NumPy
    lacks.
    """
    try:
        return np.from_dlpack(value)
    except XlacError:
        raise
    except Exception:  # raised by the exporter's own functions
        return None


def without_memory(value: Any) -> bool:
    """Whether a tensor of PyTorch is a placeholder without memory: NumPy would return uninitialized
    memory for it.
    """
    if hasattr(value, "fake_mode"):
        return True
    if not hasattr(value, "data_ptr") or not hasattr(value, "numel"):
        return False
    try:
        return bool(value.numel()) and not value.data_ptr()
    except RuntimeError:  # tensors of torch.func have no address
        return True


def _numbers(value: Any, dtype: DType | None, name: str) -> Array:
    """Python numbers and lists as an array of `dtype`, which must represent them exactly."""
    try:
        plain = np.asarray(value)
    except Exception as error:  # raised by the object's own functions
        raise wrong(
            "XL6002",
            f"{_input(name)}a {type(value).__name__} is not an array: {_first_line(error)}",
        ) from None
    if (
        plain.size
        and plain.dtype.kind not in "biuf"
        and not (plain.dtype.kind == "c" and dtype is None)
    ):
        small = plain.dtype.kind == "O" and all(
            isinstance(part, int | float) for part in plain.flat
        )
        problem = "it holds an integer beyond 64 bits" if small else f"it holds {_held(plain)}"
        raise wrong("XL6002", f"{_input(name)}a {type(value).__name__} is not an array: {problem}")
    if dtype is None:
        return plain
    if dtype is DType.U64 and plain.dtype.kind == "f":
        plain = _unsigned(value, plain)
    with np.errstate(all="ignore"):
        array = plain.astype(dtype.compute.numpy).astype(dtype.numpy)
    if dtype.is_float:
        beyond = np.isinf(array) & np.isfinite(plain)
        if beyond.any():
            raise wrong("XL6002", f"{_input(name)}is {dtype}, which cannot hold {plain[beyond][0]}")
    elif not np.array_equal(array, plain):
        lost = next(part for part, kept in zip(plain.flat, array.flat, strict=True) if part != kept)
        raise wrong("XL6002", f"{_input(name)}is {dtype}, which cannot hold {lost}")
    return array


def _unsigned(value: Any, plain: Array) -> Array:
    """Lists of integers of which NumPy makes floats: some beyond i64 beside smaller ones."""
    exact = np.asarray(value, object)
    if all(isinstance(part, int) and part >= 0 for part in exact.flat):
        return exact.astype(np.uint64)
    return plain


def _held(array: Array) -> str:
    if array.dtype.kind != "O":
        return "text" if array.dtype.kind in "US" else array.dtype.name
    first = next(part for part in array.flat if not isinstance(part, bool | int | float))
    return f"a {type(first).__name__}"


def type_of(dtype: np.dtype[Any], name: str = "") -> DType:
    """Our element type for NumPy's. Raises SourceError for one that xlac does not have."""
    try:
        return DType.of(dtype)
    except KeyError:
        raise wrong("XL6002", f"{_input(name)}xlac has no element type {dtype}") from None


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def device_of(value: Any) -> str:
    """The device of an array, as its library calls it; "" for host memory."""
    device = getattr(value, "__dlpack_device__", None)
    if device is None:
        return (
            "cuda"
            if hasattr(value, "__cuda_array_interface__") and not hasattr(value, "__array__")
            else ""
        )
    try:
        kind, number = device()
    except Exception:  # raised by the object's own functions, or unknown to DLPack
        name = str(getattr(value, "device", ""))
        return "" if name.startswith("cpu") else name or "a device that DLPack does not know"
    if int(kind) in HOST:
        return ""
    return f"{ELSEWHERE.get(int(kind), f'device kind {int(kind)}')}:{int(number)}"


NOWHERE = "nowhere: it stands for an array and has no numbers"


def on_device(name: str, device: str) -> SourceError:
    """The error for an array on another device than the program reads."""
    hint = (
        ""
        if device.startswith(("meta", "nowhere"))
        else "copy it first: x.cpu() in PyTorch, jax.device_get(x), y.numpy() of a result of xlac"
    )
    return wrong(
        "XL6008",
        f"{_input(name)}is an array on another device than the program reads: {device}",
        hint,
    )


def _input(name: str) -> str:
    return f"input '{name}': " if name else ""
