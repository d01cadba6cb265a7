"""A PyTorch module trained by the loop, from Python and by `xlac train --from-torch`."""

from __future__ import annotations

import copy
import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import xlac
from xlac.cli import status
from xlac.spec.weights.safetensors import SafetensorsFile
from xlac_sdk.source import SourceError

MODULE = """
import torch
from torch import nn

def training():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.1),
        nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    return {
        "model": model, "loss": nn.functional.cross_entropy, "optimizer": optimizer,
        "inputs": {"x": torch.zeros(8, 6), "label": torch.zeros(8, dtype=torch.long)},
        "metrics": {"accuracy": lambda made, label: (made.argmax(-1) == label).float().mean()},
        "schedule": torch.optim.lr_scheduler.StepLR(optimizer, 5), "clip_norm": 1.0,
    }

def empty(): return {"model": 1}
def other(): return training
def broken(): return missing_name
def wrong(): return {**training(), "losses": 1}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 6)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x, label=(x[:, 0] > 0) + (x[:, 1] > 0))
    (tmp_path / "net.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def train(*more: str) -> int:
    return status(["train", "--from-torch", "net.py:training", *more])


def test_a_run_goes_on_to_the_same_bits(folder: Path) -> None:
    more = ("--data", "d.npz", "--validate", "d.npz", "--batch", "8", "--target", "cpu")
    assert train(*more, "--epochs", "3", "-o", "whole") == 0
    assert train(*more, "--epochs", "3", "--max-steps", "6", "-o", "run") == 0
    assert train("--epochs", "3", "--resume", "run") == 0
    whole, run = (
        SafetensorsFile(folder / name / "weights.safetensors") for name in ("whole", "run")
    )
    assert {"0.weight", "2.running_mean", "4.bias"} <= set(whole)
    assert all(whole[n].tobytes() == run[n].tobytes() for n in whole)
    rows = list(csv.DictReader((folder / "whole" / "metrics.csv").open()))
    assert float(rows[-1]["validate_loss"]) < float(rows[0]["validate_loss"])
    assert float(rows[-1]["validate_accuracy"]) > 0.5
    assert "from_torch" not in (folder / "run" / "run.json").read_text()


@pytest.mark.parametrize(("name", "told"), [
    ("net.py:empty", "gives no 'loss'"), ("net.py:other", "returns function, not"),
    ("net.py:broken", "net.py:19:22: error"), ("net.py:nothing", "no function 'nothing'"),
    ("no.py:f", "FileNotFoundError"), ("net.py:wrong", "'losses'"),
    ("nomodule:f", "ModuleNotFoundError"), ("net.py", "takes MODULE:FUNCTION"),
])  # fmt: skip
def test_what_is_no_module(name: str, told: str, folder: Path, capsys: Any) -> None:
    assert (
        status(["train", "--from-torch", name, "--data", "d.npz", "--epochs", "1", "-o", "r"]) == 2
    )
    assert told in capsys.readouterr().err


def test_options_of_specs_and_both(folder: Path, capsys: Any) -> None:
    assert train("--data", "d.npz", "--epochs", "1", "-o", "r", "--max-memory", "2M") == 2
    assert "--max-memory is for specs" in capsys.readouterr().err
    assert status(["train", "--data", "d.npz", "-o", "r"]) == 2
    assert "SPEC, or --from-torch" in capsys.readouterr().err


def test_micro_batches_weigh_by_their_rows(folder: Path) -> None:
    """Beside PyTorch's step of the whole batch; 7 rows are 3, 3 and 1, two are one each."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    net = net.double()
    twin = copy.deepcopy(net)
    ours, theirs = (
        torch.optim.SGD(n.parameters(), 0.1, momentum=0.9, weight_decay=0.01) for n in (net, twin)
    )
    examples = {"x": torch.zeros(4, 6).double(), "y": torch.zeros(4, 2).double()}
    mse = torch.nn.functional.mse_loss
    trainer = xlac.torch_trainer(net, mse, ours, examples, accumulate=3)
    rng = np.random.default_rng(0)
    for turn, rows in enumerate((7, 9, 2, 1, 7)):
        data = {"x": rng.standard_normal((rows, 6)), "y": rng.standard_normal((rows, 2))}
        if turn == 4:  # a step that was stopped in between leaves nothing behind
            given = (torch.ones(2, 6).double(), torch.ones(2, 2).double())
            trainer._step.part(given, {}, 0.5, False)
        total, count = trainer.run_step(data)["loss"]
        loss = mse(twin(torch.tensor(data["x"])), torch.tensor(data["y"]))
        theirs.zero_grad()
        loss.backward()
        theirs.step()
        assert total / count == pytest.approx(float(loss.detach()), rel=1e-12)
        for one, other in zip(net.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-13)
    run = train("--data", "d.npz", "--epochs", "1", "-o", "cut", "--accumulate", "2")
    assert run == 0


def test_from_python_and_a_state_of_another_model(folder: Path) -> None:
    def made(width: int) -> Any:
        model = torch.nn.Linear(6, width)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        examples = {"x": torch.zeros(4, 6), "y": torch.zeros(4, width)}
        return xlac.torch_trainer(model, torch.nn.functional.mse_loss, optimizer, examples)

    trainer = made(2)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, 6)).astype(np.float32)
    data = {"x": x, "y": x[:, :2]}
    run = xlac.train(trainer, data, folder / "py", epochs=20, batch=4)
    assert run.metrics[-1]["loss"] < 0.1 * run.metrics[0]["loss"]
    kept = trainer.state()
    again = made(2)
    again.restore(kept)
    assert again.run_step(data) == trainer.run_step(data)
    before = made(3)
    with pytest.raises(SourceError, match="XL3020"):
        before.restore(kept)
    with pytest.raises(SourceError, match="targets is 2"):
        xlac.torch_trainer(
            trainer.model,
            torch.nn.functional.mse_loss,
            trainer.optimizer,
            {"x": torch.zeros(2, 6), "y": torch.zeros(2)},
            targets=2,
        )
