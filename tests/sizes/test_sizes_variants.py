"""Variants of one program for chosen sizes: they are what runs, they say what static programs say,
and nothing is there twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_sizes_models import SPECS, arrays, check, model, named

import xlac
from xlac import api, driver
from xlac.cache import compilations
from xlac.debug import profile
from xlac.frontends.loader import load
from xlac.model import Model
from xlac.options import CompileOptions
from xlac.program_variants import Variant, merged, own
from xlac_sdk.host.registry import find
from xlac_sdk.programs.fingerprint import fingerprint
from xlac_sdk.programs.program import Choice, Program, Role, walk
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.source import SourceError
from xlac_sdk.target import Request

TARGETS = ("cpu", "c", "reference")
VARIANTS: dict[str, list[dict[str, int]]] = {
    "digits": [{"batch": 1}, {"batch": 32}],
    "loop_scan": [{"T": 1}, {"T": 9}],
    "lstm_3x60": [{"B": 1, "T": 8}, {"B": 2}],
    "bert_layer": [{"batch": 2, "sequence": 9}, {"sequence": 16}],
    "gpt2_decode": [{"batch": 1}, {"batch": 3, "past": 20}],
}  # fmt: skip


def compiled(opened: Model, target: str, variants: Sequence[Mapping[str, int]] = ()) -> Any:
    return api.compile(opened, target, sizes="symbolic", variants=variants)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.sampled(6)
def test_a_variant_says_what_the_static_program_says_to_the_bit(name: str, target: str) -> None:
    opened, variants = model(name), VARIANTS[name]
    program, general = compiled(opened, target, variants), compiled(opened, target)
    smallest = {n: min(s.max, 5) for n, s in opened.dims.items()}
    for sizes in (*variants, {}):
        inputs = arrays(driver.specialized(opened, {**smallest, **sizes}))
        fixed = driver.fixed(opened, sizes)  # what a variant leaves open is open here too
        right = compiled(fixed, target) if sizes else general
        want = named(right(**inputs), right.outputs)
        for label, got in named(program(**inputs), program.outputs).items():
            np.testing.assert_array_equal(got, want[label], err_msg=f"{label} with {sizes}")
        for label, got in named(general(**inputs), program.outputs).items():
            np.testing.assert_allclose(
                got, want[label], rtol=1e-4, atol=1e-5, err_msg=f"{label} with {sizes}"
            )


@pytest.mark.parametrize("name", VARIANTS)
def test_any_sizes_are_right(name: str) -> None:
    opened = model(name)
    program = compiled(opened, "cpu", VARIANTS[name])
    for sizes in VARIANTS[name]:
        for step in (-1, 0, 1):
            values = {
                n: min(max(sizes.get(n, 3) + step, s.min), s.max) for n, s in opened.dims.items()
            }
            check(program, opened, values)


def test_threads_divide_the_work_of_a_variant() -> None:
    params = {"hidden": 256, "heads": 4, "ffn": 512}
    opened = load(SPECS / "bert_layer.yaml", params=params)
    sizes = {"batch": 2, "sequence": 64}
    program = api.compile(opened, "cpu", sizes="symbolic", variants=[sizes], threads=2)
    right = api.compile(driver.specialized(opened, sizes), "cpu")
    inputs = arrays(driver.specialized(opened, sizes))
    for _ in range(20):
        for label, got in named(program(**inputs), program.outputs).items():
            np.testing.assert_allclose(
                got, named(right(**inputs), right.outputs)[label], rtol=1e-5, atol=1e-5
            )


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
state: {kept: {type: 'f32[n, 4]', next: total}}
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


@pytest.mark.parametrize("name", VARIANTS)
def test_nothing_is_there_twice(name: str) -> None:
    facts = find("cpu").target(Request())
    general = driver.lower(model(name), facts).program
    program = driver.lower(model(name), facts, variants=VARIANTS[name]).program
    constants = [
        fingerprint(program.constants[s.symbol]) for s in program.slots if s.role is Role.CONSTANT
    ]
    assert len(constants) == len(set(constants))
    names = [kernel.name for kernel in program.kernels]
    assert len(names) == len(set(names))
    assert [s for s in program.slots if s.role is not Role.TEMPORARY][
        : len(program.inputs)
    ] == list(program.inputs)
    assert program.state_bytes == general.state_bytes and program.arena_bytes >= general.arena_bytes
    told = list(own(program))
    assert [one.title for one in told] == [
        ", ".join(f"{n}={v}" for n, v in sizes.items()) for sizes in VARIANTS[name]
    ]
    before, after = (
        sum(s.nbytes for s in p.slots if s.role is Role.CONSTANT) for p in (general, program)
    )
    assert after - before <= sum(one.weights for one in told)


def test_kernels_of_equal_groups_are_shared() -> None:
    """A layer whose sizes a variant leaves as they are has the general program's kernels."""
    opened = model("lstm_3x60")
    program = driver.lower(
        opened, find("cpu").target(Request()), variants=[{"B": 1, "T": 8}, {"B": 1, "T": 9}]
    ).program
    first, second = (one.kernels for one in own(program))
    assert len(program.kernels) < first + second + len(
        driver.lower(opened, find("cpu").target(Request())).program.kernels
    )


