"""Many programs for another machine, run together: one object each, one block of memory, one
process.

The block holds every program's inputs, outputs and memory at known places. `batch(block)` calls all
programs; what runs it fills the block from standard input before, and writes it to standard output
after.
"""

from __future__ import annotations

import ctypes
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from machines import HERE, Other

from xlac_cpu.ahead import linker, program
from xlac_cpu.ahead.package import Making
from xlac_cpu.llvm import unit
from xlac_cpu.machine import Machine
from xlac_sdk.dtypes import Array
from xlac_sdk.host.capi.library import ContextStruct
from xlac_sdk.host.package import Packaging, ProcessorVariant
from xlac_sdk.programs.program import Program
from xlac_sdk.target import Target

ALIGN = 64


@dataclass(frozen=True, eq=False)
class Task:
    """A program with its inputs, called so many times; its open sizes, in order, are `sizes`."""

    program: Program
    inputs: Mapping[str, Array]
    calls: int = 1
    sizes: tuple[int, ...] = ()


@dataclass(eq=False)
class Batch:
    """Tasks, and where everything of theirs is in the block."""

    tasks: Sequence[Task]
    target: Target
    other: Other

    @cached_property
    def machine(self) -> Machine:
        return Machine.of(self.target)

    @cached_property
    def makings(self) -> list[Making]:
        named = [
            replace(task.program, name=f"case{number}") for number, task in enumerate(self.tasks)
        ]
        return [
            Making((ProcessorVariant(p, self.target),), Packaging(("o",)), Path()) for p in named
        ]

    @cached_property
    def places(self) -> list[dict[str, int]]:
        """Of each task, the byte of each array (`in:x`, `out:y`) and of its `memory`; the last
        entry: the end.
        """
        found, end = [], 0
        for making in self.makings:
            mine = {}
            program = making.variants[0].program
            parts = [(f"in:{s.name}", s.nbytes) for s in program.inputs] + [
                (f"out:{s.name}", s.nbytes) for s in program.outputs
            ]
            for name, nbytes in [*parts, ("memory", making.api.memory_bytes)]:
                mine[name] = end
                end += -(-max(nbytes, 1) // ALIGN) * ALIGN
            found.append(mine)
        return [*found, {"end": end}]

    def driver(self) -> str:
        """LLVM text of `batch`, which returns 0, or 1 and the number of the refused task."""
        word = f"i{self.machine.pointer_bits}"
        lines = [
            f"; xlac {json.dumps(self.machine.settings, sort_keys=True)}",
            f'target triple = "{self.machine.triple}"',
        ]
        body = [
            f"define {word} @batch_bytes() nounwind {{\n  ret {word} {self.places[-1]['end']}\n}}",
            "define i32 @batch(ptr %block) nounwind {",
            "entry:",
        ]
        body.append(
            f"  %context = alloca [{ctypes.sizeof(ContextStruct)} x i8], align 8\n"
            "  %sizes = alloca [16 x i64], align 8\n  br label %t0"
        )
        for number, (task, making) in enumerate(zip(self.tasks, self.makings, strict=True)):
            mine = self.places[number]
            arrays = [n for n in mine if n != "memory"]
            lines.append(f"declare i32 @case{number}_init(ptr, ptr, {word})")
            lines.append(
                "declare i32 "
                f"@case{number}_run({', '.join(['ptr'] * (1 + bool(task.sizes) + len(arrays)))})"
            )
            body.append(f"t{number}:")
            body += [
                f"  %p{number}.{i} = getelementptr i8, ptr %block, i64 {at}"
                for i, at in enumerate(mine.values())
            ]
            body.append(
                f"  %s{number} = call i32 @case{number}_init(ptr %context, ptr "
                f"%p{number}.{len(arrays)}, {word} {making.api.memory_bytes})"
            )
            for place, size in enumerate(task.sizes):
                body.append(
                    f"  %z{number}.{place} = getelementptr i64, ptr %sizes, i32 {place}\n  store "
                    f"i64 {size}, ptr %z{number}.{place}"
                )
            given = ", ".join(
                [
                    "ptr %context",
                    *(["ptr %sizes"] if task.sizes else []),
                    *(f"ptr %p{number}.{i}" for i in range(len(arrays))),
                ]
            )
            states = [f"%s{number}"]
            for call in range(task.calls):
                body.append(f"  %r{number}.{call} = call i32 @case{number}_run({given})")
                body.append(f"  %o{number}.{call} = or i32 {states[-1]}, %r{number}.{call}")
                states.append(f"%o{number}.{call}")
            body.append(
                f"  %b{number} = icmp ne i32 {states[-1]}, 0\n  br i1 %b{number}, label "
                f"%f{number}, label %t{number + 1}"
            )
            body.append(f"f{number}:\n  ret i32 {number + 1}")
        body.append(f"t{len(self.tasks)}:\n  ret i32 0\n}}")
        return "\n".join([*lines, *body]) + "\n"

    def images(self) -> list[bytes]:
        units = [
            unit.Unit(self.driver(), (), ("batch", "batch_bytes")),
            *(m.unit for m in self.makings),
        ]
        made = unit.compiled(units)
        return [
            made[0],
            *(m.filled(image) for m, image in zip(self.makings, made[1:], strict=True)),
        ]

    def link(self, folder: Path) -> Path:
        made = folder / ("batch.wasm" if self.other.wasm else "batch")
        images = self.images()
        if self.other.wasm:
            linker.find(self.machine).wasm(images, ("batch", "batch_bytes"), made)
            return made
        shell = HERE / ("bare.c" if self.other.bare else "shell.c")
        text = shell.read_text("utf-8").replace("BYTES", str(self.places[-1]["end"]))
        if not self.other.bare:
            text = program.library() + text
        (folder / "shell.c").write_text(text, "utf-8")
        program.run(
            [*program.compiler(self.machine), *program.ALONE, "-c", "shell.c", "-o", "shell.o"],
            folder,
            self.machine,
        )
        images.append((folder / "shell.o").read_bytes())
        linking = linker.find(self.machine)
        if self.other.bare:
            script = ("-static", "-e", "start", "-T", str(HERE / "mps2.ld"), "-s")
            linking.link(images, script, made)
        else:
            linking.program(images, "_start", made)
        made.chmod(0o755)
        return made

    def given(self) -> bytes:
        """The block with the inputs; the rest is poisoned."""
        block = np.full(self.places[-1]["end"], 0xA5, np.uint8)
        for task, mine in zip(self.tasks, self.places, strict=False):
            for slot in task.program.inputs:
                data = np.ascontiguousarray(task.inputs[slot.name]).reshape(-1).view(np.uint8)
                block[mine[f"in:{slot.name}"] :][: len(data)] = data
        return block.tobytes()

    def run(self) -> list[dict[str, Array]]:
        """The outputs of every task, as the other machine computed them."""
        with tempfile.TemporaryDirectory(prefix="xlac-cross-") as name:
            made = self.link(Path(name))
            given = self.given()
            done = self.other.run(made, given=given)
        if done.returncode or len(done.stdout) != len(given):
            raise AssertionError(
                f"{self.other.name} ended with {done.returncode} after {len(done.stdout)} bytes: "
                f"{done.stderr[:2000]!r}"
            )
        block = np.frombuffer(done.stdout, np.uint8)
        return [
            self.outputs(task, mine, block)
            for task, mine in zip(self.tasks, self.places, strict=False)
        ]

    def outputs(self, task: Task, mine: Mapping[str, int], block: Array) -> dict[str, Array]:
        """The outputs of one task, out of the block that came back."""
        sizes = {
            symbol.name: size for symbol, size in zip(task.program.sizes, task.sizes, strict=True)
        }
        found = {}
        for slot in task.program.outputs:
            shape = slot.extents(sizes)
            nbytes = int(np.prod(shape)) * slot.dtype.nbytes
            found[slot.name] = (
                block[mine[f"out:{slot.name}"] :][:nbytes].view(slot.dtype.numpy).reshape(shape)
            )
        return found


# What qemu 7 says of some conversions of vectors on RISC-V (its issue 1441, repaired in 8.1) before
# it ends.
FAULT = "decode_save_opc: Assertion"
TOGETHER = 100  # tasks in one process
ROOM = 3 << 20  # bytes of a block


def results(tasks: Sequence[Task], target: Target, other: Other) -> list[dict[str, Array] | None]:
    """The outputs of every task; None for one on which the emulator, not the program, failed."""
    found: list[dict[str, Array] | None] = []
    part: list[Task] = []
    room = 0
    for task in tasks:
        need = task.program.arena_bytes + sum(
            s.nbytes + ALIGN for s in (*task.program.inputs, *task.program.outputs)
        )
        if part and (len(part) == TOGETHER or room + need > ROOM):
            found += _together(part, target, other)
            part, room = [], 0
        part.append(task)
        room += need
    return found + (_together(part, target, other) if part else [])


def _together(tasks: Sequence[Task], target: Target, other: Other) -> list[dict[str, Array] | None]:
    """One process for all, or, when the emulator fails, halves."""
    try:
        return list(Batch(tasks, target, other).run())
    except AssertionError as error:
        if FAULT not in str(error):
            raise
    if len(tasks) == 1:
        return [None]
    half = len(tasks) // 2
    return _together(tasks[:half], target, other) + _together(tasks[half:], target, other)
