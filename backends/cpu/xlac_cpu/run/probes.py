"""Microbenchmarks of this machine for `xlac_sdk.machine.measuring`: in LLVM IR a chain of dependent
additions and vector reads of rows, by one thread and by all, in small pages and in huge ones; in
kernel IR arithmetic.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from xlac_cpu.llvm import link
from xlac_cpu.llvm.host import host
from xlac_cpu.llvm.objects import object_code
from xlac_sdk.backend import Backend
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.machine.measuring import ALL, HUGE, PARTS, Probes, TimedProbe, disturbances
from xlac_sdk.machine.system_facts import processors
from xlac_sdk.machine_facts import MachineFacts
from xlac_sdk.target import Target
from xlac_sdk.tuning import probe_kernels as kernels
from xlac_sdk.tuning.timing import compiled

TURNS = 20_000  # iterations of the chain's loop
DEEP = 16  # dependent additions and xors of an iteration, of one cycle each
UNROLL = 4  # vectors read by an iteration
MOVED = 4 << 20  # bytes read by a run
LARGEST = 1 << 28  # most bytes of memory that runs cycle through
PAGE = 1 << 21  # bytes of a huge page
SMALL, LARGE = "MADV_NOHUGEPAGE", "MADV_HUGEPAGE"
# how many times as many bytes each of several threads reads: for some milliseconds
LONG = {"l1": 256, "l2": 128, "l3": 64, "memory": 32}
RUNNING = 0.85  # the share of a run that each thread has to be running for it to count
MOST_THREADS = 64
SUMS, FMAS = 12, 200_000  # independent sums that hide latencies, multiply-adds of each
NUMBERS, EXPS = 2048, 400  # numbers in the first-level cache, and how often exp is computed of each


def probes(facts: MachineFacts, threads: int = 0) -> Probes:
    """The probes of caches and memory for a machine with these caches; `threads` run those of all
    threads, as many as this process may use if it is 0.
    """
    width = max(16, host().vector_bytes)
    kept, places = link.load([object_code(text(width))], ("probe_chain", "probe_rows"))
    chain = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 2)(places["probe_chain"])
    rows = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 5)(places["probe_rows"])
    many = min(MOST_THREADS, threads or max(1, int(processors())))
    far = max(4 * facts.l3_bytes, 16 * facts.l2_bytes, many * MOVED)
    far = min(LARGEST, -(-far // PAGE) * PAGE)
    small, huge = (_Readers(kept, rows, far, width, advice) for advice in (SMALL, LARGE))
    whole = facts.l2_bytes
    sizes = {"l2": whole // 2} | {name: int(part * whole) for name, part in PARTS.items()}
    if facts.l3_bytes >= 4 * whole:
        sizes["l3"] = max(2 * whole, min(facts.l3_bytes // 4, 8 * whole))
    probes = [small.flat("l1", facts.l1_bytes // 2)]
    for end, readers in (("", small), (HUGE, huge)):
        probes += [readers.flat(name + end, nbytes) for name, nbytes in sizes.items()]
        probes.append(readers.turns("memory" + end))
    probes.append(small.apart("rows_stride", 4096, whole // 4))
    if many > 1:
        own = {"l1": facts.l1_bytes // 2, "l2": whole // 2}
        if "l3" in sizes:  # all of them together stay in the cache
            own["l3"] = max(2 * whole, min(sizes["l3"], facts.l3_bytes // 2 // many))
        probes += [
            small.flat_all(name, nbytes, many)
            for name, nbytes in own.items()
            if nbytes * many <= far
        ]
        probes.append(small.turns_all("memory", many))
    return Probes(partial(chain, TURNS, 12345), TURNS * DEEP, probes)


def arithmetic(backend: Backend, target: Target) -> list[TimedProbe]:
    """Probes of arithmetic: multiply-adds of vectors of each width, which show the clock frequency
    at that width, and exp. Their amounts are vectors.
    """
    found = []
    for nbytes in (16, 32, 64):
        if nbytes <= target.vector_bytes:
            program = kernels.multiply_adds(nbytes // 4, SUMS, FMAS, target)
            run = compiled(program, backend, target)
            found.append(TimedProbe(f"fma_{8 * nbytes}", SUMS * FMAS, run))
    lanes = target.lanes(DType.F32)
    run = compiled(kernels.functions(Primitive.EXP, lanes, NUMBERS, EXPS), backend, target)
    return [*found, TimedProbe("exp", EXPS * NUMBERS // lanes, run)]


class _Readers:
    """Probes that read one block of memory, aligned to huge pages."""

    def __init__(self, code: object, rows: Any, size: int, width: int, advice: str) -> None:
        self.memory, self.code = mmap.mmap(-1, size + PAGE), code
        with suppress(AttributeError, OSError):  # systems without huge pages
            self.memory.madvise(getattr(mmap, advice))
        array = np.frombuffer(self.memory, np.uint8)
        array[:] = 1
        self.begin = -(-array.ctypes.data // PAGE) * PAGE
        self.rows, self.size, self.block = rows, size, UNROLL * width

    def flat(self, name: str, nbytes: int) -> TimedProbe:
        """Reads the same bytes again and again."""
        nbytes = nbytes // self.block * self.block
        turns = max(1, MOVED // nbytes)
        return TimedProbe(name, nbytes * turns, partial(self.read, 0, 1, 0, nbytes, turns))

    def apart(self, name: str, stride: int, nbytes: int) -> TimedProbe:
        """Reads the beginnings of rows, `nbytes` in all."""
        count = nbytes // self.block
        turns = max(1, MOVED // (count * self.block))
        run = partial(self.read, 0, count, stride, self.block, turns)
        return TimedProbe(name, count * self.block * turns, run)

    def turns(self, name: str) -> TimedProbe:
        """Reads other bytes at each call, so that caches do not have them."""
        return TimedProbe(name, MOVED, _Turns(self, 0, self.size, MOVED))

    def flat_all(self, name: str, nbytes: int, threads: int) -> TimedProbe:
        """As `flat`, of other bytes in every thread, for longer: threads take time to begin."""
        nbytes = nbytes // self.block * self.block
        turns = max(1, LONG[name] * MOVED // nbytes)
        each = self.size // threads // self.block * self.block
        parts = [partial(self.read, n * each, 1, 0, nbytes, turns) for n in range(threads)]
        return _together(name + ALL, nbytes * turns, parts)

    def turns_all(self, name: str, threads: int) -> TimedProbe:
        """As `turns`, in every thread."""
        each, moved = self.size // threads // MOVED * MOVED, MOVED
        parts = [
            _Turns(self, n * each, each, min(each, LONG[name] * moved)) for n in range(threads)
        ]
        return _together(name + ALL, parts[0].moved, parts)

    def read(self, offset: int, *given: int) -> object:
        """Reads rows from an offset on."""
        return self.rows(self.begin + offset, *given)


class _Turns:
    """Reads the next `moved` of `size` bytes at each call."""

    def __init__(self, readers: _Readers, offset: int, size: int, moved: int) -> None:
        self.readers, self.offset, self.moved = readers, offset, moved
        self.parts, self.next = size // moved, 0

    def __call__(self) -> object:
        place = self.offset + self.next * self.moved
        self.next = (self.next + 1) % self.parts
        return self.readers.read(place, 1, 0, self.moved, 1)


def _together(name: str, nbytes: int, parts: Sequence[Callable[[], object]]) -> TimedProbe:
    """A probe whose parts run at the same time; the calling thread runs the first. A run counts
    only if no thread was disturbed and none waited for a processor.
    """
    pool, calm = ThreadPoolExecutor(len(parts) - 1), [True]

    def part(run: Callable[[], object]) -> tuple[bool, int]:
        before, begin = disturbances(), time.thread_time_ns()
        run()
        return disturbances() == before, time.thread_time_ns() - begin

    def run() -> object:
        begin = time.perf_counter_ns()
        others = [pool.submit(part, one) for one in parts[1:]]
        result = parts[0]()
        ended = [one.result() for one in others]
        least = RUNNING * (time.perf_counter_ns() - begin)
        calm[0] = all(alone and running >= least for alone, running in ended)
        return result

    return TimedProbe(name, nbytes * len(parts), run, lambda: calm[0])


def text(width: int) -> str:
    """The module, for vectors of `width` bytes.

    `probe_chain(turns, k)` computes x = (x + k) ^ k, again and again. `probe_rows(begin, rows,
    stride, bytes, times)` reads the first bytes of rows that are `stride` bytes apart.
    """
    kind = f"<{width // 8} x i64>"
    chain, last = [], "%x"
    for n in range(DEEP // 2):
        chain += [f"  %a{n} = add i64 {last}, %k", f"  %b{n} = xor i64 %a{n}, %k"]
        last = f"%b{n}"
    reads = []
    for n in range(UNROLL):
        reads += [
            f"  %p{n} = getelementptr i8, ptr %row, i64 {n * width}",
            f"  %q{n} = getelementptr i8, ptr %p{n}, i64 %i",
            f"  %v{n} = load volatile {kind}, ptr %q{n}, align 16",
        ]
    return TEXT.format(
        machine=json.dumps(host().settings),
        attributes=host().attributes,
        chain="\n".join(chain),
        last=last,
        reads="\n".join(reads),
        step=UNROLL * width,
    )


TEXT = """; xlac {machine}
define i64 @probe_chain(i64 %turns, i64 %k) #0 {{
entry:
  br label %turn
