"""Every operator of TensorFlow Lite beside the reference kernels, whose results expected.npz has:
floats within 2e-6 of the largest, integers equal. Random networks amplify a single step that an
operator is off to tens of steps.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from record import ABSENT, EXPECTED, OTHERS
from tflite_case import Array, Case
from tflite_cases import cases

import xlac
import xlac.frontends.tflite.ops
from xlac.frontends.loader import load
from xlac.frontends.produced import produced
from xlac.frontends.tflite.produced import PRODUCED
from xlac.frontends.tflite.registry import OPERATORS

CASES = {case.name: case for case in cases()}
COMPARED = sorted(set(CASES) - ABSENT - OTHERS)


@cache
def recorded() -> dict[str, Array]:
    """What the reference kernels gave."""
    with np.load(EXPECTED) as file:
        return dict(file)


def run(case: Case, target: str, folder: Path, *inputs: Array) -> list[Array]:
    """What we give for a case, for its own inputs unless some are given."""
    file = folder / "model.tflite"
    file.write_bytes(case.file())
    program = xlac.compile(file, target=target)
    results: list[Array] = []
    for _ in range(case.calls):
        found: Any = program(*(inputs or case.inputs()))
        results += found.values() if isinstance(found, dict) else [found]
    return results


def check(case: Case, found: list[Array]) -> None:
    """Compares results with those recorded."""
    assert len(found) == len(case.graph.outputs) * case.calls
    for number, array in enumerate(found):
        wanted = recorded()[f"{case.name}/{number}"]
        assert (array.shape, array.dtype) == (wanted.shape, wanted.dtype)
        if wanted.dtype.kind == "f":
            limit = 2e-6 * np.abs(wanted).max(initial=1e-6)
            np.testing.assert_allclose(array, wanted, rtol=0, atol=limit)
            continue
        np.testing.assert_array_equal(array, wanted)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("name", COMPARED)
def test_operators_are_as_the_reference_kernels(name: str, tmp_path: Path) -> None:
    check(CASES[name], run(CASES[name], "reference", tmp_path))


@pytest.mark.sampled(80)
@pytest.mark.parametrize("target", ["cpu", "c"])
@pytest.mark.parametrize("name", COMPARED)
def test_compiled_operators_are_too(name: str, target: str, tmp_path: Path) -> None:
    check(CASES[name], run(CASES[name], target, tmp_path))


def real(name: str) -> list[Array]:
    """The operands of a case, constants too, as the numbers that they stand for."""
    case, inputs = CASES[name], iter(CASES[name].inputs())
    operands = []
    for number in case.graph.operators[0][2]:
        if number < 0:
            continue
        tensor = case.graph.tensors[number]
        array = next(inputs) if tensor.value is None else np.asarray(tensor.value)
        operands.append(array if tensor.scale is None else array * np.float32(tensor.scale))
    return operands


def test_response_normalization_has_all_channels_of_its_window(tmp_path: Path) -> None:
    (x,) = real("LOCAL_RESPONSE_NORMALIZATION")
    sums = sum(np.pad(x**2, [(0, 0)] * 3 + [(2, 2)])[..., n : n + 9] for n in range(5))
    (found,) = run(CASES["LOCAL_RESPONSE_NORMALIZATION"], "cpu", tmp_path)
    np.testing.assert_allclose(found, x * (1 + 0.4 * sums) ** -0.6, rtol=2e-6)


def test_dynamic_range_weights_meet_unrounded_inputs(tmp_path: Path) -> None:
    x, weight, bias = real("FULLY_CONNECTED_dynamic")
    (found,) = run(CASES["FULLY_CONNECTED_dynamic"], "cpu", tmp_path)
    np.testing.assert_allclose(found, x @ weight.T + bias, rtol=0, atol=2e-6 * 9)


@pytest.mark.parametrize("alike", [False, True])
def test_signed_sums_are_those_of_unsigned_integers(alike: bool, tmp_path: Path) -> None:
    """int8 and its zero points plus 128 are uint8, whose sums are as the reference kernels'."""
    bytes_of = CASES[f"SUM_u8_{alike}"].graph
    tensors = [
        replace(t, dtype="i8", zero=t.zero - 128) if t.dtype == "u8" else t
        for t in bytes_of.tensors
    ]
    (x,) = CASES[f"SUM_u8_{alike}"].inputs()
    (found,) = run(
        Case("signed", replace(bytes_of, tensors=tensors)),
        "cpu",
        tmp_path,
        (x.astype(np.int16) - 128).astype(np.int8),
    )
    np.testing.assert_array_equal(found + np.int16(128), recorded()[f"SUM_u8_{alike}/0"])
    (x,) = real(f"SUM_i16_{alike}")[:1]
    (words,) = run(CASES[f"SUM_i16_{alike}"], "cpu", tmp_path)
    scale = CASES[f"SUM_i16_{alike}"].graph.tensors[-1].scale
    wanted = np.clip(np.round(x.sum(1, dtype=np.float64) / scale), -32768, 32767)
    assert np.abs(words.reshape(-1) - wanted).max() <= 1


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("BROADCAST_TO", lambda x, shape: np.broadcast_to(x, shape)),
        ("CALL", np.negative),
        ("CEIL", np.ceil),
        ("ELU", lambda x: np.where(x > 0, x, np.expm1(x))),
        ("ROUND", np.rint),
        ("SEGMENT_SUM", lambda x, ids: np.stack([x[ids == n].sum(0) for n in range(4)])),
    ],
)
def test_operators_that_litert_lacks(name: str, meaning: Any, tmp_path: Path) -> None:
    (found,) = run(CASES[name], "cpu", tmp_path)
    np.testing.assert_allclose(found, meaning(*real(name)), rtol=2e-6, atol=1e-7)


def test_every_operator_has_a_case() -> None:
    graphs = [graph for case in CASES.values() for graph in (case.graph, *case.others)]
    tried = {operator[0] for graph in graphs for operator in graph.operators}
    assert tried == set(OPERATORS)


def test_every_declared_operation_is_made_and_no_other(tmp_path: Path) -> None:
    made: set[str] = set()
    for case in CASES.values():
        file = tmp_path / "model.tflite"
        file.write_bytes(case.file())
        made |= produced(load(file).graph)
    assert sorted(made) == sorted(PRODUCED)
