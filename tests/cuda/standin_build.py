"""Builds what stands in for a GPU: a driver, and libraries of generated kernels for it. Needs g++.

Everything is kept under a folder by what it is made of, so that a second run compiles nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
import threading
from functools import cached_property
from pathlib import Path

SOURCES = Path(__file__).parent / "standin"
KEPT = Path(__file__).parents[2] / ".pytest_cache" / "d" / "standin"
DRIVER = "libcuda-standin.so.1"
COMPILE = ("g++", "-std=c++20", "-fPIC", "-w", "-fstack-clash-protection")
ALIGNED = ("-fsanitize=alignment", "-fsanitize-undefined-trap-on-error")  # as a GPU wants addresses
WATCHED = (
    "-fsanitize=thread",
    "--param=tsan-instrument-func-entry-exit=0",
    "--param=tsan-distinguish-volatile=0",
)

KERNEL = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\(([^,)]+)[^)]*\)\s*)?(\w+)\s*\(")
DYNAMIC = re.compile(
    r"extern\s+__shared__\s+(?:__align__\(\d+\)\s+)?((?:unsigned\s+)?\w+)\s+(\w+)\[\];"
)


class Standin:
    """The stand-in driver and what compiles for it. Nothing is built before it is asked for."""

    def __init__(self, folder: Path = KEPT) -> None:
        self._root = folder

    @cached_property
    def _version(self) -> bytes:
        return subprocess.run(["g++", "--version"], capture_output=True, check=True).stdout

    def _folder(self, *patterns: str) -> Path:
        """Where what is made of some sources, by this compiler and this file, is kept."""
        files = [
            file.read_bytes() for pattern in patterns for file in sorted(SOURCES.glob(pattern))
        ]
        made = self._root / _hash(self._version, Path(__file__).read_bytes(), *files)
        made.mkdir(parents=True, exist_ok=True)
        return made

    @cached_property
    def _kernels(self) -> Path:
        return self._folder("*.h", "host/*.h", "engine/*.h")

    @cached_property
    def driver(self) -> Path:
        """The driver."""
        flags = ("-O1", "-shared", "-fvisibility=hidden", f"-Wl,-soname,{DRIVER}")
        folder = self._folder("engine/*", "driver/*")
        source = _together(folder, "engine/*.cpp", "driver/*.cpp")
        return self._made(folder / DRIVER, [*COMPILE, *flags, str(source), "-ldl"])

    def linked_to(self, library: Path) -> Path:
        """A folder with a libcuda.so.1 that has whatever a library wants of it: the stand-in's
        functions, and for the others ones that say they are not supported."""
        missing = sorted(
            _names(library, "--undefined-only") - _names(self.driver, "--defined-only")
        )
        text = "".join(f"int {name}(void) {{ return 801; }}\n" for name in missing)
        folder = self.driver.parent / _hash(text.encode())
        folder.mkdir(exist_ok=True)
        source = folder / "rest.c"
        source.write_text(text, encoding="utf-8")
        flags = [
            "-shared",
            "-fPIC",
            "-w",
            "-Wl,-soname,libcuda.so.1",
            "-Wl,--no-as-needed",
            "-Wl,-rpath,$ORIGIN/..",
        ]
        return self._made(
            folder / "libcuda.so.1", ["gcc", *flags, str(source), str(self.driver)]
        ).parent

    @cached_property
    def cublaslt(self) -> Path:
        """`libcublasLt.so.13`, which works in the driver's streams."""
        return self._of_nvidia("cublaslt", "libcublasLt.so.13")

    @cached_property
    def cudnn(self) -> Path:
        """`libcudnn.so.9`, likewise."""
        return self._of_nvidia("cudnn", "libcudnn.so.9")

    @cached_property
    def nccl(self) -> Path:
        """`libnccl.so.2`, whose ranks are threads or processes of this machine."""
        return self._of_nvidia("nccl", "libnccl.so.2")

    @cached_property
    def absent(self) -> Path:
        """A folder with the `libcuda.so.1` of a machine that has no GPU."""
        folder = self._folder("absent/*")
        return self._made(
            folder / "libcuda.so.1",
            [
                "gcc",
                "-shared",
                "-fPIC",
                "-w",
                "-Wl,-soname,libcuda.so.1",
                str(SOURCES / "absent/libcuda.c"),
            ],
        ).parent

    def _of_nvidia(self, sources: str, name: str) -> Path:
        """A library beside the driver."""
        flags = ("-O1", "-shared", "-fvisibility=hidden", f"-Wl,-soname,{name}")
        folder = self._folder(f"{sources}/*", "libraries/*", "engine/*", "driver/*")
        source = _together(folder, f"{sources}/*.cpp")
        return self._made(folder / name, [*COMPILE, *flags, str(source), str(self.driver)])

    def library(self, text: str, *, watched: bool = False) -> Path:
        """Kernels of CUDA C++ as a library for the driver; `watched`, every access is looked at:
        much slower.
        """
        flags = (*COMPILE, *ALIGNED, "-O1", *(WATCHED if watched else ()))
        folder = self._kernels / ("watched" if watched else "plain")
        library = folder / f"{_hash(text.encode())}.so"
        if library.exists():
            return library
        header = self._made(
            folder / "cuda_host.h.gch", [*flags, "-x", "c++-header", str(SOURCES / "cuda_host.h")]
        )
        source, compiled = library.with_suffix(".cu"), library.with_suffix(".o")
        _write(source, hosted(text))
        includes = [f"-I{header.parent}", f"-I{SOURCES}", "-include", "cuda_host.h"]
        self._made(compiled, [*flags, *includes, "-x", "c++", "-c", str(source)])
        self._made(library, ["g++", "-shared", str(compiled), str(self.driver)])
        compiled.unlink(missing_ok=True)
        return library

    def _made(self, file: Path, command: list[str]) -> Path:
        """A file that a command makes, unless it is there; whole or not at all. Others who want it
        wait.
        """
        file.parent.mkdir(exist_ok=True)
        with file.with_name(f"{file.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if file.exists():
                return file
            temporary = file.with_name(f"{file.name}.{os.getpid()}")
            done = subprocess.run(
                [*command, "-o", str(temporary)], check=False, capture_output=True, text=True
            )
            if done.returncode:
                temporary.unlink(missing_ok=True)
                raise RuntimeError(f"{' '.join(command)}\n{done.stderr[:6000]}")
            temporary.replace(file)
        return file


def _together(folder: Path, *patterns: str) -> Path:
    """One file with all others in it: their headers, most of what is compiled, are read once."""
    files = [file for pattern in patterns for file in sorted(SOURCES.glob(pattern))]
    text = "".join(f'#include "{file}"\n' for file in files)
    whole = folder / f"{_hash(text.encode())}.cpp"
    if not whole.exists():
        _write(whole, text)
    return whole


def _write(file: Path, text: str) -> None:
    """Writes a file whole: another process or thread may read it meanwhile."""
    temporary = file.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(file)


def _names(library: Path, which: str) -> set[str]:
    """Functions of the driver that a library has, or wants."""
    told = subprocess.run(
        ["nm", "-D", which, str(library)], capture_output=True, text=True, check=True
    ).stdout
    return {name for line in told.splitlines() if (name := line.split()[-1]).startswith("cu")}


def hosted(text: str) -> str:
    """Generated text with what only the host needs: a way in for each kernel, and dynamic shared
    memory by pointer.
    """
    text = DYNAMIC.sub(r"\1 *const \2 = reinterpret_cast<\1 *>(standin::dynamic_shared());", text)
    entries = [
        f"STANDIN_ENTRY({name}, {threads or 1024})" for threads, name in KERNEL.findall(text)
    ]
    return "\n".join([text, *entries, ""])


def _hash(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:20]
