"""Variants of one program for chosen sizes: they are what runs, they say what static programs say,
and nothing is there twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_sizes_models import SPECS, arrays, check, model, named
from variant_models import TARGETS, VARIANTS, compiled

import xlac
from xlac import api, driver
from xlac.cache import compilations
from xlac.frontends.loader import load
from xlac.options import CompileOptions
from xlac.program_variants import own
from xlac_sdk.host.registry import find
from xlac_sdk.programs.fingerprint import fingerprint
from xlac_sdk.programs.program import Role
from xlac_sdk.source import SourceError
from xlac_sdk.target import Request


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.sampled(32)
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
@pytest.mark.sampled(4)
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


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.sampled(2)
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
        ([{"bach": 1}], "'bach' is not an open size"),
        ([{"batch": 0}], "batch = 0 is not 1 to 512"),
        ([{"batch": 513}], "batch = 513 is not 1 to 512"),
        ([{"batch": -(10**30)}], "no call has it"),
        ([{"batch": True}], "is not a size"),
        ([{"batch": 1.0}], "is not a size"),
        ([{"batch": "1"}], "is not a size"),
        ([{"batch": None}], "is not a size"),
        ([{}], "names sizes"),
        (["batch"], "names sizes"),
        ([1], "names sizes"),
        ([{"x" * 10_000: 1}], "is not an open size"),
        ([{"batch": n} for n in range(1, 66)], "at most 64"),
    ],
)
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
        "xlac: 1\nmodel: m\ndims: {n: {min: 4, max: 16, multiple_of: 4}}\ninputs: {x: "
        "'f32[n]'}\ngraph: {y: x + 1}\noutputs: [y]\n"
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
