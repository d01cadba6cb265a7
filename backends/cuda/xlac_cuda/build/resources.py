"""The resources of each kernel, as reported by the assembler and the launch, and the resulting
occupancy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xlac_cuda.architectures import WARP, Architecture, known
from xlac_cuda.build import compiler
from xlac_cuda.device.launch import KernelEntry
from xlac_cuda.emit import module
from xlac_cuda.emit.lowering import arch_of, lowered
from xlac_sdk.kernel_ir.grid import grid
from xlac_sdk.kernel_ir.kernel import Const, Kernel
from xlac_sdk.programs.program import Program
from xlac_sdk.target import Target

REGISTERS, UNIT = 1 << 16, 256  # of a multiprocessor; a warp's registers are allocated in units
OWN_SHARED = 1 << 10  # bytes of shared memory reserved by the system for each block
ENTRY = re.compile(r"Compiling entry function '(\w+)'")
FACTS = {
    "registers": re.compile(r"Used (\d+) registers"),
    "local": re.compile(r"(\d+) bytes stack frame"),
    "stored": re.compile(r"(\d+) bytes spill stores"),
    "loaded": re.compile(r"(\d+) bytes spill loads"),
    "shared": re.compile(r"(\d+) bytes smem"),
}


@dataclass(frozen=True, slots=True)
class Used:
    """Resources: of one thread, registers, bytes of local memory, and of those the bytes spilled
    from registers and reloaded; of one block, bytes of statically declared shared memory.
    """

    registers: int
    local: int
    stored: int
    loaded: int
    shared: int


def used(log: str) -> dict[str, Used]:
    """The resources of each kernel, parsed from the output of ptxas -v."""
    resources: dict[str, Used] = {}
    parts = ENTRY.split(log)
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        facts = {
            key: int(match[1]) if (match := pattern.search(text)) else 0
            for key, pattern in FACTS.items()
        }
        resources[name] = Used(**facts)
    return resources


def resident(architecture: Architecture, threads: int, registers: int, shared: int) -> int:
    """The occupancy: threads of such blocks that a multiprocessor holds at once."""
    warps = -(-threads // WARP)
    each = -(-registers * WARP // UNIT) * UNIT
    by_registers = REGISTERS // each // warps if each else architecture.blocks
    by_shared = (architecture.shared + OWN_SHARED) // (shared + OWN_SHARED)
    by_threads = architecture.threads // (warps * WARP)
    return min(by_registers, by_shared, by_threads, architecture.blocks) * threads


def table(program: Program, target: Target) -> str:
    """The resources of every kernel as text, one line each."""
    ((name, text),) = module.emit(program, target).items()
    usage = used(compiler.compiled(text, name).log)
    architecture = known(arch_of(target))
    rows = [("kernel", "blocks", "threads", "registers", "spilled", "local", "shared", "resident")]
    for kernel in lowered(program, target).kernels:
        entry = KernelEntry(kernel)
        facts, shared = usage[entry.symbol], usage[entry.symbol].shared + entry.dynamic
        threads = resident(architecture, entry.threads, facts.registers, shared)
        rows.append(
            (
                entry.symbol,
                _blocks(kernel),
                str(entry.threads),
                str(facts.registers),
                str(facts.stored + facts.loaded),
                str(facts.local),
                str(shared),
                f"{threads} of {architecture.threads}",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    ]
    return "\n".join(
        [*lines, "", "spilled, local and shared are bytes; resident is threads of a multiprocessor"]
    )


def _blocks(kernel: Kernel) -> str:
    launched = grid(kernel)
    assert launched is not None, "what is lowered are grids"
    return str(launched.blocks.value) if isinstance(launched.blocks, Const) else "open"
