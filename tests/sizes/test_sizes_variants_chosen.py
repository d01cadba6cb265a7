"""Which variant of a program runs: the first with a call's sizes, also in loops and branches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_sizes_models import model
from variant_models import TARGETS, compiled

from xlac import api, driver
from xlac.debug import profile
from xlac.frontends.loader import load
from xlac.model import Model
from xlac.program_variants import Variant, merged
from xlac_sdk.host.registry import find
from xlac_sdk.programs.program import Choice, Program, walk
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.target import Request

SCALED = """\
xlac: 1
model: scaled
dims: {n: {min: 1, max: 8}, m: {min: 0, max: 4}}
inputs: {x: 'f32[n]', other: 'f32[m]'}
graph: {y: x * FACTOR}
outputs: [y]
"""


def scaled(folder: Path, factor: int) -> Model:
    file = folder / f"times{factor}.yaml"
    file.write_text(SCALED.replace("FACTOR", str(factor)))
    return load(file)


def planted(folder: Path, target: str) -> tuple[driver.Lowered, Program]:
    """y = 2 x for any sizes, but 3 x for n = 4 and m = 2, 5 x for n = 4 and 7 x for m = 0."""
    facts = find(target).target(Request())
    whole = driver.lower(scaled(folder, 2), facts)
    sizes: list[tuple[int, dict[str, int]]] = [(3, {"n": 4, "m": 2}), (5, {"n": 4}), (7, {"m": 0})]
    others = [
        Variant(one, driver.lower(driver.fixed(scaled(folder, k), one), facts).program)
        for k, one in sizes
    ]
    return whole, merged(whole.program, others)


@pytest.mark.parametrize("target", TARGETS)
def test_the_first_variant_with_the_sizes_of_a_call_is_what_runs(
    target: str, tmp_path: Path
) -> None:
    """Variants that compute something else show which of them ran, by every way into a program."""
    whole, program = planted(tmp_path, target)
    verify_program(program)
    made = driver.executable(replace(whole, program=program), find(target))
    if target == "cpu":
        made.executable.quicken()
    for n, m, factor in (
        (4, 2, 3),
        (4, 1, 5),
        (4, 0, 5),
        (3, 0, 7),
        (3, 2, 2),
        (8, 4, 2),
        (1, 1, 2),
    ):
        x, other, y = (
            np.arange(1, n + 1, dtype=np.float32),
            np.zeros(m, np.float32),
            np.empty(n, np.float32),
        )
        np.testing.assert_array_equal(made(x, other), factor * x, err_msg=f"{n} {m}")
        made.run({"x": x, "other": other}, out={"y": y})
        np.testing.assert_array_equal(y, factor * x)
        fast = getattr(made.executable, "fast", None)
        if fast is not None:
            np.testing.assert_array_equal(fast(x, other), factor * x)


def test_stamps_tell_which_steps_ran() -> None:
    opened = model("digits")
    lowered = driver.lower(opened, find("cpu").target(Request()), variants=[{"batch": 2}])
    program, timed = profile.instrumented(lowered.program)
    made = driver.executable(replace(lowered, program=program), find("cpu"))
    (choice,) = (step for step in walk(program.steps) if isinstance(step, Choice))
    mine, others = (set(walk(path)) & set(timed) for path in choice.paths)
    assert mine and others and not mine & others
    for count, ran in ((2, mine), (3, others)):
        log = made(np.zeros((count, 64), np.float32))[profile.LOG]
        assert {timed[code - 1] for code in log[3 : 1 + 2 * log[0] : 2]} == ran


CONTROLLED = """\
xlac: 1
model: controlled
dims: {n: {min: 1, max: 9}}
inputs: {x: 'f32[n, 4]', flag: 'bool[]'}
state: {kept: {type: 'f32[4]', next: sums.so_far}}
graph:
  either:
    cond: flag
    then: {body: {m: exp(x)}, outputs: {y: m}}
    else: {outputs: {y: -x}}
  halved:
    while: (worst > 1.0) & (turns < 20)
    carry: {value: either.y, worst: {init: 9.0, type: 'f32[]'}, turns: {init: 0, type: 'i32[]'}}
    body: {half: 0.5 * value, most: reduce_max(abs(half))}
    next: {value: half, worst: most, turns: turns + 1}
  none: zeros([4])
  sums:
    scan: {row: halved.value}
    carry: {so_far: none}
    body: {more: so_far + row}
    next: {so_far: more}
    stack: {history: more}
  total: kept + sums.history
outputs: {y: total}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_loops_branches_and_state_go_through_variants(target: str, tmp_path: Path) -> None:
    """State goes on from one call to the next whichever steps ran: here those for 3 rows, then
    those for any.
    """
    file = tmp_path / "controlled.yaml"
    file.write_text(CONTROLLED)
    opened = load(file)
    program, general = compiled(opened, target, [{"n": 3}]), compiled(opened, target)
    static = api.compile(load(file, dims={"n": 3}), target)
    rng = np.random.default_rng(0)
    for flag in (True, False, True):
        x = rng.standard_normal((3, 4)).astype(np.float32)
        got = program(x, np.bool_(flag))
        np.testing.assert_array_equal(got, static(x, np.bool_(flag)))
        np.testing.assert_allclose(got, general(x, np.bool_(flag)), rtol=1e-5, atol=1e-6)
    smaller = rng.standard_normal((2, 4)).astype(np.float32)
    np.testing.assert_allclose(
        program(smaller, np.bool_(True)), general(smaller, np.bool_(True)), rtol=1e-5, atol=1e-6
    )
    program.reset()
    static.reset()
    np.testing.assert_array_equal(program(x, np.bool_(True)), static(x, np.bool_(True)))
