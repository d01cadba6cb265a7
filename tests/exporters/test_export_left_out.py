"""What exported files do without is said."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from xlac.cli import status
from xlac.exporters import onnx, stablehlo
from xlac.exporters.left_out import LeftOutWarning
from xlac.frontends.loader import load

SPEC = """\
xlac: 1
model: parts
mesh: {model: null}
shard: {"*.weight": [model, null]}
place: {a: cpu, "b*": [c, cpu]}
inputs: {x: "f32[4, 8]"}
weights: {init: {seed: 0}}
graph:
  a: {op: linear, in: x, units: 8}
  b: {op: linear, in: a, units: 8}
  s: {op: shard, in: b, axes: [null, model]}
outputs: [s]
"""
SAID = (
    "does not say where nodes are computed: place a: cpu, b*: c|cpu is left out",
    "does not say how values are divided among ranks: a.weight, b.weight and 1 shard node left out",
)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "parts.yaml"
    path.write_text(SPEC, "utf-8")
    return path


@pytest.mark.parametrize("form", ["onnx", "stablehlo"])
def test_the_command_says_what_is_left_out(
    form: str, spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["export", str(spec), "--to", form, "-o", str(tmp_path / "out")]) == 0
    name = {"onnx": "ONNX", "stablehlo": "StableHLO"}[form]
    err = capsys.readouterr().err
    for sentence in SAID:
        assert f"warning: {name} {sentence}" in err


@pytest.mark.parametrize("exporter", [onnx, stablehlo])
def test_python_is_warned(exporter: object, spec: Path, tmp_path: Path) -> None:
    with pytest.warns(LeftOutWarning) as caught:
        exporter.write(load(spec, dims={}, params={}), tmp_path / "out")  # type: ignore[attr-defined]
    messages = [str(one.message) for one in caught if one.category is LeftOutWarning]
    assert len(messages) == 2
    assert all(said in message for said, message in zip(SAID, messages, strict=True))


def test_nothing_is_said_where_nothing_is_left_out(spec: Path, tmp_path: Path) -> None:
    kept = [line for line in SPEC.splitlines() if not line.startswith(("mesh", "shard", "place"))]
    text = "\n".join(kept).replace("{op: shard, in: b, axes: [null, model]}", "b + b")
    spec.write_text(text, "utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error", LeftOutWarning)
        stablehlo.write(load(spec, dims={}, params={}), tmp_path / "out")
