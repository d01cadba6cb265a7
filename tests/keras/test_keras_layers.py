"""Every layer that is imported computes what Keras computes: expected.npz is recorded from it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("h5py")
from keras_writer import EXPECTED, archived, names

import xlac
from xlac.frontends.keras.layers.images import RANDOM
from xlac.frontends.keras.registry import ACTIVATIONS, LAYERS, OPERATIONS
from xlac.frontends.loader import load
from xlac.ir.verify import verify

LIMIT = 2e-6  # of the largest result
WIDER = {"MelSpectrogram_default": 1e-5}
"""Keras computes its triangles of frequencies in f32, those of one or two frequencies to 3e-4."""
OF_KERAS_2 = ("LocallyConnected1D", "LocallyConnected2D", "ThresholdedReLU")
"""Their cases are in test_keras2_files.py."""
ALIKE = {
    *OF_KERAS_2, "InputLayer", "StochasticDepth", "LayerScale", "CustomScaleLayer", *RANDOM,
    *(f"Convolution{n}D" for n in (1, 2, 3)), *(f"Convolution{n}DTranspose" for n in (1, 2, 3)),
    "SeparableConvolution1D", "SeparableConvolution2D", "SpatialDropout1D", "SpatialDropout3D",
}  # fmt: skip
"""Layers that are other names, are the same function, or that only keras.applications has."""


@pytest.mark.parametrize("name", names())
@pytest.mark.sampled(12)
def test_a_layer_gives_what_keras_gives(name: str, tmp_path: Path) -> None:
    file = tmp_path / "model.keras"
    archived(name, file)
    verify(load(file).graph)
    program = xlac.compile(file, target="reference")
    inputs, outputs = (EXPECTED.part(name, side) for side in ("in", "out"))
    results: Any = program(*inputs)
    listed = list(results.values()) if isinstance(results, dict) else [results]
    for found, wanted in zip(listed, outputs, strict=True):
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(
            found, wanted, rtol=0, atol=WIDER.get(name, LIMIT) * np.abs(wanted).max(initial=1)
        )


@pytest.mark.parametrize("name", [name for name in names() if name.startswith("stateful")])
@pytest.mark.parametrize("target", ["reference", pytest.param("cpu", marks=pytest.mark.sampled(4))])
def test_states_live_on_until_they_are_reset(name: str, target: str, tmp_path: Path) -> None:
    file = tmp_path / "model.keras"
    archived(name, file)
    program = xlac.compile(file, target=target)
    inputs = EXPECTED.part(name, "in")
    for side in ("out", "again", "reset", "again"):
        if side == "reset":
            program.reset()
        results: Any = program(*inputs)
        listed = list(results.values()) if isinstance(results, dict) else [results]
        outputs = EXPECTED.part(name, "out" if side == "reset" else side)
        for found, wanted in zip(listed, outputs, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=0, atol=LIMIT)


def test_every_layer_function_and_activation_has_a_case() -> None:
    used = {
        kind
        for name in names()
        for kind in re.findall(r'"class_name": "(\w+)"', EXPECTED.text(name))
    }
    assert set(LAYERS) - ALIKE <= used
    assert set(OPERATIONS) <= used
    assert {f"Activation_{name}" for name in ACTIVATIONS} - set(names()) == {
        "Activation_threshold",
        "Activation_swish",
        "Activation_hard_swish",
    }
