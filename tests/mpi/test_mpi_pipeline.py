"""Pipelines among processes that mpirun starts: `make test-mpi`."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from mpirun import ROOT, alone, mpirun, pids, started
from test_mpi_train import BOUND, DATA, digits, losses, state, train

STAGES = "mesh: {data: null, stage: null}\npipeline: {axis: stage, stages: [[h1, a1], [logits]]}\n"


def test_a_pipeline_equals_one_process(tmp_path: Path) -> None:
    """Begun with two stages, and gone on with two of two ranks each; batches have unequal parts."""
    spec = digits(tmp_path, STAGES)
    text = spec.read_text("utf-8")
    spec.write_text(text.replace("train:\n", "train:\n  accumulate: 4\n"), "utf-8")
    given = (spec, "--data", DATA, "--batch", "30", "--allow-outside")
    train(0, *given, "--epochs", "2", "-o", tmp_path / "one")
    train(2, *given, "--epochs", "1", "-o", tmp_path / "run", "--mesh", "data=1,stage=2")
    given = (spec, "--allow-outside", "--resume", tmp_path / "run", "--epochs", "2")
    train(4, *given, "--mesh", "data=2,stage=2")
    assert losses(tmp_path / "run") == pytest.approx(losses(tmp_path / "one"), abs=BOUND)
    one, run = state(tmp_path / "one"), state(tmp_path / "run")
    for name, array in one.items():
        np.testing.assert_allclose(run[name], array, rtol=1e-4, atol=1e-5, err_msg=name)


def test_a_stage_that_stops_is_named(tmp_path: Path) -> None:
    """The other waits for a message of it."""
    spec = digits(tmp_path, STAGES)
    given = (
        "train",
        spec,
        "--data",
        DATA,
        "--allow-outside",
        "--epochs",
        "100000",
        "--batch",
        "30",
    )
    mesh = ("--mesh", "data=1,stage=2", "--timeout", "5")
    process = started(2, *given, "-o", tmp_path / "run", *mesh)
    assert process.stderr is not None
    while "epoch 1/" not in process.stderr.readline():
        assert process.poll() is None
    os.kill(pids(process)[1], signal.SIGSTOP)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 4
    assert re.findall(r"error: rank (\d) .* has waited for .*XL7813", said) == ["0"], said
    assert re.findall(r"rank (\d) \(.*\) does not answer", said) == ["1"], said


def test_a_model_is_called_in_stages(tmp_path: Path) -> None:
    """Two stages, of one rank or of two that share the batch."""
    spec = tmp_path / "model.yaml"
    text = (ROOT / "specs" / "digits.yaml").read_text("utf-8")
    weights = ROOT / "specs" / "digits.safetensors"
    spec.write_text(STAGES + text.replace("digits.safetensors", f"{weights}"), "utf-8")
    given = ("run", spec, "--dim", "batch=6", "--seed", "1", "--allow-outside")
    wanted = alone(*given, "--output", f"probs=@{tmp_path}/one.npy")
    assert wanted.returncode == 0, wanted.stderr
    for count, mesh in ((2, "data=1,stage=2"), (4, "data=2,stage=2")):
        ran = mpirun(count, *given, "--mesh", mesh, "--output", f"probs=@{tmp_path}/many.npy")
        assert ran.returncode == 0, ran.stderr
        one, many = (np.load(tmp_path / name) for name in ("one.npy", "many.npy"))
        np.testing.assert_allclose(many, one, rtol=0, atol=1e-6)
