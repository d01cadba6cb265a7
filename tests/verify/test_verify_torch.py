"""PyTorch as an engine that `xlac verify` and `xlac bench` compare with: the .pt2 file, eagerly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import xlac
from xlac.cli import status
from xlac.debug.verify.engines import ENGINES, EngineUnavailable
from xlac.frontends.loader import load


class Several(torch.nn.Module):
    """Results of several types, one that NumPy lacks, in a dictionary."""

    def forward(self, x: Any, y: Any, half: Any) -> dict[str, Any]:
        product = x @ y
        return {
            "p": product.to(torch.bfloat16),
            "at": product.argmax(1),
            "h": half * 2,
            "s": x.sum(0),
        }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "several.pt2"
    args = torch.randn(4, 6), torch.randn(6, 5), torch.randn(3).to(torch.bfloat16)
    torch.export.save(torch.export.export(Several(), args), str(place))
    return place


def test_results_of_every_type_agree(file: Path) -> None:
    found = xlac.verify(file, against=["reference", "torch"], draws=["random", "special"])
    assert found.right, found.text()
    own = [v for v in found.values if v.against == "torch"]
    assert len(own) == 8 and all(v.deviation.right for v in own), found.text()


def test_bench_times_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["bench", str(file), "--against", "torch", "--seconds", "0.02", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["engine"] for row in rows] == ["xlac cpu", "torch"] and rows[1]["threads"] == 1


def test_what_pytorch_cannot_run_is_told(file: Path, tmp_path: Path) -> None:
    model = load(str(file))
    given = {n: np.zeros(1, np.float32) for n in ("x", "y", "half")}
    with pytest.raises(EngineUnavailable):
        ENGINES["torch"](model, file, given, 0)()
    damaged = tmp_path / "damaged.pt2"
    damaged.write_bytes(b"no archive")
    with pytest.raises(EngineUnavailable):
        ENGINES["torch"](model, damaged, given, 0)
