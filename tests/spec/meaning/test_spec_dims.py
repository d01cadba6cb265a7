"""Sizes that stay open, are fixed, narrowed or out of bounds; parameters of the file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spec_models import codes, model, run

DIMS = (
    "dims: {B: {min: 2, max: 64, opt: 8, multiple_of: 2}, N: 3}\nparams: {w: 4, wide: '${2 * "
    "w}'}\ninputs: {x: 'f32[B, N, $wide]'}\ngraph: {y: x + 1}\noutputs: [y]\n"
)


def test_dims_stay_symbolic(tmp_path: Path) -> None:
    found = model(tmp_path, DIMS)
    assert str(found.graph.inputs[0].type) == "f32[B, 3, 8]"
    symbol = found.dims["B"]
    assert (symbol.min, symbol.max, symbol.opt, symbol.multiple_of) == (2, 64, 8, 2)


@pytest.mark.parametrize("value", [6, "6", (6, 6), "6..6"])
def test_dims_are_fixed(value: Any, tmp_path: Path) -> None:
    found = model(tmp_path, DIMS, dims={"B": value})
    assert found.graph.inputs[0].shape == (6, 3, 8) and not found.dims


def test_dims_are_narrowed(tmp_path: Path) -> None:
    symbol = model(tmp_path, DIMS, dims={"B": "10..21"}).dims["B"]
    assert (symbol.min, symbol.max, symbol.opt) == (10, 21, 10)
    assert model(tmp_path, DIMS, dims={"N": 7}).graph.inputs[0].shape[1] == 7


@pytest.mark.parametrize(
    "dims",
    [
        {"B": 5},
        {"B": 66},
        {"B": "1..4"},
        {"B": "8..4"},
        {"B": "many"},
        {"C": 3},
        {"B": 0},
        {"N": "1..3"},
        {"B": -2},
    ],
)
def test_dims_out_of_bounds(dims: Mapping[str, Any], tmp_path: Path) -> None:
    assert codes(tmp_path, DIMS, dims=dims) == ["XL2014"]


def test_a_range_without_a_multiple_is_refused(tmp_path: Path) -> None:
    text = (
        "dims: {n: {min: 2, max: 64, opt: 8, multiple_of: 4}}\ninputs: {x: 'f32[n]'}\ngraph: "
        "{y: x + 1}\noutputs: [y]\n"
    )
    assert codes(tmp_path, text, dims={"n": "5..7"}) == ["XL2014"]
    assert model(tmp_path, text, dims={"n": "5..9"}).dims["n"].opt == 8


def test_params_are_overridden(tmp_path: Path) -> None:
    assert model(tmp_path, DIMS, params={"w": 5}).graph.inputs[0].shape[2] == 10
    assert codes(tmp_path, DIMS, params={"v": 5}) == ["XL2015"]
    assert codes(tmp_path, DIMS, params={"w": "five"}) == ["XL2015"]


def test_zero_sizes(tmp_path: Path) -> None:
    found = model(
        tmp_path,
        "dims: {B: {min: 0, max: 4}}\ninputs: {x: 'f32[B, 0, 3]'}\ngraph: {y: softmax(x, "
        "axis=-1)}\noutputs: [y]\n",
        dims={"B": 0},
    )
    assert run(found, x=np.zeros((0, 0, 3), np.float32))["y"].shape == (0, 0, 3)
