"""NVRTC by ctypes: CUDA C++ to machine code in this process. Nothing of CUDA but this library is needed."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

WHEELS = ("nvidia.cu13.lib", "nvidia.cuda_nvrtc.lib")  # where NVIDIA's packages on PyPI put it
FOLDERS = ("/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib", "/opt/cuda/lib64")
LEAST = 12  # the first major version whose architectures and options are those used here


@dataclass(frozen=True, slots=True)
class Compiled:
    """What NVRTC made: the code, PTX, and what the assembler said of registers and spills."""

    cubin: bytes
    ptx: str
    log: str


class Refused(Exception):
    """The compiler's words about a text that it does not take."""


@dataclass(frozen=True, slots=True)
class Nvrtc:
    """A loaded library."""

    library: Any
    version: tuple[int, int]

    def compile(self, text: str, name: str, options: Sequence[str]) -> Compiled:
        """Compiles one file. Raises Refused."""
        program = ctypes.c_void_p()
        given = [option.encode() for option in options]
        self._check(self.library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), name.encode(), 0, None, None))
        try:
            status = self.library.nvrtcCompileProgram(program, len(given), (ctypes.c_char_p * len(given))(*given))
            log = self._text(program, "ProgramLog")
            if status:
                raise Refused(log or self._said(status))
            return Compiled(self._bytes(program, "CUBIN"), self._text(program, "PTX"), log)
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
            raise Refused(self._said(status))

    def _said(self, status: int) -> str:
        self.library.nvrtcGetErrorString.restype = ctypes.c_char_p
        return str(self.library.nvrtcGetErrorString(status).decode())


@cache
def found() -> Nvrtc | None:
    """The library: that of a wheel, of an installed toolkit, or the system's; None where there is none."""
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
    """The file of the library that is tried first; it is not loaded. None where only the system's loader may know one."""
    return next((file for file in _files() if file.is_absolute()), None)


def _files() -> Iterator[Path]:
    for package in WHEELS:
        for folder in _package(package):
            yield from _newest(folder)
    homes = [Path(home) / "lib64" for key in ("CUDA_HOME", "CUDA_PATH") if (home := os.environ.get(key))]
    for folder in (*homes, *map(Path, FOLDERS)):
        yield from _newest(folder)
    for major in (13, 12):
        yield Path(f"libnvrtc.so.{major}")


def _package(name: str) -> list[Path]:
    """The folders of a package without its being imported; NVIDIA's have no code."""
    parent, *inner = name.split(".")
    spec = importlib.util.find_spec(parent) if parent not in sys.modules else sys.modules[parent].__spec__
    places = (spec.submodule_search_locations if spec is not None else None) or []
    return [Path(place, *inner) for place in places]


def _newest(folder: Path) -> list[Path]:
    found = [p for p in folder.glob("libnvrtc.so.*") if re.fullmatch(r"libnvrtc\.so\.\d+", p.name)]
    return sorted(found, key=lambda p: -int(p.suffix[1:]))


def _builtins(file: Path) -> None:
    """NVRTC looks for its second library by name, which the loader knows only when it is open already."""
    for second in sorted(file.parent.glob("libnvrtc-builtins.so.*")) if file.is_absolute() else ():
        ctypes.CDLL(str(second), ctypes.RTLD_GLOBAL)
