"""Linking without a C library: by the built-in linker if it supports the machine, else by those of
LLVM and GNU on the path.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from xlac_cpu.ahead.elf import linking
from xlac_cpu.ahead.elf.image import Bytes
from xlac_cpu.ahead.elf.objects import LinkError
from xlac_cpu.llvm.host import host
from xlac_cpu.machine import Machine
from xlac_sdk.host import tool
from xlac_sdk.source import Diagnostic, UnavailableError, UnsupportedError

# The prefixes of GNU tools in distributions, by architecture and the rest of the triple.
GNU = (
    (r"x86_64-.*linux", "x86_64-linux-gnu-"),
    (r"i[3-6]86-.*linux", "i686-linux-gnu-"),
    (r"aarch64-.*linux", "aarch64-linux-gnu-"),
    (r"(arm|thumb).*-linux-.*hf$", "arm-linux-gnueabihf-"),
    (r"(arm|thumb).*-linux", "arm-linux-gnueabi-"),
    (r"(arm|thumb).*-none-", "arm-none-eabi-"),
    (r"riscv64-.*linux", "riscv64-linux-gnu-"),
    (r"riscv(32|64)-", "riscv64-unknown-elf-"),
    (r"powerpc64le-", "powerpc64le-linux-gnu-"),
    (r"s390x-", "s390x-linux-gnu-"),
)
ELF = ("linux", "none", "freebsd", "netbsd", "openbsd", "elf", "fuchsia", "android")
# libgcc raises a signal for a division by zero; guarded divisions never do.
RAISE = ("--defsym=raise=0",)
QUIET = ("-s", "--build-id=none", "-z", "noexecstack", "-z", "max-page-size=4096", "-z", "norelro")
OPEN = (
    "-shared",
    "-Bsymbolic",
    "--hash-style=gnu",
    "-z",
    "noexecstack",
    "-z",
    "max-page-size=4096",
    "--build-id=none",
)
OWN = ("x86_64", "aarch64")


@dataclass(frozen=True, slots=True)
class OwnLinker:
    """The built-in linker for 64-bit ELF. What it does not support, such as functions of libgcc, is
    left to the machine's linker.
    """

    machine: Machine

    def shared(
        self, objects: Sequence[bytes], name: str, exports: Sequence[str], output: Path
    ) -> None:
        """A shared library without dependencies, with its name as soname."""
        self._write(
            output,
            lambda: linking.shared(objects, name, exports),
            lambda tool: tool.shared(objects, name, exports, output),
        )

    def open(self, objects: Sequence[bytes], name: str, output: Path) -> None:
        """A shared library that exports all symbols, and resolves undefined ones in the loading
        process.
        """
        self._write(
            output,
            lambda: linking.shared(objects, name, open=True),
            lambda tool: tool.open(objects, name, output),
        )

    def program(self, objects: Sequence[bytes], start: str, output: Path) -> None:
        """A static executable that starts at `start`."""
        self._write(
            output,
            lambda: linking.program(objects, start),
            lambda tool: tool.program(objects, start, output),
        )

    def wasm(self, objects: Sequence[bytes], exports: Sequence[str], output: Path) -> None:
        """Raises UnsupportedError: these machines have no WebAssembly modules."""
        tool_of(self.machine).wasm(objects, exports, output)

    def _write(
        self, output: Path, link: Callable[[], Iterable[Bytes]], other: Callable[[Linker], None]
    ) -> None:
        """Writes the result of the built-in linker, or else of the machine's linker.

        Raises UnsupportedError, with the built-in linker's reason, if there is none.
        """
        try:
            pieces = link()
        except LinkError as error:
            try:
                tool = tool_of(self.machine)
            except UnsupportedError as missing:
                diagnostic = missing.diagnostics[0]
                raise UnsupportedError(
                    Diagnostic(
                        diagnostic.code, f"{diagnostic.message} ({error})", hint=diagnostic.hint
                    )
                ) from None
            other(tool)
        else:
            with output.open("wb") as file:
                file.writelines(pieces)


@dataclass(frozen=True, slots=True)
class Linker:
    """An LLVM or GNU linker for one machine's objects."""

    machine: Machine
    command: str

    def shared(
        self, objects: Sequence[bytes], name: str, exports: Sequence[str], output: Path
    ) -> None:
        """A shared library without dependencies, with its name as soname."""
        flags = ("-shared", "-soname", name, "--hash-style=gnu", "-z", "defs", *QUIET)
        with tempfile.NamedTemporaryFile("w", suffix=".map") as script:
            script.write(f"{{ global: {' '.join(f'{name};' for name in exports)} local: *; }};\n")
            script.flush()
            self.link(objects, (*flags, f"--version-script={script.name}"), output)

    def open(self, objects: Sequence[bytes], name: str, output: Path) -> None:
        """A shared library that exports all symbols, and resolves undefined ones in the loading
        process.
        """
        self.link(objects, (*OPEN, "-soname", name), output)

    def program(self, objects: Sequence[bytes], start: str, output: Path) -> None:
        """A static executable that starts at `start`."""
        self.link(objects, ("-static", "-e", start, "--gc-sections", *QUIET), output)

    def wasm(self, objects: Sequence[bytes], exports: Sequence[str], output: Path) -> None:
        """A WebAssembly module with its memory, whose heap starts at `__heap_base`."""
        flags = [
            "--no-entry",
            "--strip-all",
            *(f"--export={name}" for name in (*exports, "__heap_base")),
        ]
        self.link(objects, flags, output)

    def link(self, objects: Sequence[bytes], flags: Sequence[str], output: Path) -> None:
        """Runs the linker, again with the compiler's runtime library if its functions are missing.

        The output goes to a temporary folder, as LLVM's linker crashes on a full disk.
        """
        with tempfile.TemporaryDirectory(prefix="xlac-") as folder:
            files = [Path(folder) / f"{number}.o" for number in range(len(objects))]
            for file, image in zip(files, objects, strict=True):
                file.write_bytes(image)
            linked = Path(folder) / "linked"
            complaint = self._run((*map(str, files), *flags), linked)
            if complaint and re.search("undefined (symbol|reference)", complaint):
                for library in self._builtins():
                    complaint = self._run((*map(str, files), library, *RAISE, *flags), linked)
                    if not complaint:
                        break
            if not complaint:
                shutil.copy(linked, output)
        if complaint:
            text = "\n".join(line for line in complaint.splitlines() if line.strip())[:2000]
            text = text.replace(folder, "")
            problem = f"{self.command} cannot link this for {self.machine.triple}:\n{text}"
            raise UnsupportedError(
                Diagnostic("XL5111", problem, hint="--emit a,h leaves linking to you")
            )

    def _run(self, arguments: Sequence[str], output: Path) -> str:
        """The linker's error text; empty if it made the file."""
        return tool.run([self.command, *arguments, "-o", str(output)])

    def _builtins(self) -> Iterator[str]:
        """Runtime libraries with the functions that compilers call for operations that a processor
        lacks.
        """
        for compiler in (*named(self.machine, "gcc"), "clang"):
            if shutil.which(compiler) is None:
                continue
            flags = (
                [f"--target={self.machine.triple}"]
                if compiler == "clang"
                else multilib(self.machine)
            )
            answer = subprocess.run(
                [compiler, *flags, "-print-libgcc-file-name"],
                capture_output=True,
                text=True,
                check=False,
            )
            if answer.returncode == 0 and Path(answer.stdout.strip()).is_file():
                yield answer.stdout.strip()


