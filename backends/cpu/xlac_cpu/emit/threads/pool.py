"""The LLVM text of the thread pool: its worker loop, and the function that starts a
parallel job.
"""

from __future__ import annotations

import json

from xlac_cpu.machine import Machine
from xlac_sdk.support.templates import template

# claims per thread into which the rest of a job is divided: a busy core delays only what it has
# claimed
SHARES = 4

_FUTEX = {
    "x86_64": 202,
    "aarch64": 98,
    "riscv64": 98,
    "riscv32": 422,
    "armv7": 240,
    "armv6": 240,
    "i686": 240,
}


def text(machine: Machine, futex: bool = True) -> str:
    """The pool's module. Linux threads wait on a futex; others, or if `futex` is false, on a
    condition variable.
    """
    linux = "linux" in machine.triple
    arm = machine.arch in ("aarch64", "arm64") or machine.arch.startswith(
        ("armv7", "armv8", "thumbv7")
    )
    pause = "llvm.x86.sse2.pause" if machine.is_x86 else ""
    if arm:
        pause = "llvm.aarch64.hint" if machine.pointer_bits == 64 else "llvm.arm.hint"
    return template("xlac_cpu", "pool.ll.j2", trim=False).render(
        header=json.dumps(machine.settings, sort_keys=True),
        triple=machine.triple,
        futex=_FUTEX.get(machine.arch, 0) if linux and futex else 0,
        pause=pause,
        hint=arm,
        bits=machine.pointer_bits,
        shares=SHARES,
        sig_setmask=2 if linux else 3,
        attributes=machine.attributes,
    )
