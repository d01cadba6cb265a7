"""NCCL by ctypes: every call typed and checked. Names and numbers are those of nccl.h, 2.14 to
2.32.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from xlac_cuda import toolkit
from xlac_cuda.device.errors import DeviceError
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, UnsupportedError

WHEELS = ("nvidia.nccl.lib",)  # the folder in NVIDIA's PyPI packages
LEAST = 21400  # 2.14: the first whose calls return before all ranks have made them

TYPES = {
    DType.I8: 0, DType.U8: 1, DType.I32: 2, DType.U32: 3, DType.I64: 4, DType.U64: 5,
    DType.F16: 6, DType.F32: 7, DType.F64: 8, DType.BF16: 9,
}  # fmt: skip
"""ncclDataType_t; other types are moved as bytes, and never combined."""

OPERATIONS = {"add": 0, "mul": 1, "max": 2, "min": 3}  # ncclRedOp_t
IN_PROGRESS = 7  # ncclResult_t
ID_BYTES = 128  # NCCL_UNIQUE_ID_BYTES
MAGIC = 0xCAFEBEEF  # NCCL_API_MAGIC


class UniqueId(ctypes.Structure):
    """ncclUniqueId"""

    _fields_ = (("internal", ctypes.c_char * ID_BYTES),)


class NcclConfiguration(ctypes.Structure):
    """ncclConfig_t as of 2.14, which later versions fill up with what is usual."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("magic", ctypes.c_uint),
        ("version", ctypes.c_uint),
        ("blocking", ctypes.c_int),
    )


# Parameters, a letter each: i int or enumeration, z bytes or elements, h handle, stream or address,
# u a unique id by value
_TYPES = {"i": ctypes.c_int, "z": ctypes.c_size_t, "h": ctypes.c_void_p, "u": UniqueId}
SIGNATURES = {
    "ncclGetVersion": "h",
    "ncclGetUniqueId": "h",
    "ncclCommInitRankConfig": "hiuih",
    "ncclCommFinalize": "h",
    "ncclCommDestroy": "h",
    "ncclCommAbort": "h",
    "ncclCommGetAsyncError": "hh",
    "ncclAllReduce": "hhziihh",
    "ncclReduceScatter": "hhziihh",
    "ncclAllGather": "hhzihh",
    "ncclBroadcast": "hhziihh",
    "ncclSend": "hziihh",
    "ncclRecv": "hziihh",
    "ncclGroupStart": "",
    "ncclGroupEnd": "",
}


class Nccl:
    """The library. `nccl("ncclGroupStart")` calls it and raises the error of `failure` for a
    failure; a call that is still in progress is none.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        library.ncclGetErrorString.restype = ctypes.c_char_p
        self._text = library.ncclGetErrorString
        version = ctypes.c_int()
        library.ncclGetVersion(ctypes.byref(version))
        self.number = version.value  # 2.32.3 is 23203
        self.raw = {}
        if self.number < LEAST:
            return
        for name, letters in SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes = [_TYPES[letter] for letter in letters]
            function.restype = ctypes.c_int
            self.raw[name] = function

    def __call__(self, call: str, *given: Any) -> None:
        status = self.raw[call](*given)
        if status not in (0, IN_PROGRESS):
            raise self.failure(call, status)

    def unique_id(self) -> bytes:
        """What names a new group of ranks."""
        made = UniqueId()
        self("ncclGetUniqueId", ctypes.addressof(made))
        return ctypes.string_at(ctypes.addressof(made), ID_BYTES)

    def joined(self, members: int, unique: bytes, own: int) -> int:
        """A communicator of a group, whose calls do not wait for other ranks: it is in progress,
        as these are. The context must be current.
        """
        handle, settings = ctypes.c_void_p(), NcclConfiguration(24, MAGIC, LEAST, 0)
        named = UniqueId.from_buffer_copy(unique)
        where, about = ctypes.addressof(handle), ctypes.addressof(settings)
        self("ncclCommInitRankConfig", where, members, named, own, about)
        return handle.value or 0

    def state(self, communicator: int) -> int:
        """What became of a communicator's calls: 0, IN_PROGRESS, or the number of an error."""
        found = ctypes.c_int()
        self("ncclCommGetAsyncError", communicator, ctypes.addressof(found))
        return found.value

    def text_of(self, status: int) -> str:
        """NCCL's text for a result."""
        return (self._text(status) or b"").decode(errors="replace") or str(status)

    def failure(self, call: str, status: int) -> DeviceError:
        """The error for a result that is none of success."""
        problem = f"{call} failed: {self.text_of(status)}"
        return DeviceError(Diagnostic("XL5217", problem, hint="NCCL_DEBUG=WARN tells more"), 0)


@cache
def wanted() -> Nccl:
    """The library: from a Python package, an installed toolkit, or the system. Raises
    UnsupportedError if there is none, or only an old one.
    """
    found = list(_loaded())
    new = next((nccl for nccl in found if nccl.number >= LEAST), None)
    if new is not None:
        return new
    hint = "pip install nvidia-nccl-cu12, or nvidia-nccl-cu13 for CUDA 13"
    if found:
        problem = f"NCCL {found[0].number} is too old: ranks with GPUs need 2.14 or later"
        raise UnsupportedError(Diagnostic("XL5221", problem, hint=hint))
    problem = "ranks exchange values of GPUs by NCCL, which is not installed here (libnccl.so.2)"
    raise UnsupportedError(Diagnostic("XL5220", problem, hint=hint))


def _loaded() -> Iterator[Nccl]:
    for file in _files():
        try:
            yield Nccl(ctypes.CDLL(str(file)))
        except (OSError, AttributeError):
            continue


def _files() -> Iterator[Path]:
    return toolkit.files("nccl", WHEELS, (2,))
