"""The function that a program made for `xlac profile` calls between its steps: it logs the processor's counter."""

from __future__ import annotations

from xlac_cpu.machine import Machine

NAME = "stamp"

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


def text(machine: Machine, declarations: dict[str, None]) -> str:
    """The function; what it needs is added to `declarations`. On x86 the counter may be read by any program."""
    counter = "readcyclecounter" if machine.is_x86 else "readsteadycounter"
    declarations[f"declare i64 @llvm.{counter}()"] = None
    return _TEXT.replace("COUNTER", counter)
