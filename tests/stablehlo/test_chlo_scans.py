"""`chlo.scan` and `chlo.ragged_dot`, which no other dialect has, against NumPy."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from programs import main, one, results

from xlac.frontends.stablehlo import load
from xlac.ir.op import Array
from xlac_sdk.source import SourceError

RNG = np.random.default_rng(4)
X = RNG.normal(size=(3, 4)).astype(np.float32)
FIRST = RNG.normal(size=3).astype(np.float32)
COMBINATIONS = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "subtract": np.subtract,
}


def scan(body: str, attributes: str) -> str:
    wide, slice = "tensor<3x4xf32>", "tensor<3xf32>"
    return main(
        [wide, slice],
        [wide, slice],
        f"""    %0:2 = chlo.scan(%arg0) inits (%arg1) dimension=1  attributes {{{attributes}}} {{
    ^bb0(%input: {slice}, %carry: {slice}):
{body}
    }} : ({wide}, {slice}) -> ({wide}, {slice})
    return %0#0, %0#1 : {wide}, {slice}""",
    )


def running(function: Any, reverse: bool) -> tuple[Array, Array]:
    found, carry = np.zeros_like(X), FIRST
    for step in reversed(range(4)) if reverse else range(4):
        carry = function(X[:, step], carry)
        found[:, step] = carry
    return found, carry


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("associative", [False, True])
@pytest.mark.parametrize("name", COMBINATIONS)
def test_scans_of_one_operation(name: str, associative: bool, reverse: bool) -> None:
    body = f"""      %1 = stablehlo.{name} %input, %carry : tensor<3xf32>
      stablehlo.return %1, %1 : tensor<3xf32>, tensor<3xf32>"""
    said = [f"is_associative = {'true' if associative else 'false'}"]
    text = scan(body, ", ".join([*said, "is_reverse = true"] if reverse else said))
    for found, wanted in zip(
        results(text, X, FIRST), running(COMBINATIONS[name], reverse), strict=True
    ):
        np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)
    kinds = {type(node.op).__name__ for node in load(text).graph.nodes()}
    assert ("Cumulative" if associative and name != "subtract" else "Scan") in kinds


def test_a_scan_gives_other_values_than_it_carries_and_uses_values_from_outside() -> None:
    body = """      %1 = stablehlo.multiply %input, %arg1 : tensor<3xf32>
      %2 = stablehlo.add %carry, %input : tensor<3xf32>
      stablehlo.return %1, %2 : tensor<3xf32>, tensor<3xf32>"""
    found, carry = results(scan(body, "is_associative = true"), X, FIRST)
    np.testing.assert_allclose(found, X * FIRST[:, None], 1e-6)
    np.testing.assert_allclose(carry, FIRST + X.sum(1), 1e-5)


def test_a_scan_of_so_many_steps_without_inputs() -> None:
    text = main(
        ["tensor<3xf32>"],
        ["tensor<3x5xf32>", "tensor<3xf32>"],
        """    %0:2 = chlo.scan() inits (%arg0) dimension=1  attributes {scan_dim_size = 5 : i64} {
    ^bb0(%carry: tensor<3xf32>):
      %1 = stablehlo.add %carry, %carry : tensor<3xf32>
      stablehlo.return %carry, %1 : tensor<3xf32>, tensor<3xf32>
    } : (tensor<3xf32>) -> (tensor<3x5xf32>, tensor<3xf32>)
    return %0#0, %0#1 : tensor<3x5xf32>, tensor<3xf32>""",
    )
    found, carry = results(text, FIRST)
    np.testing.assert_allclose(found, FIRST[:, None] * 2.0 ** np.arange(5), 1e-6)
    np.testing.assert_allclose(carry, FIRST * 32, 1e-6)


def test_a_scan_of_two_inputs_and_complex_numbers_in_generic_form() -> None:
    wide, value = "tensor<4xcomplex<f32>>", "tensor<complex<f32>>"
    text = main(
        ["tensor<4x2xf32>", wide],
        [wide],
        f"""    %first = stablehlo.constant dense<(1.0, 0.0)> : {value}
    %0:2 = "chlo.scan"(%arg0, %arg1, %first) <{{dimension = 0 : i64,
      operandSegmentSizes = array<i32: 2, 1>, resultSegmentSizes = array<i32: 1, 1>}}> ({{
    ^bb0(%a: tensor<2xf32>, %b: {value}, %carry: {value}):
      %1 = stablehlo.multiply %b, %carry : {value}
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %2 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<2xf32>, tensor<f32>) -> tensor<f32>
      %3 = stablehlo.complex %2, %2 : {value}
      %4 = stablehlo.add %1, %3 : {value}
      stablehlo.return %4, %1 : {value}, {value}
    }}) : (tensor<4x2xf32>, {wide}, {value}) -> ({wide}, {value})
    return %0#0 : {wide}""",
    )
    a = RNG.normal(size=(4, 2)).astype(np.float32)
    b = RNG.normal(size=(4, 2)).astype(np.float32)
    wanted = np.cumprod(b[:, 0] + 1j * b[:, 1]) + a.sum(1) * (1 + 1j)
    found = one(text, a, b)
    np.testing.assert_allclose(found[:, 0] + 1j * found[:, 1], wanted, 1e-5)


