"""Runs random graphs as C that gcc's AddressSanitizer and UBSan watch: `sanitized.py KIND FIRST
LAST`, with libasan preloaded. `test_fuzz_sanitized.py` starts it. With a fourth argument a gap is
written to.

Every temporary has memory of its own, with a poisoned gap behind it that no kernel may touch:
packed as usual, what lies behind a value is another one. Arrays of a call and constants are watched
as all memory is.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "sizes")]

from graph_seams import seams
from graphs import make
from test_sizes_fuzz import SIZES, M, N, graph

from xlac.driver import executable, lower
from xlac.ir.dims import symbols
from xlac.memory import unplaced
from xlac.memory.arena import ALIGN, ArenaLayout, LiveRange
from xlac.model import Model
from xlac_c import BACKEND
from xlac_sdk.host.capi import c_compiler, library
from xlac_sdk.programs.program import Program, Role
from xlac_sdk.target import Request

GAP = 2 * ALIGN  # bytes that are poisoned behind every temporary
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FLAGS = (*c_compiler.FLAGS, "-O1", "-g", *SANITIZERS)
Array = np.ndarray[Any, Any]


def apart(spans: Sequence[LiveRange], within: int | None = None) -> ArenaLayout:
    """Every buffer has a place of its own, and a gap behind it; no limit holds."""
    offsets, end = [], 0
    for span in spans:
        offsets.append(end)
        end += -(-span.nbytes // ALIGN) * ALIGN + GAP
    return ArenaLayout(tuple(offsets), end, end)


@contextmanager
def poisoned(program: Program, block: Array) -> Iterator[None]:
    """Forbids what no temporary is in, as long as the block's memory is not another's."""
    sanitizer = ctypes.CDLL(None)
    forbid, permit = sanitizer.__asan_poison_memory_region, sanitizer.__asan_unpoison_memory_region
    for function in (forbid, permit):
        function.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    largest = {s.name: s.max // s.multiple_of * s.multiple_of for s in program.sizes}
    ends: dict[int, int] = {}
    for slot in program.slots:
        if slot.role is Role.TEMPORARY:
            count = int(np.prod(slot.extents(largest), dtype=np.int64))
            end = slot.offset + count * slot.dtype.nbytes
            ends[slot.offset] = max(end, ends.get(slot.offset, 0))
    gaps, last = [], 0  # a part of a value may be a slot, too
    for start, end in [*sorted(ends.items()), (min(program.arena_bytes, block.nbytes), 0)]:
        gaps.append((last, start))
        last = max(last, end)
    for start, end in gaps:
        forbid(block.ctypes.data + start, max(0, end - start))
    try:
        yield
    finally:
        permit(block.ctypes.data, block.nbytes)


def cases(kind: str, seed: int) -> tuple[Model, Iterator[Mapping[str, Array]]]:
    """A model, and what it is called with."""
    if kind == "fixed":
        case = make(Random(seed), more=(seams,) * 3)
        return Model(case.graph, case.weights), iter([case.inputs])
    dims = {s.name: s for size in (N, M) for s in symbols(size)}
    return Model(graph(seed), {}, dims), (
        {"x": np.ones((n, 8), np.float32), "y": np.ones((m, n), np.float32)} for n, m in SIZES
    )


def main(kind: str, first: int, last: int, planted: bool = False) -> None:
    c_compiler.FLAGS = FLAGS
    unplaced.pack = apart
    target = BACKEND.target(Request())
    for seed in range(first, last):
        print(kind, seed, flush=True)
        model, calls = cases(kind, seed)
        program = executable(lower(model, target), BACKEND)
        assert isinstance(program.executable, library.Library)
        block = program.executable._free[0].block
        with poisoned(program.program, block):
            if planted:  # in the last gap
                ctypes.memset(block.ctypes.data + block.nbytes - 1, 0, 1)
            for given in calls:
                program(**{name: np.array(array, order="C") for name, array in given.items()})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), planted=len(sys.argv) > 4)
