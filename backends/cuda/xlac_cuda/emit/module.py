"""A program as one file of CUDA C++."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xlac_cuda.emit.dialect import CUDA
from xlac_cuda.emit.functions import BEFORE, functions
from xlac_cuda.emit.instructions import functions_called
from xlac_cuda.emit.lowering import arch_of, lowered
from xlac_sdk.emit import hand_written
from xlac_sdk.emit.cfunctions import needed
from xlac_sdk.emit.ctext import CFunction, comment, kernel_text
from xlac_sdk.emit.cvectors import declarations
from xlac_sdk.host.capi import identifier
from xlac_sdk.kernel_ir.grid import grid
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.kernel_ir.verify import verify
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.source import Origin
from xlac_sdk.support.templates import template
from xlac_sdk.target import Target

FIRST = re.compile(r"/\* (sm_\d+[a-z]?): ")
MOST_LINES = 8  # lines of a spec quoted above a kernel


def emit(program: Program, target: Target) -> dict[str, str]:
    """The file, by its name. Raises VerifyError for an invalid program."""
    verify_program(program)
    lowered_program = lowered(program, target)
    for kernel in lowered_program.kernels:
        verify(kernel)
    return {f"{identifier(program.name)}.cu": _text(lowered_program, arch_of(target))}


def arch_in(text: str) -> str:
    """The architecture for which a file was written."""
    match = FIRST.match(text)
    assert match is not None, "a file that xlac wrote begins with its architecture"
    return match[1]


def _text(program: Program, arch: str) -> str:
    texts = {kernel: kernel_text(kernel, CUDA) for kernel in program.kernels}
    kernels = [_described(kernel, text) for kernel, text in texts.items()]
    body = "\n".join(line for kernel in kernels for line in kernel.lines)
    instructions = functions_called(body)
    by_hand = hand_written.functions(program.kernels)
    return template("xlac_cuda", "module.cu.j2").render(
        arch=arch,
        title=comment(program.name),
        kernels=kernels,
        instructions=instructions,
        declarations=[f"{one.declaration(CUDA)};" for one in by_hand],
        definitions=[one.definition(CUDA) for one in by_hand],
        functions=needed(body + instructions, functions(), BEFORE),
        vectors=declarations((v for text in texts.values() for v in text.vectors), CUDA),
    )


@dataclass(frozen=True, slots=True)
class _Described:
    """A kernel for the template: its text, its block size, and the comment above it."""

    name: str
    parameters: tuple[str, ...]
    lines: tuple[str, ...]
    bounds: str
    about: tuple[str, ...]


def _described(kernel: Kernel, text: CFunction) -> _Described:
    form = grid(kernel)
    assert form is not None, f"kernel {kernel.name} is not a grid"
    about = tuple(line for line in (text.note, *_quoted(kernel.origins)) if line)
    # blocks of threads in one function
    alone = any("_registers<" in line for line in text.lines)
    bounds = f"{form.threads}, 1" if alone else str(form.threads)
    return _Described(text.name, text.parameters, text.lines, bounds, about)


def _quoted(origins: tuple[Origin, ...]) -> list[str]:
    """The lines of the spec that a kernel computes, each once: file, number and text."""
    lines: dict[str, None] = {}
    for origin in origins:
        if origin.span is not None:
            lines[
                comment(f"{origin.span.file.name}:{origin.span.line} {_line(origin)}".rstrip())
            ] = None
    quoted = list(lines)
    return (
        quoted
        if len(quoted) <= MOST_LINES
        else [*quoted[:MOST_LINES], f"and {len(quoted) - MOST_LINES} more lines"]
    )


def _line(origin: Origin) -> str:
    assert origin.span is not None
    return origin.span.excerpt().partition("\n")[0].partition("| ")[2].strip()[:100]