turn:
  %x = phi i64 [ 1, %entry ], [ {last}, %turn ]
  %n = phi i64 [ 0, %entry ], [ %m, %turn ]
{chain}
  %m = add i64 %n, 1
  %more = icmp ult i64 %m, %turns
  br i1 %more, label %turn, label %done
done:
  ret i64 {last}
}}

define i64 @probe_rows(i64 %begin, i64 %rows, i64 %stride, i64 %bytes, i64 %times) #0 {{
entry:
  %base = inttoptr i64 %begin to ptr
  br label %again
again:
  %t = phi i64 [ 0, %entry ], [ %t1, %rested ]
  br label %line
line:
  %r = phi i64 [ 0, %again ], [ %r1, %ended ]
  %offset = mul i64 %r, %stride
  %row = getelementptr i8, ptr %base, i64 %offset
  br label %read
read:
  %i = phi i64 [ 0, %line ], [ %i1, %read ]
{reads}
  %i1 = add i64 %i, {step}
  %onward = icmp ult i64 %i1, %bytes
  br i1 %onward, label %read, label %ended
ended:
  %r1 = add i64 %r, 1
  %down = icmp ult i64 %r1, %rows
  br i1 %down, label %line, label %rested
rested:
  %t1 = add i64 %t, 1
  %repeat = icmp ult i64 %t1, %times
  br i1 %repeat, label %again, label %done
done:
  ret i64 %t1
}}

attributes #0 = {{ {attributes} }}
"""
