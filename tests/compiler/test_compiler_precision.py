"""`precision: fast` reaches the code that backends write, and keeps within what it promises."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from xlac.compiler import executable, lower
from xlac.sources import load
from xlac_sdk.registry import find
from xlac_sdk.target import Request

SPEC = "xlac: 1\nmodel: waves\ninputs: {x: 'f32[64]'}\ngraph: {y: sin(x) + cos(x)}\noutputs: [y]\n"


def test_backends_are_told(tmp_path: Path) -> None:
    """cpu and c write other code for it: sin and cos without the reduction of huge arguments."""
    spec = tmp_path / "waves.yaml"
    spec.write_text(SPEC)
    for name in ("cpu", "c"):
        backend = find(name)
        target = backend.target(Request())
        model = load(spec)
        texts = {
            precision: "".join(backend.emit(lower(replace(model, precision=precision), target).program, target).values())
            for precision in ("default", "fast")
        }
        assert lower(model, target).program.facts["precision"] == "default"
        if name == "cpu":  # the C library has sin and cos of its own
            assert texts["default"] != texts["fast"]
            assert len(texts["fast"]) < len(texts["default"])


@pytest.mark.parametrize("precision", ["default", "fast"])
@pytest.mark.parametrize("name", ["cpu", "c", "reference"])
def test_both_keep_their_bounds(tmp_path: Path, name: str, precision: str) -> None:
    """Within 8000 fast is as near as default; beyond, only default has to be right."""
    spec = tmp_path / "waves.yaml"
    spec.write_text(SPEC)
    backend = find(name)
    model = executable(lower(replace(load(spec), precision=precision), backend.target(Request())), backend)
    limit = 1e30 if precision == "default" else 8000.0
    signs = np.where(np.arange(64) % 2, -1, 1)
    x = (signs * np.geomspace(1e-3, limit, 64)).astype(np.float32)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(model(x), np.sin(wide) + np.cos(wide), rtol=0, atol=5e-7)