def find(machine: Machine) -> OwnLinker | Linker:
    """A linker for a machine's objects. Raises UnsupportedError if none is on the path, or none is
    known.
    """
    own = machine.triple.split("-")[0] in OWN and any(part in machine.triple for part in ELF)
    return OwnLinker(machine) if own else tool_of(machine)


def tool_of(machine: Machine) -> Linker:
    """A linker on the path for a machine's objects. Raises UnsupportedError when there is none, or
    none is known.
    """
    names = candidates(machine)
    if not names:
        problem = f"xlac does not link for {machine.triple}"
        raise UnavailableError(
            Diagnostic("XL5011", problem, hint="--emit o,h or a,h: your own linker takes those")
        )
    for name in names:
        path = shutil.which(name)
        if path:
            return Linker(machine, name)
    problem = (
        f"linking for {machine.triple} needs a linker, and none of {', '.join(names)} is on the "
        "path"
    )
    hint = "install lld or binutils, or leave linking to others: --emit a,h"
    raise UnavailableError(Diagnostic("XL5004", problem, hint=hint))


def candidates(machine: Machine) -> tuple[str, ...]:
    """Names of linkers for a machine's objects."""
    if machine.arch.startswith("wasm"):
        return ("wasm-ld", "wasm-ld-19", "wasm-ld-14")
    if not any(part in machine.triple for part in ELF):
        return ()
    return ("ld.lld", *named(machine, "ld"))


def named(machine: Machine, tool: str) -> list[str]:
    """The GNU tool for a machine: with its prefix, and also without if it is this machine's."""
    cross = [prefix + tool for pattern, prefix in GNU if re.match(pattern, machine.triple)][:1]
    return [*cross, tool] if machine.arch == host().arch else cross


def multilib(machine: Machine) -> list[str]:
    """Flags that select a library variant of arm-none-eabi-gcc."""
    if not machine.triple.startswith(("arm", "thumb")) or "-none-" not in machine.triple:
        return []
    hard = machine.triple.endswith("hf")
    return (
        ["-mthumb", f"-mcpu={machine.cpu}"] + (["-mfloat-abi=hard"] if hard else [])
        if machine.cpu
        else []
    )
