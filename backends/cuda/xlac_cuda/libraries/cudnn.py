"""cuDNN by ctypes: every call typed and checked."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from xlac_cuda import toolkit
from xlac_cuda.device.errors import DeviceError
from xlac_cuda.libraries.cudnn_names import (
    NOT_INITIALIZED,
    NOT_SUPPORTED,
    OUT_OF_MEMORY,
    Attribute,
    DescriptorKind,
)
from xlac_sdk.source import Diagnostic, LimitError, UnsupportedError, XlacError

WHEELS = ("nvidia.cudnn.lib",)  # the folder in NVIDIA's PyPI packages
LEAST = 9  # the first major version with the attributes used here
MOST = 4096  # bytes of an error message

# Parameters, a letter each: h handle or address, i int, l int64
_LETTERS = {"i": ctypes.c_int, "h": ctypes.c_void_p, "l": ctypes.c_int64}
SIGNATURES = {
    "cudnnCreate": "h",
    "cudnnDestroy": "h",
    "cudnnSetStream": "hh",
    "cudnnBackendCreateDescriptor": "ih",
    "cudnnBackendDestroyDescriptor": "h",
    "cudnnBackendSetAttribute": "hiilh",
    "cudnnBackendGetAttribute": "hiilhh",
    "cudnnBackendFinalize": "h",
    "cudnnBackendExecute": "hhh",
}


class Cudnn:
    """The library. `dnn("cudnnDestroy", handle)` calls it and raises the error of `failure` for a
    failure.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        library.cudnnGetVersion.restype = ctypes.c_size_t
        library.cudnnGetErrorString.restype = ctypes.c_char_p
        library.cudnnGetLastErrorString.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        library.cudnnGetLastErrorString.restype = None
        self.number = int(library.cudnnGetVersion())
        self._name, self._message = library.cudnnGetErrorString, library.cudnnGetLastErrorString
        self.raw = {name: getattr(library, name) for name in SIGNATURES}
        for name, letters in SIGNATURES.items():
            self.raw[name].argtypes = [_LETTERS[letter] for letter in letters]
            self.raw[name].restype = ctypes.c_int

    @property
    def version(self) -> tuple[int, int]:
        """Major and minor version, such as 9.28. Up to version 8 the encoding had one
        digit less.
        """
        unit = 10_000 if self.number >= 90_000 else 1000
        return self.number // unit, self.number % unit // 100

    def __call__(self, call: str, *given: Any) -> None:
        status = self.raw[call](*given)
        if status:
            raise self.failure(call, status)

    def handle(self) -> int:
        """A handle for the current context."""
        handle = ctypes.c_void_p()
        self("cudnnCreate", ctypes.addressof(handle))
        return handle.value or 0

    def create(self, kind: DescriptorKind) -> int:
        """A new descriptor, not yet finalized."""
        descriptor = ctypes.c_void_p()
        self("cudnnBackendCreateDescriptor", kind, ctypes.addressof(descriptor))
        return descriptor.value or 0

    def set(self, descriptor: int, attribute: Attribute, values: Sequence[Any]) -> None:
        """Sets an attribute to an array of its type."""
        number, type = attribute.value
        array = (type.element * len(values))(*values)
        self(
            "cudnnBackendSetAttribute",
            descriptor,
            number,
            type.number,
            len(values),
            ctypes.addressof(array),
        )

    def get(self, descriptor: int, attribute: Attribute, room: Sequence[Any]) -> list[Any]:
        """The values of an attribute, as many as fit `room`; for descriptors, `room` has those to
        be filled.
        """
        number, type = attribute.value
        array, count = (type.element * len(room))(*room), ctypes.c_int64()
        self(
            "cudnnBackendGetAttribute",
            descriptor,
            number,
            type.number,
            len(room),
            ctypes.addressof(count),
            ctypes.addressof(array),
        )
        return list(array)[: count.value]

    def failure(self, call: str, status: int) -> XlacError:
        """The error for a nonzero status."""
        name = (self._name(status) or b"").decode(errors="replace") or str(status)
        message = ctypes.create_string_buffer(MOST)
        self._message(message, MOST)
        lines = message.value.decode(errors="replace").strip().splitlines()
        about = f"{call}: {name}" + (f", {lines[-1]}" if lines else "")
        if status in OUT_OF_MEMORY:
            return LimitError(
                Diagnostic(
                    "XL5214",
                    f"the GPU's memory is used up ({about})",
                    hint="nvidia-smi shows who uses it",
                )
            )
        if status == NOT_INITIALIZED:
            return UnsupportedError(
                Diagnostic(
                    "XL5221", f"cuDNN cannot use this GPU or its driver ({about})", hint=WITHOUT
                )
            )
        if status in NOT_SUPPORTED:
            return UnsupportedError(
                Diagnostic("XL5222", f"cuDNN does not compute this ({about})", hint=WITHOUT)
            )
        return DeviceError(Diagnostic("XL5217", f"{call} failed: {about.partition(': ')[2]}"), 0)


WITHOUT = "an --arch without +cudnn has kernels for everything"


@cache
def installed() -> Cudnn | None:
    """The library: from a Python package, an installed toolkit, or the system; None if there is
    none that is new enough.
    """
    return next((dnn for dnn in _loaded() if dnn.version[0] >= LEAST), None)


def wanted(least: tuple[int, int]) -> Cudnn:
    """The library, for a program that calls it. Raises UnsupportedError if there is none, or only
    an old one.
    """
    dnn = installed()
    if dnn is not None and dnn.version >= least:
        return dnn
    old = dnn or next(_loaded(), None)
    if old is not None:
        version_here, needed = (".".join(map(str, version)) for version in (old.version, least))
        problem = (
            f"cuDNN {version_here} is too old: the program calls that of version {needed} or later"
        )
        raise UnsupportedError(
            Diagnostic("XL5221", problem, hint=f"a newer nvidia-cudnn-cu13; or {WITHOUT}")
        )
    problem = "the program calls cuDNN, which is not installed here (libcudnn.so)"
    raise UnsupportedError(
        Diagnostic("XL5220", problem, hint=f"pip install nvidia-cudnn-cu13; or {WITHOUT}")
    )


def _loaded() -> Iterator[Cudnn]:
    for file in _files():
        try:
            yield Cudnn(ctypes.CDLL(str(file)))
        except (OSError, AttributeError):
            continue


def _files() -> Iterator[Path]:
    return toolkit.files("cudnn", WHEELS, (LEAST,))
