"""Where the time of a call goes: time stamps between the steps of a program, evaluated per kernel.

The time of a step is from the stamp before it to its own, so work of the host between two steps (a
loop's counter, a branch) counts to the second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xlac.debug.profile_log import (
    KEPT,
    LOG,
    Event,
    StampLog,
    Timed,
    events_of,
    room_for,
    steps_not_logged,
)
from xlac.driver import Lowered, executable
from xlac.ir.op import Array
from xlac.runtime.compiled import Compiled
from xlac.support.failures import FACT
from xlac_sdk.backend import Backend
from xlac_sdk.dims import size_hint
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Work
from xlac_sdk.programs.program import Argument, Call, Copy, Launch, Program, Role, Slot, Stamp, Step
from xlac_sdk.programs.rewrite import with_steps
from xlac_sdk.source import Origin


@dataclass(frozen=True, slots=True)
class StepTimes:
    """A step of the program, how often a call runs it, and its total seconds."""

    step: Timed
    times: int
    seconds: float

    @property
    def name(self) -> str:
        """The kernel's name, or what else the step is."""
        match self.step:
            case Launch(kernel=kernel):
                return kernel.name
            case Call(name=name):
                return name
        return "copy"

    @property
    def origins(self) -> tuple[Origin, ...]:
        """The nodes of the model that the step computes."""
        match self.step:
            case Launch(origins=origins):
                return origins
            case Call(origin=origin) if origin is not None:
                return (origin,)
        return ()

    @property
    def work(self) -> Work:
        """The work of one run: operations, and bytes moved if nothing is cached."""
        match self.step:
            case Launch(kernel=kernel):
                return kernel.work
            case Copy(count=count, target=target):
                return Work(0, 2 * size_hint(count) * target.slot.dtype.nbytes)
        return self.step.work or Work()


@dataclass(frozen=True, slots=True)
class Profile:
    """The profile of a call: the median time of every step over `calls` calls, and the events of
    the call with the median time.
    """

    rows: tuple[StepTimes, ...]
    events: tuple[Event, ...]
    calls: int
    lost: int  # runs of steps in a call that did not fit in the log
    lost_parts: int = 0  # parts of launches that did not fit

    @property
    def seconds(self) -> float:
        """The total seconds of all steps of a call."""
        return sum(row.seconds for row in self.rows)


def instrumented(program: Program, threads: int = 1) -> tuple[Program, tuple[Timed, ...]]:
    """The program with a stamp before its first step and after each step that takes time, and those
    steps by stamp code - 1.

    The log is one more output; with several threads it has room for each thread's parts of
    launches.
    """
    entries, parts = room_for(program, threads)
    log = Slot(LOG, _free("log", program), DType.I64, (1 + 2 * entries + parts,), Role.OUTPUT)
    timed: list[Timed] = []

    def visit(step: Step) -> tuple[Step, ...]:
        if not isinstance(step, Launch | Copy | Call):
            return (step,)
        timed.append(step)
        return step, Stamp(Argument(log), len(timed), parts)

    steps = (Stamp(Argument(log), 0, parts), *with_steps(program.steps, visit))
    # failed checks are ignored while measuring
    facts = {name: fact for name, fact in program.facts.items() if name != FACT}
    stamped = replace(
        program,
        steps=steps,
        outputs=(*program.outputs, log),
        slots=(*program.slots, log),
        facts=facts,
    )
    return stamped, tuple(timed)


def measure(
    call: Callable[[], Mapping[str, Array]],
    timed: tuple[Timed, ...],
    seconds: float,
    parts: int = 0,
) -> Profile:
    """Calls an instrumented program for some seconds. `call` returns its outputs by name; `parts`
    is the number of words for parts in the log.
    """
    call()
    logs: list[StampLog] = []
    held = 0
    begun = time.perf_counter()
    end = begun + seconds
    while len(logs) < 2 or (time.perf_counter() < end and held < KEPT):
        logs.append(StampLog.of(call()[LOG], parts))
        held += logs[-1].nbytes
        last = time.perf_counter()
    ticks = int(logs[-1].stamps[-1]) - int(logs[0].stamps[0])
    rate = (last - begun) / max(ticks, 1)  # seconds per tick
    spent = np.zeros((len(logs), len(timed)))
    for number, log in enumerate(logs):
        np.add.at(spent[number], log.codes - 1, np.diff(log.stamps) * rate)
    log = logs[typical([float(log.stamps[-1] - log.stamps[0]) for log in logs])]
    counts = np.bincount(log.codes - 1, minlength=len(timed))
    rows = tuple(
        StepTimes(s, int(n), float(t))
        for s, n, t in zip(timed, counts, np.median(spent, axis=0), strict=True)
    )
    lost = steps_not_logged(counts, timed) if log.full else 0
    return Profile(rows, tuple(events_of(log, rate)), len(logs), lost, log.lost_parts)


