"""The function that runs a program: launches, copies and host control flow as straight-line LLVM
code.

`run(ptr io, ptr fixed, ptr arena, ptr pool)`: `io` points to the addresses of inputs and then
outputs, followed by the sizes of the call; `fixed` to the addresses of constants and of each state
(ahead of time: to the block of constants itself); `pool` to the thread pool, or is null. A parallel
kernel is split into chunks that the pool's threads claim, if that pays. A long-running program
takes one more address at the end of `io`, that of the stop flag (stop_block.py), and returns the
reason why it ended early, or 0. A program with symbolic sizes also has `extents(ptr sizes, ptr
shapes)`, which writes the extents of all inputs and outputs consecutively, for the fast call from
Python.
"""

from __future__ import annotations

from collections.abc import Mapping

from xlac_cpu.duration import estimate
from xlac_cpu.emit import exchange, layout, stamp
from xlac_cpu.emit.launches import Launching
from xlac_cpu.emit.spelling import memory
from xlac_cpu.emit.stopping.checks import Watch
from xlac_cpu.emit.style import Style
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.lowering.stop_checks import StopChecks
from xlac_sdk.programs.host_calls import CUSTOM, function_of, numbered, signature_of
from xlac_sdk.programs.program import (
    Argument,
    Branch,
    Call,
    Choice,
    CollectiveDone,
    CollectiveStart,
    Copy,
    Launch,
    Program,
    Repeat,
    Stamp,
    Step,
    While,
)
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.support.limits import count_work

SEGMENT = 128  # steps in one function, as LLVM's time grows superlinearly with a function's length


class ProgramWriter:
    """Writes the functions that run the steps of a program without entries."""

    def __init__(
        self,
        program: Program,
        symbols: dict[Kernel, str],
        legal: Mapping[Kernel, Kernel],
        threads: int,
        declarations: dict[str, None],
        style: Style,
        places: layout.Places | None = None,
        stop_checks: StopChecks | None = None,
        name: str = "run",
    ) -> None:
        """`symbols` are the functions of the program's kernels, `legal` the kernels as which these
        were written; `name` is the function that runs the program's steps.
        """
        self.watch, self.name = Watch(stop_checks or StopChecks(program)), name
        self.program, self.symbols, self.threads = program, symbols, threads
        self.nanoseconds = estimate(program.steps)
        self.legal = legal
        self.places, self.ahead = places or layout.places(program), places is not None
        self.declarations, self.style = declarations, style
        self.numbers = numbered(program)  # of the Python functions that steps call
        self.functions: list[str] = []
        # kernels run by the pool, and the words of their frames
        self.forks: dict[str, int] = {}
        self.called: dict[str, str] = {}
        self.parts = stamp.parts(program, style.narrow)  # the stamp whose log records chunks

    def write(self) -> list[str]:
        """The text of every function."""
        self._function(self.name, "", self.program.steps, ())
        if self.program.sizes and not self.ahead:
            self._extents()
        return self.functions

    def _extents(self) -> None:
        body = _Body(self, {}, "sizes", 0)
        slots = (*self.program.inputs, *self.program.outputs)
        for place, extent in enumerate(extent for slot in slots for extent in slot.shape):
            address = body.w.op(f"getelementptr i64, ptr %shapes, i64 {place}")
            body.w.do(f"store i64 {body.number(extent)}, ptr {address}")
        self.functions.append(
            f"define void @extents(ptr %sizes, ptr %shapes) #0 {{\n{body.w.text()}"
        )

    def _function(
        self, name: str, linkage: str, steps: tuple[Step, ...], counters: tuple[str, ...]
    ) -> None:
        arrays = len(self.program.inputs) + len(self.program.outputs)
        body = _Body(self, {counter: f"%c{i}" for i, counter in enumerate(counters)}, "io", arrays)
        body.stops_at(arrays, len(self.program.sizes))
        body.steps(steps)
        body.left()
        extra = "".join(f", i64 %c{i}" for i in range(len(counters)))
        self.functions.append(
            f"define {linkage}{self.watch.result} @{name}(ptr noalias readonly %io, ptr noalias "
            f"readonly %fixed, ptr %arena, ptr %pool{extra}) #0 {{\n"
            + body.w.text(f"{self.watch.result} %why" if self.watch.watched else self.watch.result)
        )

    def segment(self, steps: tuple[Step, ...], counters: tuple[str, ...]) -> str:
        """Some steps as a separate function."""
        before = "" if self.name == "run" else f"{self.name}_"
        name = f"{before}segment_{len(self.functions)}"
        self.functions.append("")  # reserves the number while nested segments are written
        at = len(self.functions) - 1
        self._function(name, "internal ", steps, counters)
        self.functions[at] = self.functions.pop()
        return name


