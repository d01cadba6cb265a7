"""Microbenchmarks of this machine for `xlac_sdk.machine.measuring`, in LLVM IR: a chain of
dependent additions, and vector reads of rows.
"""

from __future__ import annotations

import ctypes
import json
from functools import partial
from typing import Any

import numpy as np

from xlac_cpu.llvm import link
from xlac_cpu.llvm.host import host
from xlac_cpu.llvm.objects import object_code
from xlac_sdk.machine.measuring import PARTS, Probes, TimedProbe
from xlac_sdk.machine_facts import MachineFacts

TURNS = 20_000  # iterations of the chain's loop
DEEP = 16  # dependent additions and xors of an iteration, of one cycle each
UNROLL = 4  # vectors read by an iteration
MOVED = 4 << 20  # bytes read by a run
LARGEST = 1 << 28  # most bytes of memory that runs cycle through


def probes(facts: MachineFacts) -> Probes:
    """The probes for a machine with these caches."""
    width = max(16, host().vector_bytes)
    kept, places = link.load([object_code(text(width))], ("probe_chain", "probe_rows"))
    chain = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 2)(places["probe_chain"])
    rows = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 5)(places["probe_rows"])
    far = min(LARGEST, max(4 * facts.l3_bytes, 16 * facts.l2_bytes))
    memory = np.ones(far + (1 << 21), np.uint8)
    begin = -(-memory.ctypes.data // (1 << 21)) * (1 << 21)  # aligned to huge pages
    whole, block = facts.l2_bytes, UNROLL * width
    held = (kept, memory)

    def flat(name: str, nbytes: int) -> TimedProbe:
        nbytes = nbytes // block * block
        turns = max(1, MOVED // nbytes)
        run = partial(_call, held, rows, begin, 1, 0, nbytes, turns)
        return TimedProbe(name, nbytes * turns, run)

    def apart(name: str, stride: int) -> TimedProbe:
        count = whole // 4 // block
        turns = max(1, MOVED // (count * block))
        run = partial(_call, held, rows, begin, count, stride, block, turns)
        return TimedProbe(name, count * block * turns, run)

    probes = [flat("l1", facts.l1_bytes // 2), flat("l2", whole // 2)]
    probes += [flat(name, int(part * whole)) for name, part in PARTS.items()]
    probes.append(apart("rows_stride", 4096))
    if facts.l3_bytes >= 4 * whole:
        probes.append(flat("l3", max(2 * whole, min(facts.l3_bytes // 4, 8 * whole))))
    probes.append(TimedProbe("memory", MOVED, _Turns(held, rows, begin, far)))
    return Probes(partial(chain, TURNS, 12345), TURNS * DEEP, probes)


def _call(held: object, rows: Any, *given: int) -> object:
    """Reads rows; `held` keeps code and memory alive."""
    return rows(*given)


class _Turns:
    """Reads the next `MOVED` bytes of memory at each call, so that caches do not have them."""

    def __init__(self, held: object, rows: Any, begin: int, size: int) -> None:
        self.held, self.rows, self.begin = held, rows, begin
        self.parts, self.next = size // MOVED, 0

    def __call__(self) -> object:
        place = self.begin + self.next * MOVED
        self.next = (self.next + 1) % self.parts
        return self.rows(place, 1, 0, MOVED, 1)


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
