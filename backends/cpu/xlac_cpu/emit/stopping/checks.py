"""The parts of a driver function that check whether the call is to stop: between steps, and iterations of
loops.
"""

from __future__ import annotations

from collections.abc import Callable

from xlac_cpu.emit.stopping import function
from xlac_cpu.emit.writer import LlvmWriter
from xlac_sdk.lowering.stop_checks import GRAIN, LAUNCH, StopChecks
from xlac_sdk.programs.program import Step

OFTEN = 5e6  # nanoseconds of steps after which a program checks for stopping
TURNS = 1024  # of a loop, after which it does


class Watch:
    """What the functions of one program have in common: whether they check, and whether they still
    do.
    """

    def __init__(self, stop_checks: StopChecks) -> None:
        self.stop_checks, self.watched = stop_checks, stop_checks.long
        self.result = "i32" if self.watched else "void"
        self.committed = False  # from here on, as the text is written, a call is finished

    def never(self) -> None:
        """Makes functions that check nothing."""
        self.watched, self.result = False, "void"


class StopCheckWriter:
    """A function of steps that may check whether it is to stop."""

    def __init__(self, writer: LlvmWriter, watch: Watch) -> None:
        self.w, self.watch = writer, watch
        self.stop, self.since = "", 0.0  # where the flag is; nanoseconds since then

    def stops_at(self, arrays: int, sizes: int) -> None:
        """Finds the flag behind the arrays and the sizes of a call."""
        if not self.watch.watched:
            return
        place = self.w.op(
            f"getelementptr {'i64' if sizes else 'ptr'}, ptr %io, i64 {arrays + sizes}"
        )
        self.stop = self.w.op(f"load ptr, ptr {place}, !invariant.load !0")

    def begins(self, step: Step) -> None:
        """Checks before a step when there was enough work since the last time."""
        watch = self.watch
        if not watch.watched:
            return
        watch.committed |= step is watch.stop_checks.committed
        work = watch.stop_checks.usual((step,))
        if self.since + work > OFTEN and self.since > 0:
            self.check_stop()
        self.since += work

    def check_stop(self) -> None:
        """Leaves the function if the call is to stop."""
        if not self.watch.committed:
            function.check_stop(self.w, self.stop)
            self.since = 0.0

    def run(self, call: str) -> None:
        """Calls a function of steps, and leaves when it left."""
        if not self.watch.watched:
            self.w.do(call)
            return
        go = self.w.name("on")
        early = self.w.fresh(f"icmp ne i32 {self.w.fresh(call)}, 0")
        self.w.do(f"br i1 {early}, label %leave, label %{go}")
        self.w.label(go)

    def left(self) -> None:
        """The end of a function: 0, or why it ended early."""
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
        """What a loop does between iterations of so many nanoseconds; None where it never
        checks.
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
        """Nanoseconds that steps take, where that matters."""
        return self.watch.stop_checks.usual(steps) if self.watch.watched else 0.0
