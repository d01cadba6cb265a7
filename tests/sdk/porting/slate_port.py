"""A port as docs/PORTING.md describes it, for a device that is in no other part of the tree: C of
the system's compiler, in whose memory buffers are numbers of slates, and blocks are calls.
"""

from __future__ import annotations

import ctypes
import itertools
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from jinja2 import Template

from xlac_sdk.backend import Backend, Executable
from xlac_sdk.device import CopyEnd, Device, MemoryPlace
from xlac_sdk.emit.catomics import WordSwaps
from xlac_sdk.emit.ctext import C99
from xlac_sdk.emit.module import module_text
from xlac_sdk.host.runner import Runner
from xlac_sdk.kernel_ir.grid import launched
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.lowering.grids import grids
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.target import Request, Target

SLATE = replace(
    C99,
    name="slate C",
    kernel="slate_{}",
    offset="int64_t",
    block="slate_block",
    thread="0",
    barrier="(void)0",
    atomic="atomic_{p}_{space}_{d}(&{place}, {value})",
)
NATIVE, LACKS = SLATE.primitives()
SWAPS = WordSwaps(
    {
        32: "__sync_val_compare_and_swap({0}, {1}, {2})",
        64: "__sync_val_compare_and_swap({0}, {1}, {2})",
    },
    {32: "uint32_t", 64: "uint64_t"},
)
FLAGS = ["-O1", "-std=gnu11", "-fPIC", "-shared", "-ffp-contract=off", "-fno-strict-aliasing"]
FILE = Template(
    """\
/* {{ made.title }} */
#include <math.h>
#include <stdint.h>
#include <string.h>
#define RESTRICT restrict
static _Thread_local int64_t slate_block;
void slate_at(int64_t block) { slate_block = block; }
{{ (made.typedefs + made.vectors + made.functions) | join("\\n") }}
{% for kernel, threads in made.kernels %}
void {{ kernel.name }}({{ kernel.parameters | join(", ") }})
{
{{ kernel.lines | join("\\n") }}
}
{% endfor %}
{{ made.definitions | join("\\n") }}
"""
)


class SlateDevice(Device):
    """Memory is a number and an offset."""

    def __init__(self, library: Path) -> None:
        self.code = ctypes.CDLL(str(library))
        self.slates: dict[int, ctypes.Array[ctypes.c_char]] = {}
        self.numbers = itertools.count(1)

    def alloc(self, nbytes: int) -> object:
        number = next(self.numbers)
        self.slates[number] = ctypes.create_string_buffer(nbytes + self.alignment)
        return number, "slate"

    def copy(self, target: CopyEnd, source: CopyEnd, nbytes: int) -> None:
        self._bytes(target)[:nbytes] = bytes(self._bytes(source)[:nbytes])

    def launch(
        self, kernel: Kernel, places: tuple[MemoryPlace, ...], sizes: tuple[int, ...]
    ) -> None:
        given: list[object] = []
        for buffer, place in zip(kernel.parameters, places, strict=True):
            given += [
                ctypes.c_void_p(self._base(place)),
                ctypes.c_int64(place.offset // buffer.dtype.nbytes),
            ]
        function = self.code[SLATE.function(kernel.name)]
        for block in range(launched(kernel, sizes)[0]):
            self.code.slate_at(ctypes.c_int64(block))
            function(*given, *map(ctypes.c_int64, sizes))

    def sync(self) -> None:
        """Every call has ended when it returns."""

    def free(self, handle: Any) -> None:
        del self.slates[handle[0]]

    def _base(self, place: MemoryPlace) -> int:
        at = ctypes.addressof(self.slates[place.handle[0]])
        return at + -at % self.alignment

    def _bytes(self, end: MemoryPlace | memoryview) -> memoryview:
        if isinstance(end, memoryview):
            return end.cast("B")
        slate = self.slates[end.handle[0]]
        whole = memoryview(slate).cast("B")
        return whole[self._base(end) - ctypes.addressof(slate) + end.offset :]


class SlateBackend(Backend):
    """The four methods."""

    name = "slate"

    def target(self, request: Request) -> Target:
        request.refuse("slate", "cpu", "triple", "features", "arch")
        made = Target("slate", vector_bytes=16, primitives=NATIVE, lacks=LACKS, vectorizes=True)
        return made.tuned(request)

    def emit(self, program: Program, target: Target) -> dict[str, str]:
        verify_program(program)
        made = module_text(grids(program, target), SLATE, SWAPS)
        return {"program.c": FILE.render(made=made)}

    def build(self, sources: Mapping[str, str], folder: Path) -> Path:
        ((name, text),) = sources.items()
        (folder / name).write_text(text, encoding="utf-8")
        command = ["cc", *FLAGS, name, "-o", "program.so", "-lm"]
        done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise UnsupportedError(Diagnostic("XL5023", done.stderr[:2000]))
        return folder / "program.so"

    def load(self, artifact: Path, program: Program, target: Target) -> Executable:
        return Runner(SlateDevice(artifact), grids(program, target))
