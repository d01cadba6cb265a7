"""Runs cases on a backend and on the interpreter, and compares."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np

from xlac_sdk.backend import Backend, Executable
from xlac_sdk.conformance.case import ConformanceCase, Outcome, difference, without
from xlac_sdk.conformance.grids import cases as grid_cases
from xlac_sdk.conformance.kernels import cases as kernel_cases
from xlac_sdk.conformance.primitives import cases as primitive_cases
from xlac_sdk.conformance.report import ConformanceReport
from xlac_sdk.conformance.steps import cases as step_cases
from xlac_sdk.conformance.vectors import cases as vector_cases
from xlac_sdk.conformance.weak import cases as weak_cases
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.host.calls.in_flight import begin, overlaps
from xlac_sdk.interpreter.programs import Interpreter
from xlac_sdk.programs.sizes import of_call
from xlac_sdk.source import UnsupportedError
from xlac_sdk.target import Request, Target


def cases(target: Target) -> Iterator[ConformanceCase]:
    """Every case of the kit that applies to a target."""
    yield from primitive_cases(target)
    yield from kernel_cases(target)
    yield from vector_cases(target)
    yield from step_cases(target)
    yield from grid_cases(target)
    yield from weak_cases(target)


def left_out(target: Target) -> Iterator[Outcome]:
    """An outcome for each output of the kit that is not tested, as the target lacks a type."""
    why = without(target, DType)
    if not why:
        return
    tested = {(c.name, s.name) for c in cases(target) for s in c.program.outputs}
    for case in cases(replace(target, dtypes=frozenset(DType))):
        for slot in case.program.outputs:
            if (case.name, slot.name) not in tested:
                yield Outcome(case.group, f"{case.name}: {slot.name}", "left out", why)


def run(
    backend: Backend,
    operations: Sequence[tuple[str, Iterable[Outcome]]] = (),
    *,
    only: str = "",
    request: Request | None = None,
    progress: Callable[[str, int, int], object] = lambda name, done, whole: None,
    on_outcome: Callable[[Outcome], bool] = lambda outcome: False,
    wanted: Callable[[str, str], bool] = lambda group, case: True,
    on_case: Callable[[str, str, bool], object] = lambda group, case, passed: None,
    every: int = 1,
) -> ConformanceReport:
    """Runs the kit, then includes the toolchain's outcomes for each operation (`name`, an iterator
    of outcomes).

    `only` selects groups whose name contains it, and `wanted` cases of the kit by a predicate;
    `request` says which of a backend's targets, by default this machine's.
    `progress` is called with each case or operation before it runs, and `on_outcome` with each
    outcome; the run ends when that returns True. `on_case` is called with the group and the name
    of each case of the kit after its last outcome, and with whether it passed. `every` runs every
    so many-th case of a group, from its first.
    """
    target = backend.target(request or Request())
    outcomes: list[Outcome] = []
    taken: dict[str, list[Outcome]] = {}
    chosen = _sampled(cases(target), every)
    chosen = [case for case in chosen if only in case.group and wanted(case.group, case.name)]
    seconds: dict[str, float] = {}
    whole = len(chosen) + len(operations)

    def all_outcomes() -> Iterator[Outcome]:
        for outcome in left_out(target):
            if only in outcome.group and wanted(outcome.group, outcome.case):
                outcomes.append(outcome)
                yield outcome
        for number, case in enumerate(chosen):
            progress(case.name, number, whole)
            start = time.perf_counter()
            checked = check(case, backend, target)
            spent = time.perf_counter() - start
            seconds[case.group] = seconds.get(case.group, 0) + spent
            for outcome in checked:
                outcomes.append(outcome)
                yield outcome
            on_case(case.group, case.name, all(o.status == "passed" for o in checked))
        for number, (name, outcomes_of_one) in enumerate(operations, len(chosen)):
            progress(name, number, whole)
            start = time.perf_counter()
            for outcome in outcomes_of_one:
                taken.setdefault(name, []).append(outcome)
                yield outcome
            seconds[f"operation {name}"] = time.perf_counter() - start

    for outcome in all_outcomes():
        if on_outcome(outcome):
            break
    of_operations = {name: tuple(made) for name, made in taken.items()}
    return ConformanceReport(backend.name, target, tuple(outcomes), of_operations, seconds)


def _sampled(given: Iterable[ConformanceCase], every: int) -> list[ConformanceCase]:
    """Every so many-th case of each group, from its first."""
    met: dict[str, int] = {}
    kept = []
    for case in given:
        number = met[case.group] = met.get(case.group, -1) + 1
        if number % every == 0:
            kept.append(case)
    return kept


def check(case: ConformanceCase, backend: Backend, target: Target) -> list[Outcome]:
    """An outcome for each output of a case."""
    if case.unrepaired:
        target = replace(target, weak=frozenset())
    want = case.expected or _run(Interpreter(case.program), case)
    try:
        with tempfile.TemporaryDirectory(prefix="xlac-conformance-") as folder:
            artifact = backend.build(backend.emit(case.program, target), Path(folder))
            executable = backend.load(artifact, case.program, target)
        # without the folder, which may be deleted as soon as a program is loaded
        got = _run(executable, case)
        if case.calls == 1 and not case.program.state_bytes:
            _threads(executable, case, got)
            if overlaps(executable):
                _in_flight(executable, case, got)
    except UnsupportedError as error:
        return [Outcome(case.group, case.name, "unsupported", str(error))]
    except Exception as error:  # any exception of a backend is a failure, not the end of the run
        return [Outcome(case.group, case.name, "failed", f"{type(error).__name__}: {error}"[:2000])]
    outcomes = []
    for slot in case.program.outputs:
        mine: Mapping[str, Array] = {
            k: v for k, v in case.inputs.items() if k.startswith(f"{slot.name}.")
        } or case.inputs
        detail = difference(got[slot.name], want[slot.name], case.tolerance, mine)
        name = case.name if len(case.program.outputs) == 1 else f"{case.name}: {slot.name}"
        outcomes.append(Outcome(case.group, name, "failed" if detail else "passed", detail))
    return outcomes


def _run(executable: Executable, case: ConformanceCase) -> dict[str, Array]:
    outputs = _poisoned(case)
    for _ in range(case.calls):
        executable.run(case.inputs, outputs)
    return outputs


def _poisoned(case: ConformanceCase) -> dict[str, Array]:
    """Arrays for the outputs of a case."""
    sizes = of_call(case.program, case.inputs)
    shapes = {s: s.extents(sizes) for s in case.program.outputs}
    return {
        s.name: np.full(prod(n) * s.dtype.nbytes, 0xA5, np.uint8).view(s.dtype.numpy).reshape(n)
        for s, n in shapes.items()
    }


def _in_flight(executable: Executable, case: ConformanceCase, want: Mapping[str, Array]) -> None:
    """A call in parts must give the results of a whole one, after one that ended before it
    started; inputs are sent, and outputs waited for, the last first.
    """
    begin(executable).end()
    outputs = _poisoned(case)
    call = begin(executable)
    try:
        for slot in reversed(case.program.inputs):
            call.send(slot.name, case.inputs[slot.name])
        call.start(outputs)
        for name in reversed(outputs):
            call.wait(name)
            if outputs[name].tobytes() != want[name].tobytes():
                raise AssertionError(f"a call in flight gives another {name} than one that is run")
    finally:
        call.end()


def _threads(executable: Executable, case: ConformanceCase, want: Mapping[str, Array]) -> None:
    """Two concurrent calls, which begin together, must give the results of a single one."""
    results: list[dict[str, Array] | BaseException] = []
    begun = threading.Barrier(2)

    def call() -> None:
        try:
            begun.wait()
            results.append(_run(executable, case))
        except BaseException as error:
            results.append(error)

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for got in results:
        if isinstance(got, BaseException):
            raise got
        for name, array in got.items():
            if array.tobytes() != want[name].tobytes():
                raise AssertionError(
                    f"output '{name}' differs when the program runs in two threads at once"
                )
