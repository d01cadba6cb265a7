"""The loop around compiled trainers: the command, runs that were killed, data out of range."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.cli import status
from xlac.training.data.column import IndexRange
from xlac.training.loop import checkpoint
from xlac.training.trainer import Trainer
from xlac_sdk.source import SourceError

ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "specs" / "digits_train.yaml"
TRAIN, TEST = (ROOT / "specs" / "data" / f"digits_{name}.npz" for name in ("train", "test"))
SMALL = """
xlac: 1
model: small
dims: {n: {min: 1, max: 64, opt: 16}}
inputs: {words: "i32[n, 3]", label: "i64[n]"}
graph:
  e: {op: embedding, in: words, count: 7, dim: 4}
  logits: {op: linear, in: "mean(e, axis=1)", units: 5}
outputs: [logits]
train:
  batch: n
  init: {seed: 0}
  loss: mean(cross_entropy(logits, label))
  metrics: {accuracy: "mean(f32(argmax(logits, axis=-1) == label))"}
  optimizer: {adamw: {lr: {cosine: {peak: 0.05, warmup: 3}}}}
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A spec and its data, in a folder."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "small.yaml").write_text(SMALL)
    words = np.random.default_rng(0).integers(0, 7, (40, 3))
    np.savez(folder / "data.npz", words=words, label=words.max(1) % 5)
    return folder


@pytest.fixture(scope="module")
def learner(small: Path) -> Trainer:
    """A compiled trainer, for tests that reset it."""
    return xlac.trainer(small / "small.yaml")