class _Body(Launching):
    """The body of one function of steps."""

    def steps(self, steps: tuple[Step, ...]) -> None:
        if len(steps) > SEGMENT:
            for at in range(0, len(steps), SEGMENT):
                self.apart(steps[at : at + SEGMENT])
            return
        for step in steps:
            self.begins(step)
            self.step(step)

    def apart(self, steps: tuple[Step, ...]) -> None:
        """Steps in a separate function."""
        name = self.driver.segment(steps, tuple(self.counters))
        extra = "".join(f", i64 {text}" for text in self.counters.values())
        self.run(
            f"call {self.watch.result} @{name}(ptr %io, ptr %fixed, ptr %arena, ptr %pool{extra})"
        )

    def step(self, step: Step) -> None:
        count_work()
        w = self.w
        match step:
            case Launch():
                self.launch(step)
            case Copy(target=target, source=source, count=count):
                if count != 0:
                    w.declare("void", "llvm.memcpy.p0.p0.i64", "ptr", "ptr", "i64", "i1")
                    to, start, nbytes = (
                        self.pointer(target),
                        self.pointer(source),
                        self.number(count * target.slot.dtype.nbytes),
                    )
                    w.do(
                        f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {start}, i64 {nbytes}, i1 "
                        "false)"
                    )
            case Repeat(counter=counter, count=count, body=body):
                if count != 0:
                    between = self.now_and_then(self.usual(body))
                    with w.loop(
                        "0", self.number(count), 1, certain=isinstance(count, int), between=between
                    ) as text:
                        before = self.counters
                        self.counters = {**before, counter: text}
                        self.steps(body)
                        self.counters = before
            case While(condition=condition, flag=flag, body=body):
                self.repeat_while(condition, flag, body)
            case Branch(index=index, branches=branches):
                self.branch(index, branches)
            case Choice():
                self.choice(step)
            case Stamp():
                stamp.call(w, step, self.pointer, self.number)
            case CollectiveStart() | CollectiveDone():
                if self.driver.ahead:
                    raise exchange.ahead()
                exchange.call(w, step, self.pointer, layout.exchanges(self.driver.program))
            case Call() if step.name == CUSTOM and function_of(step) is not None:
                self.host_call(step)
            case Call(name=name):
                raise UnsupportedError(
                    Diagnostic("XL5104", f"the cpu backend does not claim '{name}'")
                )

    def host_call(self, step: Call) -> None:
        """Calls a Python function, which gives the call's end a reason where it raises."""
        if self.driver.ahead or not self.watch.watched:
            problem = "code built ahead of time calls no Python functions"
            span = step.origin.span if step.origin else None
            raise UnsupportedError(Diagnostic("XL7217", problem, span))
        number = self.driver.numbers[signature_of(step)]
        pointers = [self.pointer(argument) for argument in step.arguments]
        exchange.host_call(
            self.w, number, pointers, layout.host_calls(self.driver.program), self.stop
        )

    def repeat_while(
        self, condition: tuple[Step, ...], flag: Argument, body: tuple[Step, ...]
    ) -> None:
        w = self.w
        test, go, out = w.name("test"), w.name("body"), w.name("done")
        between = self.now_and_then(self.usual((*condition, *body)))
        w.do(f"br label %{test}")
        w.label(test)
        with w.scope():
            self.steps(condition)
            value = w.fresh(f"load i8, ptr {self.pointer(flag)}, align 1")
            w.do(f"br i1 {w.fresh(f'icmp ne i8 {value}, 0')}, label %{go}, label %{out}")
            w.label(go)
            self.steps(body)
            if between is not None:
                between()
        w.do(f"br label %{test}")
        w.label(out)

    def branch(self, index: Argument, branches: tuple[tuple[Step, ...], ...]) -> None:
        w = self.w
        kind = memory(index.slot.dtype)
        value = w.fresh(f"load {kind}, ptr {self.pointer(index)}, align {index.slot.dtype.nbytes}")
        labels, out = [w.name("case") for _ in branches], w.name("end")
        cases = " ".join(f"{kind} {i}, label %{label}" for i, label in enumerate(labels))
        w.do(f"switch {kind} {value}, label %{labels[-1]} [ {cases} ]")
        for label, steps in zip(labels, branches, strict=True):
            w.label(label)
            with w.scope():
                self.steps(steps)
            w.do(f"br label %{out}")
        w.label(out)

    def choice(self, step: Choice) -> None:
        """Each case is a separate function, so that code that a call does not run is not in
        between.
        """
        w, out = self.w, self.w.name("end")
        for case in step.cases:
            same = [
                w.op(f"icmp eq i64 {self.values.names[symbol.identifier]}, {value}")
                for symbol, value in case.sizes
            ]
            all_same = same[0]
            for one in same[1:]:
                all_same = w.op(f"and i1 {all_same}, {one}")
            taken, other = w.name("case"), w.name("other")
            w.do(f"br i1 {all_same}, label %{taken}, label %{other}")
            w.label(taken)
            with w.scope():
                self.apart(case.steps)
            w.do(f"br label %{out}")
            w.label(other)
        with w.scope():
            self.apart(step.otherwise)
        w.do(f"br label %{out}")
        w.label(out)
