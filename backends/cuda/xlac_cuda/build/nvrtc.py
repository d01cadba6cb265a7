"""NVRTC by ctypes: CUDA C++ to machine code in this process. No other part of CUDA is needed."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from xlac_cuda import toolkit

WHEELS = ("nvidia.cu13.lib", "nvidia.cuda_nvrtc.lib")  # the folder in NVIDIA's PyPI packages
LEAST = 12  # the first major version with the architectures and options used here


@dataclass(frozen=True, slots=True)
class CompiledText:
    """NVRTC's result: machine code, PTX, and the assembler's report of registers and spills."""

    cubin: bytes
    ptx: str
    log: str


class RefusedText(Exception):
    """The compiler's message about a text that it rejects."""


@dataclass(frozen=True, slots=True)
class Nvrtc:
    """A loaded library."""

    library: Any
    version: tuple[int, int]

    def compile(self, text: str, name: str, options: Sequence[str]) -> CompiledText:
        """Compiles one file. Raises RefusedText."""
        program = ctypes.c_void_p()
        given = [option.encode() for option in options]
        self._check(
            self.library.nvrtcCreateProgram(
                ctypes.byref(program), text.encode(), name.encode(), 0, None, None
            )
        )
        try:
            status = self.library.nvrtcCompileProgram(
                program, len(given), (ctypes.c_char_p * len(given))(*given)
            )
            log = self._text(program, "ProgramLog")
            if status:
                raise RefusedText(log or self._said(status))
            return CompiledText(self._bytes(program, "CUBIN"), self._text(program, "PTX"), log)
        finally:
            self.library.nvrtcDestroyProgram(ctypes.byref(program))

    def _text(self, program: ctypes.c_void_p, what: str) -> str:
        return self._bytes(program, what).rstrip(b"\0").decode(errors="replace")

    def _bytes(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self.library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        room = ctypes.create_string_buffer(size.value)
        self._check(getattr(self.library, f"nvrtcGet{what}")(program, room))
        return room.raw

    def _check(self, status: int) -> None:
        if status:
            raise RefusedText(self._said(status))

    def _said(self, status: int) -> str:
        self.library.nvrtcGetErrorString.restype = ctypes.c_char_p
        return str(self.library.nvrtcGetErrorString(status).decode())


@cache
def installed() -> Nvrtc | None:
    """The library: from a Python package, an installed toolkit, or the system; None if there is
    none.
    """
    for file in _files():
        try:
            _builtins(file)
            library = ctypes.CDLL(str(file))
            major, minor = ctypes.c_int(), ctypes.c_int()
            library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        except (OSError, AttributeError):
            continue
        if major.value >= LEAST:
            return Nvrtc(library, (major.value, minor.value))
    return None


def place() -> Path | None:
    """The path of the library that is tried first, without loading it. None if only the system's
    loader may find one.
    """
    return next((file for file in _files() if file.is_absolute()), None)


def _files() -> Iterator[Path]:
    return toolkit.files("nvrtc", WHEELS)


def _builtins(file: Path) -> None:
    """Loads NVRTC's second library, which it looks up by name and so finds only if it is loaded
    already.
    """
    for second in sorted(file.parent.glob("libnvrtc-builtins.so.*")) if file.is_absolute() else ():
        ctypes.CDLL(str(second), ctypes.RTLD_GLOBAL)
