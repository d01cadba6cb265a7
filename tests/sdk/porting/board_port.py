"""A port as docs/PORTING.md describes it, for a device in another process: a board on a cable, with
memory of its own and no type of 64 bits, which launches rows of blocks and answers only when asked.
"""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from jinja2 import Template

from xlac_sdk.backend import Backend, Executable
from xlac_sdk.device import CopyEnd, Device, MemoryPlace
from xlac_sdk.dtypes import DType
from xlac_sdk.emit.catomics import WordSwaps
from xlac_sdk.emit.ctext import C99
from xlac_sdk.emit.module import module_text
from xlac_sdk.host.runner import Runner
from xlac_sdk.kernel_ir.grid import launched
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.lowering.fewer_blocks import rows_of_blocks
from xlac_sdk.lowering.grids import grids
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.target import Request, Target

ROW = 64  # blocks of a row
BOARD = replace(
    C99,
    name="board C",
    kernel="board_{}",
    types={d: word for d, word in C99.types.items() if d.bits < 64},
    size="int32_t",
    offset="int32_t",
    block=f"(board_row * {ROW} + board_column)",
    thread="0",
    barrier="(void)0",
    atomic="atomic_{p}_{space}_{d}(&{place}, {value})",
)
NATIVE, LACKS = BOARD.primitives()
SWAPS = WordSwaps({32: "__sync_val_compare_and_swap({0}, {1}, {2})"}, {32: "uint32_t"})
FLAGS = "-O1 -std=gnu11 -fPIC -shared -ffp-contract=off -fno-strict-aliasing".split()
FILE = Template(
    """\
/* {{ made.title }} */
#include <math.h>
#include <stdint.h>
#include <string.h>
#define RESTRICT restrict
#pragma GCC poison int64_t uint64_t INT64_C UINT64_C double long
static int32_t board_row, board_column;
void board_at(int32_t row, int32_t column) { board_row = row; board_column = column; }
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
FIRMWARE = """
import ctypes, pickle, sys
code, memory = ctypes.CDLL(sys.argv[1]), {}
word = ctypes.c_int32
def base(handle): return -ctypes.addressof(memory[handle]) % 256
def at(handle, offset): return ctypes.addressof(memory[handle]) + base(handle) + offset
while True:
    what, *given = pickle.load(sys.stdin.buffer)
    if what == "alloc": memory[given[0]] = ctypes.create_string_buffer(given[1] + 256)
    if what == "free": del memory[given[0]]
    if what == "write": ctypes.memmove(at(*given[0]), given[1], len(given[1]))
    if what == "move": ctypes.memmove(at(*given[0]), at(*given[1]), given[2])
    if what == "read": sys.stdout.buffer.write(ctypes.string_at(at(*given[0]), given[1]))
    if what == "launch":
        name, places, sizes, (columns, rows) = given
        bound = [a for h, o in places for a in (ctypes.c_void_p(at(h, 0)), word(o))]
        for row in range(rows):
            for column in range(columns):
                code.board_at(word(row), word(column))
                code[name](*bound, *map(word, sizes))
    if what in ("read", "sync"): sys.stdout.buffer.write(b"!"); sys.stdout.buffer.flush()
"""


class BoardDevice(Device):
    """Messages on a cable, in order."""

    def __init__(self, library: Path) -> None:
        command, pipe = [sys.executable, "-c", FIRMWARE, str(library)], subprocess.PIPE
        self.board = subprocess.Popen(command, stdin=pipe, stdout=pipe)
        self.numbers = itertools.count(1)
        self.sync()  # until the library is loaded: its folder may be deleted

    def __del__(self) -> None:
        self.board.kill()
        self.board.communicate()

    def send(self, *message: object) -> None:
        pickle.dump(message, self.board.stdin)  # type: ignore[arg-type]

    def receive(self, nbytes: int) -> bytes:
        assert self.board.stdin is not None and self.board.stdout is not None
        self.board.stdin.flush()
        return self.board.stdout.read(nbytes + 1)[:nbytes]

    def alloc(self, nbytes: int) -> int:
        number = next(self.numbers)
        self.send("alloc", number, nbytes)
        return number

    def copy(self, target: CopyEnd, source: CopyEnd, nbytes: int) -> None:
        if isinstance(target, memoryview):
            assert isinstance(source, MemoryPlace)
            self.send("read", tuple(source), nbytes)
            target.cast("B")[:nbytes] = self.receive(nbytes)
        elif isinstance(source, memoryview):
            self.send("write", tuple(target), bytes(source.cast("B")[:nbytes]))
        else:
            self.send("move", tuple(target), tuple(source), nbytes)

    def launch(
        self, kernel: Kernel, places: tuple[MemoryPlace, ...], sizes: tuple[int, ...]
    ) -> None:
        pairs = zip(kernel.parameters, places, strict=True)
        bound = [(place.handle, place.offset // b.dtype.nbytes) for b, place in pairs]
        shape = rows_of_blocks(launched(kernel, sizes)[0], ROW)
        self.send("launch", BOARD.function(kernel.name), bound, sizes, shape)

    def sync(self) -> None:
        self.send("sync")
        self.receive(0)

    def free(self, handle: Any) -> None:
        self.send("free", handle)


class BoardBackend(Backend):
    """The four methods."""

    name = "board"

    def target(self, request: Request) -> Target:
        request.refuse("board", "cpu", "triple", "features", "arch")
        types = frozenset(d for d in DType if d.bits < 64)
        facts = {"primitives": NATIVE, "lacks": LACKS, "dtypes": types, "most_blocks": ROW}
        return Target("board", most_rows=1 << 20, vectorizes=True, **facts).tuned(request)

    def emit(self, program: Program, target: Target) -> dict[str, str]:
        verify_program(program)
        made = module_text(grids(program, target), BOARD, SWAPS)
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
        return Runner(BoardDevice(artifact), grids(program, target))
