"""Shipped models in stages on several targets give what one program gives."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from placed import assert_equal, drawn_places, placed, random_inputs
from shipped import MODELS

from xlac.api import compile
from xlac.driver import specialized
from xlac.frontends.loader import load
from xlac.model import Model

LARGE = ("resnet50", "mobilenet_v2", "bert_layer")  # minutes where kernels are interpreted
TARGETS = {
    "cpu-c": ["cpu", "c"],
    "cpu-reference": ["cpu", "reference"],
    "c-reference": ["c", "reference"],
    "all": ["cpu", "c", "reference"],
}


@cache
def single(file: Any) -> tuple[Model, Any]:
    """A model of fixed sizes, and its one program for cpu."""
    model = replace(specialized(load(file)), allow_kernels=False)
    return model, compile(model)


@pytest.mark.sampled(64)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("targets", TARGETS)
@pytest.mark.parametrize("file", MODELS, ids=lambda file: file.stem)
def test_a_model_in_random_stages(file: Any, targets: str, seed: int) -> None:
    if file.stem in LARGE and "reference" in TARGETS[targets]:
        pytest.skip("minutes: its kernels would be interpreted")
    model, program = single(file)
    program.reset()
    ours = placed(model, drawn_places(model, TARGETS[targets], seed))
    for call in range(3 if model.state else 1):
        assert_equal(ours, program, random_inputs(model, 10 * seed + call))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", ["bert_layer", "gpt2_decode", "digits", "lstm_3x60"])
@pytest.mark.parametrize("seed", range(4))
def test_one_program_of_a_stage_serves_all_sizes(name: str, seed: int) -> None:
    (file,) = (file for file in MODELS if file.stem == name)
    model = load(file)
    if name == "bert_layer":
        model = load(file, dims={"sequence": "1..16", "batch": "1..4"})
    ours = placed(model, drawn_places(model, ["cpu", "c"], seed), sizes="symbolic")
    for number in (1, 2, 3):
        sizes = {one: min(number, symbol.max) for one, symbol in model.dims.items()}
        fixed = specialized(model, sizes)
        assert_equal(ours, compile(fixed), random_inputs(fixed, number))
    assert ours.program.sizes