def test_a_run_that_stopped_goes_on_to_the_same_bits(
    small: Path, learner: Trainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiled trainer with a rate that covers the run, stopped in the second epoch."""
    options = {"epochs": 3, "batch": 10, "seed": 2, "checkpoint_every": 3}
    data = small / "data.npz"
    run = xlac.train(learner, data, tmp_path / "whole", **options)
    assert [row["step"] for row in run.metrics] == [0, 4, 8, 12]
    whole = learner.state()
    learner.reset()
    with monkeypatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(learner, "run_step", lambda arrays: stopping(learner, arrays))
        xlac.train(learner, data, tmp_path / "run", **options)
    learner.reset()
    again = xlac.train(learner, data, tmp_path / "run", resume=True, **options)
    for one, other in zip(run.metrics, again.metrics, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}
    assert all(array.tobytes() == learner.state()[name].tobytes() for name, array in whole.items())
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "run")]
    assert weights[0] == weights[1]


class Stopped(BaseException):
    """As if the process ended."""


def stopping(learner: Trainer, arrays: Any) -> Any:
    """A step, but for the one after the seventh."""
    if learner.steps_done == 7:
        raise Stopped
    return Trainer.run_step(learner, arrays)


def test_labels_and_indices_out_of_range(small: Path, learner: Trainer, tmp_path: Path) -> None:
    assert learner.ranges == {"words": IndexRange(0, 6), "label": IndexRange(0, 4)}
    data = dict(np.load(small / "data.npz"))
    for name, value in (("label", 5), ("label", -1), ("words", 7)):
        wrong = data[name].copy()
        wrong[11] = value
        with pytest.raises(SourceError, match=rf"row 11: input '{name}' is {value}.*XL6307"):
            xlac.train(learner, {**data, name: wrong}, tmp_path / "run", epochs=1)
        assert not (tmp_path / "run").exists()


def test_the_command(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, data, run = str(small / "small.yaml"), str(small / "data.npz"), str(tmp_path / "run")
    given = [
        "train",
        spec,
        "--data",
        data,
        "--validate",
        data,
        "--batch",
        "20",
        "--seed",
        "3",
        "--target",
        "reference",
    ]
    assert status([*given, "--epochs", "1", "-o", run]) == 0
    told = capsys.readouterr().err
    assert "epoch 0/1, step 0: loss 1." in told and "epoch 1/1, step 2: loss" in told
    assert status([*given, "--epochs", "1", "-o", run]) == 2
    assert "[XL6331]" in capsys.readouterr().err
    assert (
        status(["train", spec, "--resume", run, "--epochs", "2", "-t", "reference"]) == 0
    )  # the rest is known
    assert "going on from step 2, epoch 1" in capsys.readouterr().err
    with (tmp_path / "run" / "metrics.csv").open() as file:
        assert [row["step"] for row in csv.DictReader(file)] == ["0", "2", "4"]
    for wrong, said in (
        (["train", spec, "-o", f"{run}2", "--epochs", "1"], "give the training data with --data"),
        (["train", spec, "--data", data, "-o", f"{run}2", "--epochs", "-1"], "XL6337"),
        (["train", spec, "--data", data, "-o", f"{run}2", "--resume", run], "leave -o out"),
        (["train", spec, "--data", f"{data}x", "-o", f"{run}2", "--epochs", "1"], "XL3001"),
        (
            [
                "train",
                spec,
                "--data",
                data,
                "--columns",
                "label=y",
                "-o",
                f"{run}2",
                "--epochs",
                "1",
            ],
            "XL6312",
        ),
    ):
        assert status(wrong) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "run2").exists()


def test_data_alone_are_enough_and_what_memory_costs_is_said(
    small: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small)
    given = ["train", "small.yaml", "--data", "data*.npz", "-t", "reference"]
    assert status([*given, "--max-memory", "1M"]) == 0
    said = capsys.readouterr().err
    assert "note: 1 epoch, into runs/small (--epochs, -o choose others)" in said
    assert said.count("bytes: nothing is computed again") == 1
    assert (small / "runs" / "small" / "weights.safetensors").exists()
    assert status([*given, "-o", "other"]) == 0
    assert "max memory" not in capsys.readouterr().err


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_digits_killed_at_random_moments(seed: int | None, tmp_path: Path) -> None:
    """The command itself, on the digits: row 0 near 10 %, 96 % in the end, whatever happened."""
    if seed is None:
        return
    code = "from xlac.cli import main; main()"
    given = [
        "train",
        str(DIGITS),
        "--data",
        str(TRAIN),
        "--validate",
        str(TEST),
        "--batch",
        "32",
        "--epochs",
        "10",
        "--checkpoint-every",
        "20",
    ]

    def started(*more: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code, *given, *more]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ})

    whole, run = tmp_path / "whole", tmp_path / "run"
    assert started("-o", str(whole)).wait() == 0
    generator, kills = random.Random(seed), 0
    while True:
        process = started(*(("--resume", str(run)) if run.exists() else ("-o", str(run))))
        assert process.stderr is not None
        if kills < 3 and process.stderr.readline():
            time.sleep(generator.uniform(0, 1.5))
            process.send_signal(signal.SIGKILL)
            kills += 1
        _, told = process.communicate(timeout=1800)
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, told
    ends = [checkpoint.read(checkpoint.listed(place / "checkpoints")[0]) for place in (whole, run)]
    assert all(
        array.tobytes() == ends[1].state[name].tobytes() for name, array in ends[0].state.items()
    )
    rows = [
        [{**row, "seconds": ""} for row in csv.DictReader((place / "metrics.csv").open())]
        for place in (whole, run)
    ]
    assert rows[0] == rows[1]
    first, last = float(rows[0][0]["validate_accuracy"]), float(rows[0][-1]["validate_accuracy"])
    assert first < 0.2 and last >= 0.96


def test_a_run_goes_on_from_another_working_directory(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files were named from where it was begun, one by a pattern, in a folder whose name is one."""
    folder, other = tmp_path / "a[b]", tmp_path / "other"
    for made in (folder, other):
        made.mkdir()
    for name in ("small.yaml", "data.npz"):
        (folder / name).write_bytes((small / name).read_bytes())
    monkeypatch.chdir(folder)
    begun = ["train", "small.yaml", "--data", "dat*.npz", "--validate", "data.npz", "-o", "run"]
    assert status([*begun, "--epochs", "1", "--batch", "16"]) == 0
    monkeypatch.chdir(other)
    run = Path("..", "a[b]", "run")
    assert status(["train", "../a[b]/small.yaml", "--resume", str(run), "--epochs", "2"]) == 0
    assert status(["train", "--resume", str(run), "--epochs", "3"]) == 0, "its spec is known"
    with (run / "metrics.csv").open() as file:
        assert [row["epoch"] for row in csv.DictReader(file)] == ["0", "1", "2", "3"]


def test_a_run_names_its_spec_and_no_code(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another folder has no run, and a module's run does not say which code to import."""
    assert status(["train", "--resume", str(tmp_path / "none")]) == 2
    assert "there is no run.json of a run in" in capsys.readouterr().err
    (tmp_path / "run.json").write_text('{"target": "reference", "epochs": 2}')
    assert status(["train", "--resume", str(tmp_path)]) == 2
    assert "names no code" in capsys.readouterr().err
    gone = tmp_path / "gone.yaml"
    (tmp_path / "run.json").write_text(json.dumps({"spec": str(gone), "data": [str(gone)]}))
    assert status(["train", "--resume", str(tmp_path)]) == 2
    assert "gone.yaml" in capsys.readouterr().err


def test_a_run_goes_on_as_it_was_compiled(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Target, sizes, schedules and memory are those of the run, unless others are given."""
    asked: list[dict[str, Any]] = []

    def recorded(spec: Any, tell: Any, **options: Any) -> Trainer:
        asked.append(options)
        return Trainer(spec, tell=tell, **options)

    monkeypatch.setattr(xlac, "trainer", recorded)
    spec, run = str(small / "small.yaml"), str(tmp_path / "run")
    begun = ["train", spec, "--data", str(small / "data.npz"), "-o", run, "--epochs", "1"]
    schedules = tmp_path / "tuned.yaml"
    schedules.write_text("schedules: {}\n")
    tuned = ["--tuning", os.path.relpath(schedules)]
    assert (
        status([*begun, "-t", "reference", "--dim", "n=1..20", "--max-memory", "1M", *tuned]) == 0
    )
    assert status(["train", spec, "--resume", run, "--epochs", "2"]) == 0
    assert asked[1] == asked[0]
    assert (asked[0]["target"], asked[0]["max_memory"]) == ("reference", "1M")
    assert asked[0]["schedules"] == str(schedules)
    given = ["--dim", "n=1..20", "--max-memory", "2M"]
    assert status(["train", spec, "--resume", run, "--epochs", "3", *given]) == 0
    assert asked[2] == {**asked[0], "max_memory": "2M"}
