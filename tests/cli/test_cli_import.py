"""`xlac import`: files that appear whole or not at all, and never over others unasked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from xlac.cli import status
from xlac.exporters.spec import write
from xlac.ir.text import show
from xlac.spec.load import load

DIGITS = Path(__file__).parents[2] / "specs" / "digits.yaml"


def test_a_spec_and_its_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "made" / "model.yaml"
    assert status(["import", str(DIGITS), "-o", str(made), "--dim", "batch=3"]) == 0
    out = capsys.readouterr()
    assert "model.safetensors" in out.out and not out.err
    assert sorted(p.name for p in made.parent.iterdir()) == ["model.safetensors", "model.yaml"]
    direct, found = load(DIGITS, dims={"batch": 3}), load(made)
    assert show(found.graph) == show(direct.graph)
    assert status(["check", str(made)]) == 0 and status(["fmt", "--check", str(made)]) in (0, 1)


def test_files_that_are_there_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, data = tmp_path / "model.yaml", tmp_path / "model.safetensors"
    data.write_text("precious")
    assert status(["import", str(DIGITS), "-o", str(made)]) == 2
    assert (
        "XL3016" in capsys.readouterr().err and data.read_text() == "precious" and not made.exists()
    )
    assert status(["import", str(DIGITS), "-o", str(made), "--force"]) == 0
    assert status(["import", str(made), "-o", str(made), "--force"]) == 0, "over itself"
    assert load(made).weights


def test_nothing_is_left_when_it_fails(tmp_path: Path) -> None:
    model = load(DIGITS)

    class Broken(dict):  # type: ignore[type-arg]
        def __getitem__(self, name: str) -> np.ndarray:  # type: ignore[type-arg]
            if name.startswith("logits"):
                raise OSError("the disk went away")
            return np.asarray(model.weights[name])

    with pytest.raises(OSError, match="went away"):
        write(replace(model, weights=Broken()), tmp_path / "m.yaml")
    assert list(tmp_path.iterdir()) == []


def test_tensors_are_in_memory_one_at_a_time(tmp_path: Path) -> None:
    model = load(DIGITS)
    alive, most = 0, 0

    class Array(np.ndarray):  # type: ignore[type-arg]
        def __array_finalize__(self, source: object) -> None:
            self.counted = False

        def __del__(self) -> None:
            nonlocal alive
            alive -= self.counted

    class Made(dict):  # type: ignore[type-arg]
        def __getitem__(self, name: str) -> np.ndarray:  # type: ignore[type-arg]
            nonlocal alive, most
            made = np.array(model.weights[name]).view(Array)
            made.counted = True
            alive += 1
            most = max(most, alive)
            return made

    write(replace(model, weights=Made()), tmp_path / "m.yaml")
    assert most <= 2 and len(load(tmp_path / "m.yaml").weights) == 4