def typical(seconds: Sequence[float]) -> int:
    """The index of the call with the median time; of two, the shorter."""
    return int(np.argsort(seconds, kind="stable")[(len(seconds) - 1) // 2])


def take(
    lowered: Lowered,
    backend: Backend,
    inputs: Sequence[Array],
    seconds: float,
    begin: Callable[[Compiled], object] = lambda compiled: None,
) -> Profile:
    """Builds the instrumented program of a model and calls it for some seconds; `begin` may
    initialize its state first.
    """
    call, timed, parts = stamped(lowered, backend, inputs, begin)
    return measure(call, timed, seconds, parts)


def stamped(
    lowered: Lowered,
    backend: Backend,
    inputs: Sequence[Array],
    begin: Callable[[Compiled], object] = lambda compiled: None,
) -> tuple[Callable[[], Mapping[str, Array]], tuple[Timed, ...], int]:
    """A call of the instrumented program of a model, which returns its outputs by name; the steps
    by stamp code - 1; and the number of words for parts in the log.
    """
    target = lowered.target
    program, timed = instrumented(lowered.program, 1 if target.device == "gpu" else target.threads)
    compiled = executable(replace(lowered, program=program), backend)
    begin(compiled)

    def call() -> Mapping[str, Array]:
        results = compiled(*inputs)
        return results if isinstance(results, dict) else {LOG: results}

    first = program.steps[0]
    assert isinstance(first, Stamp)
    return call, timed, first.parts


def by_line(rows: Iterable[StepTimes]) -> list[tuple[str, float]]:
    """Seconds by place in the model, largest first; places computed by one kernel form one
    entry.
    """
    seconds: dict[str, float] = {}
    for row in rows:
        seconds[place(row.origins)] = seconds.get(place(row.origins), 0.0) + row.seconds
    return sorted(seconds.items(), key=lambda entry: -entry[1])


def place(origins: Iterable[Origin]) -> str:
    """The lines of the spec that a step computes, or the names of its nodes where there are no
    lines.
    """
    lines: dict[str, dict[int, None]] = {}
    names: dict[str, None] = {}
    for origin in origins:
        if origin.span is not None:
            lines.setdefault(origin.span.file.name, {})[origin.span.line] = None
        else:
            names[origin.name] = None
    places = [f"{file}:{','.join(map(str, sorted(numbers)))}" for file, numbers in lines.items()]
    return " ".join([*places, *names]) or "the compiler"


def chrome_trace(profile: Profile, model: str) -> dict[str, Any]:
    """The median call as JSON for chrome://tracing and Perfetto (Trace Event Format, complete
    events).

    One track shows the steps and the calling thread's parts of them; every other thread has its
    own.
    """
    tracks = sorted({0, *(event.thread for event in profile.events)})
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 0, "tid": 0, "name": "process_name", "args": {"name": model}}
    ]
    for thread in tracks:
        name = f"thread {thread}" if thread else "steps (the calling thread)"
        events.append(
            {"ph": "M", "pid": 0, "tid": thread, "name": "thread_name", "args": {"name": name}}
        )
        events.append(
            {
                "ph": "M",
                "pid": 0,
                "tid": thread,
                "name": "thread_sort_index",
                "args": {"sort_index": thread},
            }
        )
    for event in profile.events:
        row = profile.rows[event.row]
        arguments = {
            "what": ", ".join(o.name for o in row.origins),
            "where": place(row.origins),
            "flops": row.work.flops,
            "bytes": row.work.bytes,
        }
        events.append(
            {
                "ph": "X",
                "pid": 0,
                "tid": event.thread,
                "cat": "part" if event.part else "kernel",
                "name": row.name,
                "ts": event.start * 1e6,
                "dur": event.seconds * 1e6,
                "args": {} if event.part else arguments,
            }
        )
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def _free(wanted: str, program: Program) -> str:
    taken = {slot.symbol for slot in program.slots}
    while wanted in taken:
        wanted += "_"
    return wanted
