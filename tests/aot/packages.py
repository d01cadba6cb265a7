"""Artefacts of shipped specs, and whether they compute what the model does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import xlac
from xlac.artefact.loader import Loaded
from xlac.cli import root
from xlac.driver import specialized
from xlac.frontends.loader import load

SPECS = Path(__file__).parents[2] / "specs"


def build(spec: str | Path, folder: Path, *options: str) -> Path:
    """Builds a shipped spec, or a file, into a folder, which it returns; errors are raised."""
    file = spec if isinstance(spec, Path) else SPECS / f"{spec}.yaml"
    root.main(["build", str(file), "-o", str(folder), *options], standalone_mode=False)
    return folder


def inputs_of(model: Loaded, seed: int = 0) -> dict[str, Any]:
    """Random arrays, small for integers."""
    rng = np.random.default_rng(seed)
    found = {}
    for slot in model.program.inputs:
        if slot.dtype.is_float:
            found[slot.name] = rng.standard_normal(slot.shape).astype(slot.dtype.numpy)
        else:
            found[slot.name] = rng.integers(0, 2, slot.shape).astype(slot.dtype.numpy)
    return found


def by_name(found: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return found if isinstance(found, dict) else {names[0]: found}


def agree(spec: str, model: Loaded) -> None:
    """The artefact gives what the same model compiled in this process gives."""
    inputs = inputs_of(model)
    compiled = xlac.compile(specialized(load(SPECS / f"{spec}.yaml")), "cpu")
    for _ in range(2):  # a second time: state goes on
        ours, right = (by_name(m(**inputs), m.outputs) for m in (model, compiled))
        assert ours.keys() == right.keys()
        for name in ours:
            np.testing.assert_allclose(
                ours[name], right[name], rtol=1e-6, atol=1e-6, err_msg=f"{spec}.{name}"
            )
