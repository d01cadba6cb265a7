"""The layout of arrays in CPython and NumPy that `templates/fastcall.ll` assumes, and its
verification.

NumPy declares these fields in its headers (`PyArrayObject_fields`) and has kept them since 1.7;
here they are read from a few arrays at the assumed offsets, and compared with the arrays'
attributes.
"""

from __future__ import annotations

import ctypes
import os
import struct
from functools import cache
from importlib import import_module

import numpy as np

from xlac_sdk.dtypes import Array

# field offsets: ob_type of any object, then those of PyArrayObject_fields
FIELDS = {"type": 8, "data": 16, "rank": 24, "extents": 32, "descr": 56, "flags": 64}
DENSE = 0x0001 | 0x0100  # NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_ALIGNED
WRITABLE = 0x0400  # NPY_ARRAY_WRITEABLE
# indices in NumPy's table of C functions: PyArray_GetNDArrayCVersion, PyArray_Type,
# PyArray_NewFromDescr
VERSION, ARRAY_TYPE, NEW_FROM_DESCR = 0, 2, 94
KNOWN = (1, 2)  # the major byte of the version in which the table is as assumed


def c_functions() -> ctypes.Array[ctypes.c_void_p]:
    """The entries of NumPy's table of C functions that are used."""
    # of its own: those of `ctypes.pythonapi` are shared by all threads
    kind = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    get = kind(("PyCapsule_GetPointer", ctypes.pythonapi))
    try:
        core = import_module("numpy._core._multiarray_umath")
    except ImportError:  # NumPy 1
        core = import_module("numpy.core._multiarray_umath")
    return (ctypes.c_void_p * (NEW_FROM_DESCR + 1)).from_address(get(core._ARRAY_API, None))


@cache
def as_assumed() -> bool:
    """Whether arrays have the layout of `FIELDS`, and NumPy's table has the expected functions."""
    if struct.calcsize("P") != 8 or np.ndarray.__basicsize__ < max(FIELDS.values()) + 4:
        return False
    dense = np.arange(6, dtype=np.int32).reshape(3, 2)
    shifted = np.frombuffer(bytes(17), np.uint8)[1:].view(np.float32)  # misaligned on purpose
    fixed = dense.copy()
    fixed.flags.writeable = False
    return (
        all(map(_agrees, (dense, dense.T, shifted, fixed)))
        and _read(_at(dense, "extents", ctypes.c_uint64), 16) == struct.pack("2q", *dense.shape)
        and _table_agrees()
    )


def _at(array: Array, field: str, kind: type[ctypes.c_uint64 | ctypes.c_int32]) -> int:
    """The contents of memory at the assumed offset of a field."""
    return kind.from_address(id(array) + FIELDS[field]).value


def _agrees(array: Array) -> bool:
    """Whether the memory agrees with an array's attributes."""
    flags = array.flags
    attributes = 0x0001 * flags.c_contiguous | 0x0100 * flags.aligned | WRITABLE * flags.writeable
    return (
        _at(array, "type", ctypes.c_uint64) == id(type(array))
        and _at(array, "data", ctypes.c_uint64) == array.__array_interface__["data"][0]
        and _at(array, "rank", ctypes.c_int32) == array.ndim
        and _at(array, "descr", ctypes.c_uint64) == id(array.dtype)
        and _at(array, "flags", ctypes.c_int32) & (DENSE | WRITABLE) == attributes
    )


def _read(address: int, count: int) -> bytes:
    """Bytes of this process; fewer if the address is invalid. They are read by a system call, which
    fails where a direct read would crash.
    """
    reader, writer = os.pipe()
    try:
        done = ctypes.CDLL(None).write(writer, ctypes.c_void_p(address), ctypes.c_size_t(count))
        return os.read(reader, done) if done > 0 else b""
    finally:
        os.close(reader)
        os.close(writer)


def _table_agrees() -> bool:
    table = c_functions()
    version = ctypes.CFUNCTYPE(ctypes.c_uint)(table[VERSION] or 0)
    return table[ARRAY_TYPE] == id(np.ndarray) and version() >> 24 in KNOWN
