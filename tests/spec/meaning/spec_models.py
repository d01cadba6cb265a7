"""Specs written in tests: what they mean, and the codes with which they are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlac.ir.interpret import interpret
from xlac.ir.op import Array
from xlac.ir.verify import verify
from xlac.model import Model
from xlac.spec.load import load
from xlac_sdk.source import SourceError


def model(folder: Path, text: str, **options: Any) -> Model:
    file = folder / "model.yaml"
    file.write_text("xlac: 1\n" + text)
    found = load(file, **options)
    verify(found.graph)
    return found


def run(found: Model, **inputs: Any) -> dict[str, Array]:
    return interpret(found.graph, inputs, found.weights)


def codes(folder: Path, text: str, **options: Any) -> list[str]:
    with pytest.raises(SourceError) as caught:
        model(folder, text, **options)
    return [d.code for d in caught.value.diagnostics]


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
