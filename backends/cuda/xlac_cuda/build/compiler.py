"""CUDA's compilers: NVRTC if it can be loaded, else nvcc. A program is one file, compiled in one
run.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from xlac_cuda.build import nvrtc
from xlac_cuda.emit.module import arch_in
from xlac_sdk.source import Diagnostic, SourceError, UnavailableError, UnsupportedError
from xlac_sdk.support import limits

# Products are not contracted: expansions compute rounding errors. Where contraction is allowed,
# kernels use fma.
FLAGS = ("-std=c++17", "--fmad=false")
KERNEL = re.compile(r'^extern "C" __global__ .*?(\w+_kernel)\(')


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """A compiled file: machine code, PTX, and the assembler's report of each kernel's resources."""

    cubin: bytes
    ptx: str
    log: str


def build(sources: Mapping[str, str], folder: Path) -> Path:
    """Compiles the one file of a program; its code is stored beside it."""
    ((name, text),) = sources.items()
    cubin = folder / f"{name.removesuffix('.cu')}.cubin"
    cubin.write_bytes(compiled(text, name).cubin)
    return cubin


def compiled(text: str, name: str = "program.cu") -> DeviceCode:
    """Machine code for the architecture that the text names.

    Raises UnsupportedError if there is no compiler, or none that supports the architecture.
    """
    flags = (f"-arch={arch_in(text)}", *FLAGS)
    library = nvrtc.installed()
    if library is not None:
        try:
            device_code = library.compile(text, name, (*flags, "--ptxas-options=-v"))
        except nvrtc.RefusedText as error:
            raise refused(
                text, str(error), f"NVRTC {library.version[0]}.{library.version[1]}"
            ) from None
        return DeviceCode(device_code.cubin, device_code.ptx, device_code.log)
    tool = shutil.which("nvcc")
    if tool is None:
        problem = "compiling CUDA C++ needs NVRTC or nvcc, and neither is installed"
        hint = "pip install nvidia-cuda-nvrtc, or --emit cu, which needs none"
        raise UnavailableError(Diagnostic("XL5004", problem, hint=hint))
    return _nvcc(tool, text, flags)


def identity() -> str:
    """Identifies the compiler: machine code of a newer one may be too new for a driver."""
    file = nvrtc.place() or (Path(tool) if (tool := shutil.which("nvcc")) else None)
    if file is None or not file.is_file():
        return str(file or "")
    facts = file.resolve().stat()
    return f"{file} {facts.st_size} {facts.st_mtime_ns}"


def _nvcc(tool: str, text: str, flags: tuple[str, ...]) -> DeviceCode:
    with tempfile.TemporaryDirectory(prefix="xlac-nvcc-") as scratch:
        folder = Path(scratch)
        (folder / "program.cu").write_text(text, encoding="utf-8")
        done = None
        for form in ("ptx", "cubin"):
            given = "program.cu" if form == "ptx" else "program.ptx"
            more = ("-Xptxas", "-v") if form == "cubin" else ()
            command = [tool, *flags, f"--{form}", *more, given, "-o", f"program.{form}"]
            with limits.ended_in_time():
                done = subprocess.run(
                    command,
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=limits.left(),
                )
            if done.returncode:
                raise refused(text, done.stderr, "nvcc")
        assert done is not None
        ptx = (folder / "program.ptx").read_text(encoding="utf-8")
        return DeviceCode((folder / "program.cubin").read_bytes(), ptx, done.stdout + done.stderr)


def refused(text: str, log: str, tool: str) -> Exception:
    """The error for a text that a compiler rejects: names the kernel, and what it computes."""
    if (
        "unsupported gpu architecture" in log.lower()
        or "invalid value for --gpu-architecture" in log.lower()
    ):
        problem = f"{tool} writes no code for {arch_in(text)}"
        return UnsupportedError(
            Diagnostic("XL5204", problem, hint="a newer CUDA toolkit, or another --arch")
        )
    where = re.search(r"\.cu\((\d+)\)", log)
    problem = (
        f"{tool} refuses the text that the cuda backend "
        f"wrote{_kernel_at(text, int(where[1])) if where else ''}:\n{log[:4000]}"
    )
    return SourceError(Diagnostic("XL9201", problem))


def _kernel_at(text: str, line: int) -> str:
    """` in kernel NAME (and the comment above it)`"""
    lines = text.splitlines()[:line]
    for at in range(len(lines) - 1, -1, -1):
        match = KERNEL.match(lines[at])
        if match:
            start = at
            while start and not lines[start].startswith("/* ") and lines[start]:
                start -= 1
            about = (
                " ".join(part.strip() for part in lines[start:at])
                .removeprefix("/* ")
                .removesuffix(" */")
            )
            return f" in {match[1]}" + (f" ({about})" if about else "")
    return ""
