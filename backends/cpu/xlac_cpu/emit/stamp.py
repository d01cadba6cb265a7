"""Functions for `xlac profile` that log the processor's time counter between steps, and after each
chunk of a thread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from xlac_cpu.emit.writer import LlvmWriter
from xlac_cpu.machine import Machine
from xlac_sdk.dims import Dim
from xlac_sdk.programs.program import Argument, Program, Stamp, walk

NAME, PART = "stamp", "stamp_part"

_TEXT = """\
define internal void @stamp(ptr %log, i64 %code, i64 %room) #0 {
entry:
  %now = call i64 @llvm.COUNTER()
  %first = icmp eq i64 %code, 0
  %held = load i64, ptr %log, align 8
  %count = select i1 %first, i64 0, i64 %held
  %before = shl i64 %count, 1
  %need = add i64 %before, 3
  %fits = icmp ule i64 %need, %room
  br i1 %fits, label %write, label %end
write:
  %at = getelementptr i64, ptr %log, i64 %before
  %place = getelementptr i64, ptr %at, i64 1
  store i64 %code, ptr %place, align 8
  %time = getelementptr i64, ptr %at, i64 2
  store i64 %now, ptr %time, align 8
  %more = add i64 %count, 1
  store i64 %more, ptr %log, align 8
  br label %end
end:
  ret void
}"""

_PART = """\
define internal void @stamp_part(ptr %parts, i64 %begun) #0 {
entry:
  %now = call i64 @llvm.COUNTER()
  %self = call i64 @pthread_self()
  %number = atomicrmw add ptr %parts, i64 1 monotonic, align 8
  %before = mul i64 %number, 3
  %need = add i64 %before, 4
  %fits = icmp ule i64 %need, ROOM
  br i1 %fits, label %write, label %end
write:
  %at = getelementptr i64, ptr %parts, i64 %before
  %place = getelementptr i64, ptr %at, i64 1
  store i64 %self, ptr %place, align 8
  %begin = getelementptr i64, ptr %at, i64 2
  store i64 %begun, ptr %begin, align 8
  %end_at = getelementptr i64, ptr %at, i64 3
  store i64 %now, ptr %end_at, align 8
  br label %end
end:
  ret void
}"""


def counter(machine: Machine) -> str:
    """The function that reads the counter. On x86 the time stamp counter is readable by any
    program.
    """
    return f"llvm.{'readcyclecounter' if machine.is_x86 else 'readsteadycounter'}"


def text(machine: Machine, declarations: dict[str, None]) -> str:
    """The function called between steps; its declarations are added to `declarations`."""
    declarations[f"declare i64 @{counter(machine)}()"] = None
    return _TEXT.replace("llvm.COUNTER", counter(machine))


def call(
    w: LlvmWriter, step: Stamp, pointer: Callable[[Argument], str], number: Callable[[Dim], str]
) -> None:
    """Writes the call for a stamp; `pointer` maps arguments to addresses, `number` sizes
    to values.
    """
    if step.parts and not step.code:
        w.do(f"store i64 0, ptr {pointer(region(step))}")
    room = number(step.log.slot.size - step.log.offset - step.parts)
    w.do(f"call void @{NAME}(ptr {pointer(step.log)}, i64 {step.code}, i64 {room})")


def stamped(program: Program) -> bool:
    """Whether a program has stamps."""
    return any(isinstance(step, Stamp) for step in walk(program.steps))


def parts(program: Program, narrow: bool) -> list[Stamp]:
    """The first stamp whose log has space for chunks, if there is one and threads can be
    identified.
    """
    if sys.platform == "win32" or narrow:  # profiles run on this machine
        return []
    return [step for step in program.steps if isinstance(step, Stamp) and step.parts][:1]


def region(stamp: Stamp) -> Argument:
    """The words of a stamp's log that are for chunks."""
    return Argument(stamp.log.slot, stamp.log.slot.size - stamp.parts)


def part(machine: Machine, room: int, declarations: dict[str, None]) -> str:
    """The function called after a chunk, for a region of `room` words; its declarations are added
    to `declarations`.
    """
    declarations["declare i64 @pthread_self()"] = None
    return _PART.replace("llvm.COUNTER", counter(machine)).replace("ROOM", str(room))
