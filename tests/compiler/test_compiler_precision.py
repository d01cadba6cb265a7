"""`precision: fast` reaches the code that backends write, and keeps within what it promises."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.cli import status
from xlac.driver import executable, lower
from xlac.frontends.loader import load
from xlac_sdk.host.registry import find
from xlac_sdk.source import SourceError
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
            precision: "".join(
                backend.emit(
                    lower(replace(model, precision=precision), target).program, target
                ).values()
            )
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
    model = executable(
        lower(replace(load(spec), precision=precision), backend.target(Request())), backend
    )
    limit = 1e30 if precision == "default" else 8000.0
    signs = np.where(np.arange(64) % 2, -1, 1)
    x = (signs * np.geomspace(1e-3, limit, 64)).astype(np.float32)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(model(x), np.sin(wide) + np.cos(wide), rtol=0, atol=5e-7)


@pytest.mark.parametrize(
    ("says", "asked", "gets"),
    [
        ("", "fast", "fast"),
        ("fast", "default", "default"),
        ("fast", "", "fast"),
        ("", "", "default"),
    ],
)
@pytest.mark.sampled(4)
def test_who_compiles_decides(tmp_path: Path, says: str, asked: str, gets: str) -> None:
    """Whatever the spec says: a file and a model alike."""
    spec = tmp_path / "waves.yaml"
    spec.write_text(SPEC + (f"precision: {says}\n" if says else ""))
    for source in (spec, spec, load(spec)):  # the second time it is kept on disk
        assert xlac.compile(source, precision=asked).program.facts["precision"] == gets


def test_an_unknown_precision_is_refused(tmp_path: Path) -> None:
    spec = tmp_path / "waves.yaml"
    spec.write_text(SPEC)
    with pytest.raises(SourceError, match="precision must be default or fast, not 'exact'"):
        xlac.compile(spec, precision="exact")


def test_functions_take_it() -> None:
    """An angle that only default has to be right for."""

    def waves(x: Any) -> Any:
        return xlac.sin(x) + xlac.cos(x)

    far = np.full(64, 1e7, np.float32)
    right = np.sin(1e7) + np.cos(1e7)
    assert abs(xlac.jit(waves)(far)[0] - right) < 5e-7
    assert abs(xlac.jit(precision="fast")(waves)(far)[0] - right) > 5e-7
    with pytest.raises(SourceError, match="precision must be default or fast, not 'exact'"):
        xlac.jit(precision="exact")(waves)(far)


def test_build_and_run_take_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, folder = tmp_path / "waves.yaml", tmp_path / "out"
    spec.write_text(SPEC)
    assert status(["build", str(spec), "--precision", "fast", "-o", str(folder)]) == 0
    assert (
        json.loads((folder / "manifest.json").read_text())["provenance"]["options"]["precision"]
        == "fast"
    )
    printed = []
    for options in ([], ["--precision", "fast"]):
        capsys.readouterr()
        assert status(["run", str(spec), "--input", "x=64xf32=1e7", *options]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] != printed[1], "an angle that only default has to be right for"
    assert status(["run", str(folder), "--precision", "fast"]) == 2
    assert "an artefact is as it was built" in capsys.readouterr().err