WRONG = {
    ("dimension=1", "dimension=7"): "is not an axis",
    ("inits (%arg1)", "inits (%arg1, %arg1)"): "the body of scan takes",
    ("scan(%arg0)", "scan(%arg0, %arg1)"): "is not an axis",
    ("return %input, %carry : tensor<3xf32>, ", "return %input : "): "gives 1 tensors, not 2",
}


@pytest.mark.parametrize("change", WRONG, ids=str)
def test_scans_that_do_not_fit_are_refused(change: tuple[str, str]) -> None:
    body = "      stablehlo.return %input, %carry : tensor<3xf32>, tensor<3xf32>"
    text = scan(body, "").replace(*change)
    with pytest.raises(SourceError, match=WRONG[change]) as caught:
        load(text)
    assert caught.value.diagnostics[0].span


# ---- products of groups --------------------------------------------------------------------------

SIZES = np.array([2, 0, 3], np.int32)


def ragged(takes: list[str], gives: str, numbers: str) -> str:
    return main(
        takes,
        [gives],
        f"""    %0 = "chlo.ragged_dot"(%arg0, %arg1, %arg2) <{{
      precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>],
      ragged_dot_dimension_numbers = #chlo.ragged_dot<{numbers}>}}>
      : ({", ".join(takes)}) -> {gives}
    return %0 : {gives}""",
    )


ROWS = (
    "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], "
    "lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]"
)
SUMMED = (
    "lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0], "
    "lhs_ragged_dimensions = [0]"
)


def bounds(sizes: Array) -> list[tuple[int, int]]:
    return list(pairwise([0, *np.cumsum(sizes).tolist()]))


def test_rows_by_the_matrix_of_their_group() -> None:
    x = RNG.normal(size=(6, 4)).astype(np.float32)
    y = RNG.normal(size=(3, 4, 5)).astype(np.float32)
    y[1] = np.inf  # the matrix of no row
    takes = ["tensor<6x4xf32>", "tensor<3x4x5xf32>", "tensor<3xi32>"]
    found = one(ragged(takes, "tensor<6x5xf32>", ROWS), x, y, SIZES)
    wanted = np.zeros((6, 5), np.float32)  # the last row is in no group
    for group, (start, end) in enumerate(bounds(SIZES)):
        wanted[start:end] = x[start:end] @ y[group]
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)


def test_a_product_for_each_group_of_a_summed_axis() -> None:
    x = RNG.normal(size=(6, 4)).astype(np.float32)
    y = RNG.normal(size=(6, 5)).astype(np.float32)
    x[5] = np.inf  # in no group
    takes = ["tensor<6x4xf32>", "tensor<6x5xf32>", "tensor<3xi32>"]
    found = one(ragged(takes, "tensor<3x4x5xf32>", SUMMED), x, y, SIZES)
    wanted = np.stack([x[start:end].T @ y[start:end] for start, end in bounds(SIZES)])
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)


def test_groups_of_their_own_for_each_of_a_batch() -> None:
    x = RNG.normal(size=(6, 2, 4)).astype(np.float32)
    y = RNG.normal(size=(3, 2, 5, 4)).astype(np.float32)
    sizes = np.array([[1, 2, 3], [4, 0, 1]], np.int32)
    numbers = (
        "lhs_batching_dimensions = [1], rhs_batching_dimensions = [1], "
        "lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [3], "
        "lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]"
    )
    takes = ["tensor<6x2x4xf32>", "tensor<3x2x5x4xf32>", "tensor<2x3xi32>"]
    found = one(ragged(takes, "tensor<2x6x5xf32>", numbers), x, y, sizes)
    wanted = np.zeros((2, 6, 5), np.float32)
    for batch in range(2):
        for group, (start, end) in enumerate(bounds(sizes[batch])):
            wanted[batch, start:end] = x[start:end, batch] @ y[group, batch].T
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)


def test_a_ragged_batch_is_a_product() -> None:
    x = RNG.normal(size=(3, 2, 4)).astype(np.float32)
    y = RNG.normal(size=(3, 4, 5)).astype(np.float32)
    numbers = (
        "lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], "
        "lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1], "
        "lhs_ragged_dimensions = [0]"
    )
    takes = ["tensor<3x2x4xf32>", "tensor<3x4x5xf32>", "tensor<2xi32>"]
    found = one(ragged(takes, "tensor<3x2x5xf32>", numbers), x, y, np.array([1, 2], np.int32))
    np.testing.assert_allclose(found, x @ y, 1e-5, 1e-6)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        (ROWS.replace("lhs_ragged_dimensions = [0], ", ""), "ragged"),
        (ROWS.replace("ragged_dimensions = [0]", "ragged_dimensions = [9]"), "ragged"),
        (ROWS.replace(", rhs_group_dimensions = [0]", ""), "axes of groups"),
        (ROWS.replace("group_dimensions = [0]", "group_dimensions = [1]"), "invalid|not in"),
    ],
)
def test_ragged_products_that_do_not_fit_are_refused(numbers: str, said: str) -> None:
    takes = ["tensor<6x4xf32>", "tensor<3x4x5xf32>", "tensor<3xi32>"]
    with pytest.raises(SourceError, match=said):
        load(ragged(takes, "tensor<6x5xf32>", numbers))
