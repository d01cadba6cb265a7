"""`xlac train --mesh` among processes that mpirun starts: `make test-mpi`."""

from __future__ import annotations

import csv
import signal
from pathlib import Path

import numpy as np
import pytest
from mpirun import ROOT, alone, mpirun, started

from xlac.training.loop import checkpoint

SPEC = ROOT / "specs" / "digits_train.yaml"
DATA = ROOT / "specs" / "data" / "digits_train.npz"
GPT = """\
xlac: 1
model: gpt
mesh: {data: null, seq: null}
shard: {x: [data, seq], y: [data, seq]}
dims: {batch: {min: 2, max: 16, opt: 4, multiple_of: 2}}
inputs: {x: "i32[batch, 16]", y: "i32[batch, 16]"}
weights: {init: {seed: 0}}
graph:
  table: {op: weight, type: "f64[24, 16]"}
  h: table[x]
  n: layer_norm(h)
  q: {op: linear, in: n, units: 16}
  k: {op: linear, in: n, units: 16}
  v: {op: linear, in: n, units: 16}
  a: {op: attention, in: {q: q, k: k, v: v}, heads: 2, causal: true}
  o: {op: linear, in: a, units: 16}
  r: layer_norm(h + o)
  up: {op: linear, in: r, units: 32}
  down: {op: linear, in: gelu(up), units: 16}
  out: {op: linear, in: h + o + down, units: 24}
outputs: [out]
train:
  batch: batch
  accumulate: 2
  loss: mean(cross_entropy(out, y, axis=-1))
  optimizer: {adamw: {lr: 0.01}}
"""
BOUND = 2e-6  # of f32 losses near 1, whose sums are in another order


def train(count: int, *arguments: str | Path) -> str:
    """Trains among ranks, or in one process; what it says."""
    ran = mpirun(count, "train", *arguments) if count else alone("train", *arguments)
    assert ran.returncode == 0, ran.stderr
    return ran.stderr


def digits(folder: Path, more: str = "") -> Path:
    """The spec of digits, with a learning rate that does not depend on the run's length."""
    text = SPEC.read_text("utf-8").replace("[digits.yaml]", f"[{ROOT}/specs/digits.yaml]")
    rate = "{cosine: {peak: 3e-3, warmup: 20}}"
    assert rate in text
    spec = folder / "digits.yaml"
    spec.write_text(text.replace(rate, "3e-3").replace("train:\n", f"{more}train:\n"), "utf-8")
    return spec


def losses(run: Path) -> list[float]:
    with (run / "metrics.csv").open() as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def state(run: Path) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
    return checkpoint.read(checkpoint.listed(run / "checkpoints")[0]).state


def test_training_equals_that_of_one_process(tmp_path: Path) -> None:
    """Begun on two ranks, and gone on with on three."""
    spec = digits(tmp_path)
    given = (spec, "--data", DATA, "--batch", "32", "--allow-outside")
    train(0, *given, "--epochs", "2", "-o", tmp_path / "one")
    said = train(2, *given, "--epochs", "1", "-o", tmp_path / "run", "--mesh", "data=2")
    assert said.count("epoch 1/1") == 1
    given = (spec, "--allow-outside")
    said = train(3, *given, "--resume", tmp_path / "run", "--epochs", "2", "--mesh", "data=3")
    assert said.count("going on from step 45, epoch 1") == 1
    assert losses(tmp_path / "run") == pytest.approx(losses(tmp_path / "one"), abs=BOUND)
    one, run = state(tmp_path / "one"), state(tmp_path / "run")
    for name, array in one.items():
        np.testing.assert_allclose(run[name], array, rtol=1e-4, atol=1e-5, err_msg=name)


def test_parts_of_weights(tmp_path: Path) -> None:
    spec = digits(tmp_path, "mesh: {model: null}\nshard: {h1.weight: [model, null]}\n")
    given = (spec, "--data", DATA, "--batch", "32", "--max-steps", "6", "--allow-outside")
    train(0, *given, "-o", tmp_path / "one")
    train(2, *given, "-o", tmp_path / "run", "--mesh", "model=2")
    assert losses(tmp_path / "run") == pytest.approx(losses(tmp_path / "one"), abs=BOUND)


def test_micro_batches_are_summed_once(tmp_path: Path) -> None:
    """Gradients that each rank adds up until the last one, and that the optimizer has in parts."""
    spec = digits(tmp_path)
    text = spec.read_text("utf-8")
    given = ("--data", DATA, "--batch", "32", "--max-steps", "6", "--allow-outside")
    spec.write_text(text.replace("train:\n", "train:\n  accumulate: 4\n"), "utf-8")
    train(0, spec, *given, "-o", tmp_path / "one")
    train(2, spec, *given, "-o", tmp_path / "run", "--mesh", "data=2")
    spec.write_text(
        text.replace("train:\n", "train:\n  accumulate: 4\n  shard: optimizer\n"), "utf-8"
    )
    train(3, spec, *given, "-o", tmp_path / "parts", "--mesh", "data=3")
    for run in ("run", "parts"):
        assert losses(tmp_path / run) == pytest.approx(losses(tmp_path / "one"), abs=BOUND)


@pytest.mark.parametrize(("ranks", "mesh"), [(2, "data=1,seq=2"), (4, "data=2,seq=2")])
def test_attention_goes_around(tmp_path: Path, ranks: int, mesh: str) -> None:
    """A block of GPT, whose sequences ranks have in parts, equals that of one process."""
    spec = tmp_path / "gpt.yaml"
    spec.write_text(GPT, "utf-8")
    script = Path(__file__).with_name("ring_ranks.py")
    ran = mpirun(ranks, spec, mesh, "16", program=script)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("equal") == ranks


def test_mistakes_are_reported_once(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("", "utf-8")
    given = (SPEC, "--data", DATA, "--mesh", "data=2", "-o", tmp_path)
    ran = mpirun(2, "train", *given)
    assert ran.returncode == 2
    assert ran.stderr.count("training would write into it") == 1
    ran = mpirun(2, "train", *given[:-1], tmp_path / "run", "--max-memory", "1G")
    assert ran.returncode == 2
    assert ran.stderr.count("max_memory does not go with a mesh") == 1


def test_a_run_that_is_ended_goes_on(tmp_path: Path) -> None:
    """After SIGTERM every rank ends at the same step, whose checkpoint is whole."""
    run = tmp_path / "run"
    given = ("train", SPEC, "--data", DATA, "--epochs", "1000", "-o", run, "--mesh", "data=2")
    process = started(2, *given)
    assert process.stderr is not None
    while "epoch 1/" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    before = len(checkpoint.listed(run / "checkpoints"))
    assert before
    train(2, SPEC, "--resume", run, "--epochs", "1", "--mesh", "data=2")
