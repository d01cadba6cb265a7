"""DLPack by ctypes: importing a tensor of another library, and exporting one of xlac's. Nothing is
copied.

https://dmlc.github.io/dlpack/latest/c_api.html, the unversioned structures, which every library
supports.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from xlac_sdk.dtypes import DType

CUDA = 2  # kDLCUDA
SIGNED, UNSIGNED, FLOAT, BFLOAT, BOOL = 0, 1, 2, 4, 6  # DLDataTypeCode
_KIND = {"i": SIGNED, "u": UNSIGNED, "f": FLOAT, "b": BOOL}


class _DlTensor(ctypes.Structure):
    """DLTensor"""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


class _Managed(ctypes.Structure):
    """DLManagedTensor"""

    _fields_ = (("tensor", _DlTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


# private function objects: argtypes of `ctypes.pythonapi` are shared by the whole process
_get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_get_raw = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
NAME = b"dltensor"


@dataclass(frozen=True, slots=True)
class Found:
    """A tensor of another library, on a GPU."""

    address: int
    device: int
    dtype: DType | None  # None: a type that xlac does not have
    shape: tuple[int, ...]
    dense: bool  # row-major, without gaps


def read(capsule: object) -> Found:
    """The tensor of a capsule from `__dlpack__`. The capsule still owns it."""
    tensor = _Managed.from_address(_get(capsule, NAME)).tensor
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    strides = tuple(tensor.strides[axis] for axis in range(tensor.ndim)) if tensor.strides else None
    dtype = _dtype(tensor.code, tensor.bits) if tensor.lanes == 1 else None
    return Found(
        (tensor.data or 0) + tensor.byte_offset,
        tensor.device_id,
        dtype,
        shape,
        dense(shape, strides),
    )


def dense(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> bool:
    """Whether strides, in elements, are those of a row-major array."""
    if strides is None or 0 in shape:
        return True
    step = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != step:
            return False
        step *= extent
    return True


def _dtype(code: int, bits: int) -> DType | None:
    return next((dtype for dtype in DType if _coded(dtype) == (code, bits)), None)


def _coded(dtype: DType) -> tuple[int, int]:
    return (BFLOAT if dtype is DType.BF16 else _KIND[dtype.numpy.kind]), 8 * dtype.nbytes


# ---- export ------------------------------------------------------------------------------------

# exported owners, by the address of the structure, until the consumer is done
_given: dict[int, tuple[Any, ...]] = {}


def _delete(managed: int) -> None:
    _given.pop(managed, None)


def _drop(capsule: int) -> None:
    """Releases the tensor of a capsule that was never consumed, as its name shows."""
    if _valid(capsule, NAME):
        _delete(_get_raw(capsule, NAME))


_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_deleter, _destructor = _Callback(_delete), _Callback(_drop)


def give(owner: object, address: int, device: int, dtype: DType, shape: tuple[int, ...]) -> Any:
    """A capsule for a dense array on a GPU; `owner` is kept alive until the consumer is done with
    it.
    """
    extents = (ctypes.c_int64 * max(1, len(shape)))(*shape)
    code, bits = _coded(dtype)
    managed = _Managed()
    managed.tensor = _DlTensor(
        address or None, CUDA, device, len(shape), code, bits, 1, extents, None, 0
    )
    managed.deleter = ctypes.cast(_deleter, ctypes.c_void_p).value
    place = ctypes.addressof(managed)
    _given[place] = (managed, extents, owner)
    return _new(place, NAME, ctypes.cast(_destructor, ctypes.c_void_p))
