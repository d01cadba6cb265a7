"""Stamps between the steps of a program: the results stay, every run of a step is logged, full logs
say so.
"""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from xlac.cli import root
from xlac.debug import profile, profile_log
from xlac.debug.profile_log import StampLog
from xlac.driver import Lowered, executable, lower, specialized
from xlac.frontends.loader import load
from xlac_sdk.host.registry import find
from xlac_sdk.programs.program import Argument, Launch, Program, Role, Slot, Stamp
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.source import Origin, Span, UnsupportedError, VerifyError
from xlac_sdk.target import Request

SPECS = Path(__file__).parents[2] / "specs"


def lowered(name: str, target: str, **dims: int) -> Lowered:
    model = specialized(load(SPECS / f"{name}.yaml", dims=dims))
    return lower(model, find(target).target(Request()))


def called(made: Lowered, program: Program, target: str) -> dict[str, Any]:
    compiled = executable(replace(made, program=program), find(target))
    generator = np.random.default_rng(0)
    found = compiled(
        *(generator.standard_normal(s.shape).astype(s.dtype.numpy) for s in program.inputs)
    )
    return found if isinstance(found, dict) else {compiled.outputs[0]: found}


def measured(made: Lowered) -> tuple[profile.Profile, int]:
    """A short profile on cpu, and how many steps the program has."""
    program, timed = profile.instrumented(made.program)
    compiled = executable(replace(made, program=program), find("cpu"))
    inputs = [np.zeros(s.shape, s.dtype.numpy) for s in program.inputs]
    return profile.measure(lambda: compiled(*inputs), timed, 0.01), len(timed)


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_results_stay_and_every_run_is_logged(target: str) -> None:
    made = lowered("lstm_3x60", target, T=5)
    program, timed = profile.instrumented(made.program)
    plain, stamped = called(made, made.program, target), called(made, program, target)
    log = stamped.pop(profile.LOG)
    for name, array in plain.items():
        np.testing.assert_array_equal(stamped[name], array)
    count = int(log[0])
    codes, stamps = log[1 : 1 + 2 * count : 2], log[2 : 2 + 2 * count : 2]
    assert codes[0] == 0 and (np.diff(stamps) >= 0).all()
    runs = np.bincount(codes, minlength=len(timed) + 1)
    assert set(runs) == {1, 5}, "once, or once for each step of the loop"
    assert count == len(log) // 2, "the log has just the room it needs"


def test_a_full_log_loses_the_rest_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_log, "ROOM", 4)
    found, steps = measured(lowered("lstm_3x60", "cpu", T=5))
    assert sum(row.times for row in found.rows) == 3
    assert found.lost == steps - 3


def test_a_log_with_room_loses_nothing() -> None:
    found, steps = measured(lowered("softmax", "cpu"))
    assert found.lost == 0 and found.calls >= 2 and found.seconds > 0
    assert [row.times for row in found.rows] == [1] * steps


def test_lines_that_share_a_kernel_share_a_row() -> None:
    launches = [s for s in lowered("digits", "cpu").program.steps if isinstance(s, Launch)]
    rows = [profile.StepTimes(step, 1, 0.25) for step in launches]
    found = dict(profile.by_line([*rows, *rows]))
    assert found == {profile.place(step.origins): 0.5 for step in launches}
    assert all(where.startswith("digits.yaml:") for where in found)


