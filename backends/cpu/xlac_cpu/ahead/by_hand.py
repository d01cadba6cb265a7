"""Compiles hand-written functions in C99 to objects, with the system's C compiler."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from xlac_cpu.ahead import program
from xlac_cpu.ahead.elf.objects import LinkError, Object
from xlac_cpu.hand_written import HEAD
from xlac_cpu.llvm.host import host
from xlac_cpu.machine import Machine
from xlac_sdk.host import tool
from xlac_sdk.source import Diagnostic, UnavailableError, UnsupportedError

FLAGS = ("-std=c99", "-O3", "-fPIC", "-ffp-contract=off", "-fno-asynchronous-unwind-tables")


def object_code(text: str) -> bytes:
    """The object file of a C99 text. Raises UnsupportedError if there is no C compiler, or if it
    rejects the text.
    """
    machine = Machine(**json.loads(text[: text.index("\n")].removeprefix(HEAD).removesuffix(" */")))
    own = machine.triple == host().triple and machine.cpu == host().cpu
    flags = [*FLAGS, *(["-march=native"] if own else [])]
    with tempfile.TemporaryDirectory(prefix="xlac-") as folder:
        (Path(folder) / "kernel.c").write_text(text, encoding="utf-8")
        _run([*_compiler(machine), *flags, "-c", "kernel.c", "-o", "kernel.o"], Path(folder))
        image = (Path(folder) / "kernel.o").read_bytes()
    if own:
        _check_symbols(image, text)
    return image


def _check_symbols(image: bytes, text: str) -> None:
    """Raises UnsupportedError if an object for this machine does not define the called function, or
    has undefined symbols that this process cannot resolve. Object formats other than ELF are not
    checked.
    """
    import llvmlite.binding as llvm

    with suppress(LinkError):
        symbols = Object(image).globals
        _, name, symbol = next(x for x in text.split("\n") if x.startswith("#define ")).split(" ")
        problem = ""
        if not any(one.name == symbol and one.function and one.defined for one in symbols):
            problem = f"a hand-written kernel in C defines no function {name}"
        for one in symbols:
            there = one.defined or one.weak or one.name in (symbol, "_GLOBAL_OFFSET_TABLE_")
            if one.name and not there and llvm.address_of_symbol(one.name) is None:
                problem = f"the hand-written kernel {name} calls {one.name}, which is not defined"
        if problem:
            hint = "define it in the kernel's file; only the C library is linked"
            raise UnsupportedError(Diagnostic("XL5113", problem, hint=hint))


def merged(image: bytes, texts: Sequence[str], machine: Machine) -> bytes:
    """One relocatable object from an object and the compiled C99 texts."""
    with tempfile.TemporaryDirectory(prefix="xlac-") as name:
        folder = Path(name)
        objects = [image, *map(object_code, texts)]
        for number, data in enumerate(objects):
            (folder / f"{number}.o").write_bytes(data)
        names = [f"{number}.o" for number in range(len(objects))]
        _run([*_compiler(machine), "-nostdlib", "-r", *names, "-o", "all.o"], folder)
        return (folder / "all.o").read_bytes()


def shared(image: bytes, name: str, exports: Sequence[str], machine: Machine, output: Path) -> None:
    """Links an object into a shared library, with the C library."""
    with tempfile.TemporaryDirectory(prefix="xlac-") as folder_name:
        folder = Path(folder_name)
        (folder / "model.o").write_bytes(image)
        listed = " ".join(f"{export};" for export in exports)
        (folder / "exports.map").write_text(f"{{ global: {listed} local: *; }};\n", "utf-8")
        flags = ["-shared", "-s", f"-Wl,-soname,{name}", "-Wl,--version-script=exports.map"]
        flags += ["-Wl,--build-id=none", "-Wl,-z,defs", "-Wl,-z,noexecstack"]
        _run([*_compiler(machine), *flags, "model.o", "-lm", "-o", "library.so"], folder)
        shutil.copy(folder / "library.so", output)


def _compiler(machine: Machine) -> list[str]:
    try:
        return program.compiler(machine)
    except UnsupportedError:
        problem = f"a hand-written kernel in C for {machine.triple} needs a C compiler"
        hint = "install one, as gcc; or give the kernel as LLVM IR (.ll), or --no-kernels"
        raise UnavailableError(Diagnostic("XL5004", problem, hint=hint)) from None


def _run(command: list[str], folder: Path) -> None:
    errors = tool.run(command, folder)
    if errors:
        problem = f"{command[0]} refuses a hand-written kernel:\n{errors[:4000]}"
        raise UnsupportedError(Diagnostic("XL5113", problem, hint="mend the file"))
