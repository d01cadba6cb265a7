"""Hand-written functions as files of a program: C99 with its declaration before it, or LLVM's text.

The first line of each names the machine, as in the modules that this backend writes; in a module of
LLVM's text the second is `MARK`, what the program calls the function, what the text does, and the
file's name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from xlac_cpu.machine import Machine
from xlac_sdk.emit import hand_written
from xlac_sdk.emit.cdialect import C99
from xlac_sdk.emit.hand_written import HandWrittenFunction
from xlac_sdk.kernel_ir.kernel import Buffer, Kernel

MARK = "; hand-written "
HEAD = "/* xlac "  # of a file of C99


def sources(kernels: Iterable[Kernel], machine: Machine) -> dict[str, str]:
    """The files of the functions that kernels call, by name."""
    texts = {}
    for number, one in enumerate(hand_written.functions(kernels)):
        write = _c if one.code.language == "c" else _module
        texts[f"hand_written_{number}.{one.code.language}"] = write(one, machine)
    return texts


def is_c(text: str) -> bool:
    """Whether a source is a file of C99."""
    return text.startswith(HEAD)


def _c(one: HandWrittenFunction, machine: Machine) -> str:
    settings = json.dumps(machine.settings, sort_keys=True)
    return (
        f"{HEAD}{settings} */\n#include <stdint.h>\n{one.declaration(C99, 'void')};\n"
        f"{one.definition(C99)}\n"
    )


def _module(one: HandWrittenFunction, machine: Machine) -> str:
    settings = json.dumps(machine.settings, sort_keys=True)
    facts = {
        "symbol": one.code.symbol,
        "name": one.code.name,
        "file": one.code.file,
        "parameters": [_kind(operand) for operand in one.operands],
    }
    return f"; xlac {settings}\n{MARK}{json.dumps(facts)}\n{one.code.text}\n"


def _kind(operand: object) -> str:
    """The type of a parameter in LLVM's text."""
    if isinstance(operand, Buffer):
        return "ptr"
    dtype = getattr(operand, "dtype", None)
    return "double" if dtype is not None and dtype.is_float else "i64"