def test_places() -> None:
    here = Path("a.yaml")
    origins = [
        Origin("x", Span(here, 9, 1)),
        Origin("y", Span(here, 3, 1)),
        Origin("z", Span(here, 9, 4)),
        Origin("w"),
    ]
    assert profile.place(origins) == "a.yaml:3,9 w"
    assert profile.place([]) == "the compiler"


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_parts_of_launches_lie_in_their_steps(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every thread's parts lie within the step that they are parts of, and one thread runs one at a
    time.
    """
    made = lower(
        specialized(load(SPECS / "mul_add_reduce.yaml")), find(target).target(Request(threads=2))
    )
    found = profile.take(
        made, find(target), [np.ones(s.shape, s.dtype.numpy) for s in made.program.inputs], 0.01
    )
    steps = [e for e in found.events if not e.part]
    parts = [e for e in found.events if e.part]
    assert found.lost_parts == 0 and bool(parts) == (target == "cpu")
    assert {e.thread for e in steps} == {0} and {e.thread for e in parts} <= {0, 1}
    tick = 1e-9
    for event in parts:
        assert any(
            s.row == event.row
            and s.start - tick <= event.start
            and event.start + event.seconds <= s.start + s.seconds + tick
            for s in steps
        )
    for thread in {e.thread for e in parts}:
        mine = sorted((e for e in parts if e.thread == thread), key=lambda e: e.start)
        assert all(a.start + a.seconds <= b.start + tick for a, b in pairwise(mine))


def test_the_trace_is_of_the_median_call() -> None:
    """Neither of the last call nor of the slowest; the parts of each thread have a track."""
    step = next(s for s in lowered("softmax", "cpu").program.steps if isinstance(s, Launch))
    here, other = threading.get_ident(), 77
    logs = []
    for took in (30, 10, 20, 900, 40):  # ticks of a call, one after another
        begin = 1000 * len(logs)
        head = [2, 0, begin, 1, begin + took]
        logs.append(
            np.array(
                [*head, 2, here, begin + 1, begin + took // 2, other, begin + 2, begin + took],
                np.int64,
            )
        )
    calls = iter([logs[0], *logs])
    clock = iter([0.0, *(float(i) for i in range(1, 20))])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profile.time, "perf_counter", lambda: next(clock))
        found = profile.measure(lambda: {profile.LOG: next(calls)}, (step,), 8.5, parts=7)
    assert found.calls == 5
    whole, mine, theirs = found.events
    assert whole.seconds / found.rows[0].seconds == pytest.approx(1), "the median of the calls"
    rate = whole.seconds / 30
    assert (mine.thread, mine.part, mine.seconds) == (0, True, pytest.approx(14 * rate))
    assert (theirs.thread, theirs.part, theirs.start) == (1, True, pytest.approx(2 * rate))
    told = profile.chrome_trace(found, "m")["traceEvents"]
    assert {e["tid"]: e["args"]["name"] for e in told if e["name"] == "thread_name"} == {
        0: "steps (the calling thread)",
        1: "thread 1",
    }
    assert [(e["tid"], e["cat"]) for e in told if e["ph"] == "X"] == [
        (0, "kernel"),
        (0, "part"),
        (1, "part"),
    ]


def test_parts_without_room_are_counted() -> None:
    log = np.array([1, 0, 5, 3, 77, 6, 7, 0], np.int64)
    found = StampLog.of(log, 5)
    assert len(found.parts) == 1 and found.lost_parts == 2


def test_the_c_target_is_refused() -> None:
    made = lowered("softmax", "c")
    program, _ = profile.instrumented(made.program)
    with pytest.raises(UnsupportedError, match="XL5021"):
        find("c").emit(program, made.target)


def test_a_log_of_another_type_is_a_bug() -> None:
    made = lowered("softmax", "cpu")
    program, _ = profile.instrumented(made.program)
    log = program.outputs[-1]
    other = Slot(log.name, log.symbol, made.program.outputs[0].dtype, log.shape, Role.OUTPUT)
    steps = tuple(
        replace(s, log=Argument(other)) if isinstance(s, Stamp) else s for s in program.steps
    )
    changed = replace(
        program,
        steps=steps,
        outputs=(*made.program.outputs, other),
        slots=(*made.program.slots, other),
    )
    with pytest.raises(VerifyError, match="not i64"):
        verify_program(changed)


def test_command(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    quick = ["profile", str(SPECS / "digits.yaml"), "--seconds", "0.01"]
    told = CliRunner().invoke(root, [*quick, "--trace", str(trace)])
    assert told.exit_code == 0, told.output
    assert "digits.yaml:15,16" in told.output and "dot_0" in told.output
    kernels = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"]
    assert {e["name"] for e in kernels} >= {"dot_0", "dot_1"}
    assert all(e["dur"] >= 0 and e["ts"] >= 0 and e["args"]["where"] for e in kernels)
    found = json.loads(CliRunner().invoke(root, [*quick, "--json"]).stdout)
    assert {k["kernel"] for k in found["kernels"]} == {e["name"] for e in kernels}
