"""Stop checks in a driver function: between steps, and between iterations of loops."""

from __future__ import annotations

from collections.abc import Callable

from xlac_cpu.emit.stopping import function
from xlac_cpu.emit.writer import LlvmWriter
from xlac_sdk.lowering.stop_checks import GRAIN, LAUNCH, StopChecks
from xlac_sdk.programs.program import Step

OFTEN = 5e6  # nanoseconds of steps between stop checks
TURNS = 1024  # nanoseconds of a loop between stop checks


class Watch:
    """Shared by the functions of one program: whether there are stop checks, and whether they are
    still inserted.
    """

    def __init__(self, stop_checks: StopChecks) -> None:
        self.stop_checks, self.watched = stop_checks, stop_checks.long
        self.result = "i32" if self.watched else "void"
        self.committed = False  # from here on in the text, a call always completes

    def never(self) -> None:
        """A context in which no stop checks are inserted."""
        self.watched, self.result = False, "void"


class StopCheckWriter:
    """A function of steps with stop checks."""

    def __init__(self, writer: LlvmWriter, watch: Watch) -> None:
        self.w, self.watch = writer, watch
        self.stop, self.since = "", 0.0  # the address of the flag; nanoseconds since the last check

    def stops_at(self, arrays: int, sizes: int) -> None:
        """Loads the flag's address, which follows the arrays and sizes of a call."""
        if not self.watch.watched:
            return
        place = self.w.op(
            f"getelementptr {'i64' if sizes else 'ptr'}, ptr %io, i64 {arrays + sizes}"
        )
        self.stop = self.w.op(f"load ptr, ptr {place}, !invariant.load !0")

    def begins(self, step: Step) -> None:
        """Inserts a stop check before a step if there was enough work since the last one."""
        watch = self.watch
        if not watch.watched:
            return
        watch.committed |= step is watch.stop_checks.committed
        work = watch.stop_checks.usual((step,))
        if self.since + work > OFTEN and self.since > 0:
            self.check_stop()
        self.since += work

    def check_stop(self) -> None:
        """Leaves the function on a stop request."""
        if not self.watch.committed:
            function.check_stop(self.w, self.stop)
            self.since = 0.0

    def run(self, call: str) -> None:
        """Calls a function of steps, and returns early if it did."""
        if not self.watch.watched:
            self.w.do(call)
            return
        go = self.w.name("on")
        early = self.w.fresh(f"icmp ne i32 {self.w.fresh(call)}, 0")
        self.w.do(f"br i1 {early}, label %leave, label %{go}")
        self.w.label(go)

    def left(self) -> None:
        """The end of a function: returns 0, or the reason why it ended early."""
        w = self.w
        if not self.watch.watched:
            return
        w.do("br label %whole")
        w.label("leave")
        early = w.fresh(f"load atomic i32, ptr {self.stop} monotonic, align 4")
        w.do("br label %end")
        w.label("whole")
        w.do("br label %end")
        w.label("end")
        w.do(f"%why = phi i32 [ {early}, %leave ], [ 0, %whole ]")

    def now_and_then(self, turn: float) -> Callable[[], None] | None:
        """The stop check between iterations of `turn` nanoseconds, made every few iterations; None
        if a loop needs none.
        """
        if not self.watch.watched or self.watch.committed:
            return None
        turns = 1
        while turns < TURNS and 2 * turns * max(turn, LAUNCH) <= GRAIN:
            turns *= 2
        if turns == 1:
            return self.check_stop
        w, count = self.w, self.w.stack("i32")
        self.w.entry.append(f"  store i32 0, ptr {count}")

        def check_stop() -> None:
            more = w.fresh(f"add i32 {w.fresh(f'load i32, ptr {count}')}, 1")
            w.do(f"store i32 {more}, ptr {count}")
            due, go = w.name("due"), w.name("on")
            over = w.fresh(f"icmp eq i32 {w.fresh(f'and i32 {more}, {turns - 1}')}, 0")
            w.do(f"br i1 {over}, label %{due}, label %{go}")
            w.label(due)
            self.check_stop()
            w.do(f"br label %{go}")
            w.label(go)

        return check_stop

    def usual(self, steps: tuple[Step, ...]) -> float:
        """Nanoseconds of steps, if there are stop checks."""
        return self.watch.stop_checks.usual(steps) if self.watch.watched else 0.0
