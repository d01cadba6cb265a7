"""The function by which long-running code checks for a stop request.

A call's flag is the first word of a block on its stack (`stop_block.py`). In this process a check
also reads the processor's counter; every 50 ms the calling thread goes on to `ask`: whether the
deadline has passed, whether another thread wants the call to end, and, on Python's main thread,
whether a signal arrived whose handler raises. Code built ahead of time has the flag only.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from string import Template

from xlac_cpu.emit.writer import LlvmWriter
from xlac_cpu.machine import Machine
from xlac_cpu.stop_block import ASKED, BLOCK, HOST, LATE, RAISED

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

    words = {f"block_{name}": offset for name, offset in BLOCK.items()}
    words |= {f"host_{name}": offset for name, offset in HOST.items()}
    return _template("stop_flag.ll" if alone else "stop.ll").substitute(
        words,
        name=NAME,
        every=EVERY,
        late=LATE,
        asked=ASKED,
        raised=RAISED,
        clock=6 if "darwin" in machine.triple else 1,
        counter=counter,
    )


@cache
def _template(name: str) -> Template:
    """The text of a file, in which `$word` is replaced: importing Jinja takes longer than all else
    that small programs have to have written.
    """
    folder = Path(__file__).parents[2].joinpath("templates")
    return Template(folder.joinpath(name).read_text(encoding="utf-8"))
