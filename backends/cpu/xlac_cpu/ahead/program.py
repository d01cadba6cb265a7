"""The command-line executable: C text that reads and writes .npy files, compiled and linked with
the model.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from importlib.resources import files
from pathlib import Path

from xlac_cpu.ahead import linker
from xlac_cpu.llvm.host import host
from xlac_cpu.machine import Machine
from xlac_sdk.host import tool
from xlac_sdk.host.capi import Api, header
from xlac_sdk.host.capi.render import npy_program
from xlac_sdk.source import Diagnostic, UnavailableError, UnsupportedError

PLAIN = ("-Os", "-std=gnu11", "-fno-asynchronous-unwind-tables")
ALONE = (*PLAIN, "-ffreestanding", "-fno-builtin", "-fno-stack-protector", "-fno-pic", "-fno-pie")
LIBRARY = r"^#include <(errno|stdio|stdlib|string|fcntl|unistd|sys/\w+)\.h>\n"
SYSTEM_CALLS = ("x86_64", "aarch64", "riscv64", "arm", "thumb")  # as in system_calls.c


def write(machine: Machine, api: Api, image: bytes, static: bool, output: Path) -> None:
    """Links the executable: with the system's C library or, if `static`, without any."""
    command = compiler(machine)
    with tempfile.TemporaryDirectory(prefix="xlac-") as name:
        folder = Path(name)
        (folder / f"{api.prefix}.h").write_text(header(api), encoding="utf-8")
        (folder / "model.o").write_bytes(image)
        text = npy_program(api)
        if not static:
            (folder / "main.c").write_text(text, encoding="utf-8")
            run(
                [
                    *command,
                    *PLAIN,
                    "main.c",
                    "model.o",
                    "-s",
                    "-Wl,--build-id=none",
                    "-o",
                    "program",
                ],
                folder,
                machine,
            )
            shutil.copy(folder / "program", output)
            return
        if "linux" not in machine.triple or not machine.arch.startswith(SYSTEM_CALLS):
            problem = f"a program without a C library cannot be made for {machine.triple}"
            raise UnsupportedError(
                Diagnostic("XL5011", problem, hint="leave --static out, or --emit o,h")
            )
        (folder / "main.c").write_text(
            library() + re.sub(LIBRARY, "", text, flags=re.MULTILINE), encoding="utf-8"
        )
        run([*command, *ALONE, "-c", "main.c", "-o", "main.o"], folder, machine)
        linker.find(machine).program([image, (folder / "main.o").read_bytes()], "_start", output)


def library() -> str:
    """C text that replaces a C library: system calls, and the few functions that the executable
    needs.
    """
    templates = files("xlac_cpu") / "templates"
    return "".join(
        (templates / name).read_text(encoding="utf-8")
        for name in ("system_calls.c", "freestanding.c")
    )


def compiler(machine: Machine) -> list[str]:
    """A C compiler for a machine, with its flags. Raises UnsupportedError if none is
    on the path.
    """
    own = machine.arch == host().arch
    names = [*(["cc"] if own else []), *linker.named(machine, "gcc"), "clang"]
    for name in names:
        if shutil.which(name) is None:
            continue
        if name != "clang" or own:
            return [name, *linker.multilib(machine)]
        cpu = (
            [f"-mcpu={machine.cpu}"]
            if machine.cpu and machine.arch.startswith(("arm", "thumb", "aarch64"))
            else []
        )
        return [name, f"--target={machine.triple}", *cpu]
    problem = (
        f"a program for {machine.triple} needs a C compiler, and none of {', '.join(names)} is on "
        "the path"
    )
    raise UnavailableError(Diagnostic("XL5004", problem, hint="install one, or --emit o,h"))


def run(command: list[str], folder: Path, machine: Machine) -> None:
    """Runs a tool; raises UnsupportedError with its output."""
    errors = tool.run(command, folder)
    if errors:
        problem = f"{command[0]} cannot make a program for {machine.triple}:\n{errors[:2000]}"
        raise UnsupportedError(Diagnostic("XL5111", problem, hint="--emit o,h leaves it to you"))
