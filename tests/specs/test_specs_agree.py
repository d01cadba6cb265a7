"""Every shipped spec, on every backend, agrees with its meaning written in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from references import REFERENCES
from shipped import MODELS

import xlac
from xlac.driver import specialized
from xlac.frontends.loader import load
from xlac.model import Model
from xlac_sdk.dtypes import DType

SPECS = Path(__file__).parents[2] / "specs"
SLOW = {"resnet50", "mobilenet_v2"}  # too many scalar steps for the interpreter inside `make test`
TARGETS = ("cpu", "c", "reference")


def inputs_of(model: Model, seed: int = 0) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    found = {}
    for node in model.inputs:
        name, dtype, shape = node.op.name, node.type.dtype, node.shape
        if dtype.is_float:
            found[name] = generator.standard_normal(shape).astype(dtype.numpy)
        elif dtype is DType.BOOL:
            found[name] = generator.integers(0, 2, shape).astype(bool)
        else:
            found[name] = generator.integers(0, 3, shape).astype(dtype.numpy)
    if "mask" in found:
        found["mask"][..., 120:] = -10000
        found["mask"][..., :120] = 0
    if model.name == "loop_while":
        found["x"] = np.abs(found["x"]) + np.float32(0.01)
    return found


def wide(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {
        k: np.asarray(v, np.float64) if np.asarray(v).dtype.kind == "f" else v
        for k, v in arrays.items()
    }


def test_every_spec_has_a_reference() -> None:
    assert {p.stem for p in MODELS} == set(REFERENCES)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", sorted(REFERENCES))
@pytest.mark.sampled(12)
def test_spec_agrees(name: str, target: str, request: pytest.FixtureRequest) -> None:
    if target != "cpu" and name in SLOW and not request.config.getoption("--all"):
        pytest.skip("run by `make specs`, which takes minutes")
    model = specialized(load(SPECS / f"{name}.yaml"))
    inputs = inputs_of(model)
    found = xlac.compile(model, target=target)(**inputs)
    outputs = found if isinstance(found, dict) else {next(iter(model.graph.outputs)): found}
    expected = REFERENCES[name](wide(model.weights), wide(inputs))
    for key, want in expected.items():
        scale = max(1.0, float(np.abs(want).max()))
        np.testing.assert_allclose(
            outputs[key] / scale, want / scale, rtol=2e-5, atol=2e-5, err_msg=key
        )
