"""Where the time of a call goes: stamps between the steps of a program, read back as times of its kernels.

A step's time ends with its stamp and begins with the one before, so what the host does between two steps (a loop's
counter, a branch) counts to the second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xlac.compiler import Lowered, executable
from xlac.failures import FACT
from xlac.ir.op import Array
from xlac_sdk.backend import Backend
from xlac_sdk.dims import at_opt
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel import Work
from xlac_sdk.program import (
    Argument,
    Call,
    Choice,
    Copy,
    Launch,
    Program,
    Repeat,
    Role,
    Slot,
    Stamp,
    Step,
    While,
    walk,
)
from xlac_sdk.rewrite_program import with_steps
from xlac_sdk.source import Origin

LOG = "profile log"
ROOM = 1 << 18  # entries of a log
UNKNOWN = 1 << 12  # times that a loop of unknown length is taken to run

Timed = Launch | Copy | Call


@dataclass(frozen=True, slots=True)
class Row:
    """A step of the program: how often a call runs it, and for how long in all."""

    step: Timed
    times: int
    seconds: float

    @property
    def name(self) -> str:
        match self.step:
            case Launch(kernel=kernel):
                return kernel.name
            case Call(name=name):
                return name
        return "copy"

    @property
    def origins(self) -> tuple[Origin, ...]:
        match self.step:
            case Launch(origins=origins):
                return origins
            case Call(origin=origin) if origin is not None:
                return (origin,)
        return ()

    @property
    def work(self) -> Work:
        """What one run of it does: arithmetic, and bytes moved were nothing in a cache."""
        match self.step:
            case Launch(kernel=kernel):
                return kernel.work
            case Copy(count=count, target=target):
                return Work(0, 2 * at_opt(count) * target.slot.dtype.nbytes)
        return self.step.work or Work()


@dataclass(frozen=True, slots=True)
class Event:
    """One run of a step; seconds from the start of its call."""

    row: int
    start: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Profile:
    """Times of a call: the median of every step over `calls`, and the events of the last of them."""

    rows: tuple[Row, ...]
    events: tuple[Event, ...]
    calls: int
    lost: int  # runs of steps in a call that the log had no room for

    @property
    def seconds(self) -> float:
        return sum(row.seconds for row in self.rows)


def instrumented(program: Program) -> tuple[Program, tuple[Timed, ...]]:
    """The program with a stamp before its first step and after each that takes time, and those steps by code - 1.

    The log is one more output.
    """
    log = Slot(LOG, _free("log", program), DType.I64, (1 + 2 * _entries(program),), Role.OUTPUT)
    timed: list[Timed] = []

    def visit(step: Step) -> tuple[Step, ...]:
        if not isinstance(step, Launch | Copy | Call):
            return (step,)
        timed.append(step)
        return step, Stamp(Argument(log), len(timed))

    steps = (Stamp(Argument(log), 0), *with_steps(program.steps, visit))
    facts = {name: fact for name, fact in program.facts.items() if name != FACT}  # a check that fails is no reason to stop measuring
    made = replace(program, steps=steps, outputs=(*program.outputs, log), slots=(*program.slots, log), facts=facts)
    return made, tuple(timed)


def measure(call: Callable[[], Mapping[str, Array]], timed: tuple[Timed, ...], seconds: float) -> Profile:
    """Calls an instrumented program for some seconds. `call` gives its outputs by name."""
    call()
    logs: list[Array] = []
    begun = time.perf_counter()
    end = begun + seconds
    while len(logs) < 2 or time.perf_counter() < end:
        logs.append(np.array(call()[LOG]))
        last = time.perf_counter()
    ticks = int(logs[-1][2 * logs[-1][0]]) - int(logs[0][2])
    rate = (last - begun) / max(ticks, 1)  # seconds of a tick
    spent = np.zeros((len(logs), len(timed)))
    for number, log in enumerate(logs):
        codes, _, took = _entries_of(log)
        np.add.at(spent[number], codes - 1, took * rate)
    codes, starts, took = _entries_of(logs[-1])
    counts = np.bincount(codes - 1, minlength=len(timed))
    rows = tuple(Row(s, int(n), float(t)) for s, n, t in zip(timed, counts, np.median(spent, axis=0), strict=True))
    events = tuple(Event(int(c) - 1, float(s * rate), float(t * rate)) for c, s, t in zip(codes, starts, took, strict=True))
    full = len(codes) + 1 == len(logs[-1]) // 2
    return Profile(rows, events, len(logs), _unlogged(counts, timed) if full else 0)


def take(lowered: Lowered, backend: Backend, inputs: Sequence[Array], seconds: float) -> Profile:
    """Builds the instrumented program of a model and calls it for some seconds."""
    program, timed = instrumented(lowered.program)
    compiled = executable(replace(lowered, program=program), backend)

    def call() -> Mapping[str, Array]:
        found = compiled(*inputs)
        return found if isinstance(found, dict) else {LOG: found}

    return measure(call, timed, seconds)


def by_line(rows: Iterable[Row]) -> list[tuple[str, float]]:
    """Seconds of each place of the model, most first; places that share a kernel share an entry."""
    found: dict[str, float] = {}
    for row in rows:
        found[place(row.origins)] = found.get(place(row.origins), 0.0) + row.seconds
    return sorted(found.items(), key=lambda entry: -entry[1])


def place(origins: Iterable[Origin]) -> str:
    """The lines of the spec that a step computes, or their names in the model where there are no lines."""
    lines: dict[str, dict[int, None]] = {}
    names: dict[str, None] = {}
    for origin in origins:
        if origin.span is not None:
            lines.setdefault(origin.span.file.name, {})[origin.span.line] = None
        else:
            names[origin.name] = None
    told = [f"{file}:{','.join(map(str, sorted(found)))}" for file, found in lines.items()]
    return " ".join([*told, *names]) or "the compiler"


def chrome_trace(profile: Profile, model: str) -> dict[str, Any]:
    """The last call in the form that chrome://tracing and Perfetto read (Trace Event Format, complete events)."""
    events: list[dict[str, Any]] = [{"ph": "M", "pid": 0, "tid": 0, "name": "process_name", "args": {"name": model}}]
    for event in profile.events:
        row = profile.rows[event.row]
        told = {"what": ", ".join(o.name for o in row.origins), "where": place(row.origins),
                "flops": row.work.flops, "bytes": row.work.bytes}  # fmt: skip
        events.append({"ph": "X", "pid": 0, "tid": 0, "cat": "kernel", "name": row.name, "ts": event.start * 1e6,
                       "dur": event.seconds * 1e6, "args": told})  # fmt: skip
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def _entries(program: Program) -> int:
    """Room for a stamp after every step that a call runs, at most ROOM."""

    def count(steps: tuple[Step, ...]) -> int:
        total = 0
        for step in steps:
            match step:
                case Repeat(count=times, body=body):
                    total += at_opt(times) * count(body)
                case While(condition=condition, body=body):
                    total += UNKNOWN * (count(condition) + count(body))
                case Choice():
                    total += sum(map(count, step.paths))
                case Launch() | Copy() | Call():
                    total += 1
                case _:
                    total += sum(isinstance(inner, Launch | Copy | Call) for inner in walk((step,)))
        return total

    return min(ROOM, 1 + count(program.steps))


def _entries_of(log: Array) -> tuple[Array, Array, Array]:
    """Codes, ticks from the start of the call to the start of each step, and ticks that it took."""
    count = int(log[0])
    codes, stamps = log[1 : 1 + 2 * count : 2], log[2 : 2 + 2 * count : 2]
    return codes[1:], stamps[:-1] - stamps[0], np.diff(stamps)


def _unlogged(counts: Array, timed: tuple[Timed, ...]) -> int:
    """At least how many steps of a call a full log does not tell of: those that it never mentions."""
    return int(np.count_nonzero(counts[: len(timed)] == 0))


def _free(wanted: str, program: Program) -> str:
    taken = {slot.symbol for slot in program.slots}
    while wanted in taken:
        wanted += "_"
    return wanted