@pytest.mark.parametrize(
    ("variants", "told"),
    [
        ([{"batch": 1}, {"batch": 1}], "batch=1 is asked for twice"),
        ([{"bach": 1}], "'bach' is no open size"),
        ([{"batch": 0}], "batch = 0 is not 1 to 512"),
        ([{"batch": 513}], "batch = 513 is not 1 to 512"),
        ([{"batch": -(10**30)}], "no call has it"),
        ([{"batch": True}], "is no size"),
        ([{"batch": 1.0}], "is no size"),
        ([{"batch": "1"}], "is no size"),
        ([{"batch": None}], "is no size"),
        ([{}], "names sizes"),
        (["batch"], "names sizes"),
        ([1], "names sizes"),
        ([{"x" * 10_000: 1}], "is no open size"),
        ([{"batch": n} for n in range(1, 66)], "at most 64"),
    ],
)  # fmt: skip
def test_variants_that_cannot_be_are_refused(variants: Any, told: str) -> None:
    with pytest.raises(SourceError) as error:
        compiled(model("digits"), "cpu", variants)
    (problem,) = error.value.diagnostics
    assert problem.code == "XL4022" and told in str(problem) and len(str(problem)) < 500


def test_a_variant_that_never_runs_is_refused() -> None:
    with pytest.raises(
        SourceError, match="batch=1,past=4 never runs: batch=1 takes its calls"
    ) as error:
        compiled(model("gpt2_decode"), "cpu", [{"batch": 1}, {"batch": 1, "past": 4}])
    assert error.value.diagnostics[0].hint == "give it first"
    compiled(model("gpt2_decode"), "reference", [{"batch": 1, "past": 4}, {"batch": 1}])


def test_a_variant_keeps_what_sizes_must_be(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(
        "xlac: 1\nmodel: m\ndims: {n: {min: 4, max: 16, multiple_of: 4}}\ninputs: {x: 'f32[n]'}\ngraph: {y: x + 1}\noutputs: [y]\n"
    )
    with pytest.raises(SourceError, match="n = 6 is not 4 to 16 and a multiple of 4"):
        xlac.compile(file, sizes="symbolic", variants=[{"n": 6}])
    with pytest.raises(SourceError, match="variants are parts of one program for all sizes"):
        xlac.compile(file, variants=[{"n": 8}])
    program = xlac.compile(file, sizes="symbolic", variants=[{"n": np.int64(8)}])
    assert program(np.zeros(8, np.float32)).tolist() == [1] * 8


def test_compilations_are_kept_by_their_variants(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("xlac: 1\n")
    backend = find("cpu")

    def asked(*variants: Any) -> str | None:
        return compilations.question(
            file, backend, CompileOptions(sizes="symbolic", variants=variants)
        )

    keys = [
        asked(),
        asked({"n": 1}),
        asked({"n": 2}),
        asked({"n": 1}, {"n": 2}),
        asked({"n": 2}, {"n": 1}),
    ]
    assert None not in keys and len(set(keys)) == len(keys)
    assert asked(5) is None
