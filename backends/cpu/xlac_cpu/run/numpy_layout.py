"""What `templates/fastcall.ll` assumes of how CPython and NumPy lay out arrays, and whether it is so.

NumPy declares these fields in its headers (`PyArrayObject_fields`) and has kept them since 1.7; they
are read here from a few arrays by the addresses assumed, and compared with what the arrays say.
"""

from __future__ import annotations

import ctypes
import os
import struct
from functools import cache
from importlib import import_module

import numpy as np

from xlac_sdk.dtypes import Array

# the byte of each field: ob_type of any object, then those of PyArrayObject_fields
FIELDS = {"type": 8, "data": 16, "rank": 24, "extents": 32, "descr": 56, "flags": 64}
DENSE = 0x0001 | 0x0100  # NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_ALIGNED
# of NumPy's table of C functions: PyArray_GetNDArrayCVersion, PyArray_Type, PyArray_NewFromDescr
VERSION, ARRAY_TYPE, NEW_FROM_DESCR = 0, 2, 94
KNOWN = (1, 2)  # the first byte of that version, in which the table is as assumed


def c_functions() -> ctypes.Array[ctypes.c_void_p]:
    """NumPy's table of C functions, as far as it is used here."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    try:
        core = import_module("numpy._core._multiarray_umath")
    except ImportError:  # NumPy 1
        core = import_module("numpy.core._multiarray_umath")
    return (ctypes.c_void_p * (NEW_FROM_DESCR + 1)).from_address(get(core._ARRAY_API, None))


@cache
def as_assumed() -> bool:
    """Whether arrays are laid out as `FIELDS` says, and NumPy's table has what is called at its
    places.
    """
    if struct.calcsize("P") != 8 or np.ndarray.__basicsize__ < max(FIELDS.values()) + 4:
        return False
    dense = np.arange(6, dtype=np.int32).reshape(3, 2)
    shifted = np.frombuffer(bytes(17), np.uint8)[1:].view(np.float32)  # not aligned
    return (
        all(map(_agrees, (dense, dense.T, shifted)))
        and _read(_at(dense, "extents", ctypes.c_uint64), 16) == struct.pack("2q", *dense.shape)
        and _table_agrees()
    )


def _at(array: Array, field: str, kind: type[ctypes.c_uint64 | ctypes.c_int32]) -> int:
    """What lies where a field is thought to be."""
    return kind.from_address(id(array) + FIELDS[field]).value


def _agrees(array: Array) -> bool:
    """Whether what lies there is what an array says of itself; of its extents, their address does
    not tell.
    """
    contiguous, aligned = array.flags.c_contiguous, array.flags.aligned
    return (
        _at(array, "type", ctypes.c_uint64) == id(type(array))
        and _at(array, "data", ctypes.c_uint64) == array.__array_interface__["data"][0]
        and _at(array, "rank", ctypes.c_int32) == array.ndim
        and _at(array, "descr", ctypes.c_uint64) == id(array.dtype)
        and _at(array, "flags", ctypes.c_int32) & DENSE == 0x0001 * contiguous | 0x0100 * aligned
    )


def _read(address: int, count: int) -> bytes:
    """Bytes of this process; fewer where the address is none. The system reads them, which fails
    where a read of ours would end the process.
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
