"""The function by which long-running code checks for a stop request.

A call's flag is the first word of a block on its stack (`stop_block.py`). In this process a check
also reads the processor's counter; every 50 ms the calling thread goes on to `ask`: whether the
deadline has passed, whether another thread wants the call to end, and, on Python's main thread,
whether a signal arrived whose handler raises. Code built ahead of time has the flag only.
"""

from __future__ import annotations

from xlac_cpu.emit.writer import LlvmWriter
from xlac_cpu.machine import Machine
from xlac_cpu.stop_block import ASKED, BLOCK, HOST, LATE, RAISED
from xlac_sdk.support.templates import template

NAME = "stopped"  # the function that code calls to check
DECLARATION = f"declare hidden i32 @{NAME}(ptr)"
EVERY = 50_000_000  # nanoseconds between two calls of `ask`


def check_stop(w: LlvmWriter, block: str) -> None:
    """Branches to the label `leave` on a stop request."""
    w.declare("hidden i32", NAME, "ptr")
    go = w.name("on")
    why = w.fresh(f"call i32 @{NAME}(ptr {block})")
    w.do(f"br i1 {w.fresh(f'icmp ne i32 {why}, 0')}, label %leave, label %{go}")
    w.label(go)


def text(machine: Machine, ahead: bool, declarations: dict[str, None]) -> str:
    """The function, for this process or for a program built `ahead` of time; its declarations are
    added to `declarations`.
    """
    alone = ahead or "windows" in machine.triple or machine.pointer_bits != 64
    counter = "readcyclecounter" if machine.is_x86 else "readsteadycounter"
    declarations.pop(DECLARATION, None)
    if not alone:
        for needed in (
            f"i64 @llvm.{counter}()",
            "i32 @clock_gettime(i32, ptr)",
            "i64 @pthread_self()",
        ):
            declarations[f"declare {needed}"] = None

    return template("xlac_cpu", "stop.ll.j2").render(
        name=NAME,
        b=BLOCK,
        h=HOST,
        every=EVERY,
        late=LATE,
        asked=ASKED,
        raised=RAISED,
        alone=alone,
        clock=6 if "darwin" in machine.triple else 1,
        counter=counter,
    )
