"""Modules whose parameters are DTensors."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from xlac.cli import status
from xlac.integrations.torch import dtensors
from xlac_sdk.source import SourceError


def test_two_processes_divide_a_module(tmp_path, capsys):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = Path(__file__).with_name("divided_modules.py")
    ranks = [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(port), tmp_path],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for rank in ranks:
        said = rank.communicate(timeout=300)[1]
        assert rank.returncode == 0, said
    assert status(["explain", str(tmp_path / "layers.yaml"), "--mesh", "model=2"]) == 0
    assert capsys.readouterr().out.count("all_reduce") >= 1


def shard(dim, factor=1):
    return SimpleNamespace(dim=dim, split_factor=factor, is_replicate=lambda: False)


REPLICATE = SimpleNamespace(is_replicate=lambda: True)


@pytest.mark.parametrize(
    "placements, wanted",
    [
        ([shard(0), REPLICATE], (("data",), ())),
        ([shard(0), shard(1)], (("data",), ("model",))),
        ([shard(0), shard(0)], (("data", "model"), ())),
        ([shard(0, 3), shard(0)], (("model", "data"), ())),
        ([shard(1, 3), shard(0)], None),
    ],
)
def test_placements_are_axes_of_the_mesh(placements, wanted):
    mesh = SimpleNamespace(shape=(2, 3))
    tensor = SimpleNamespace(ndim=2, device_mesh=mesh, placements=placements)
    if wanted is None:
        with pytest.raises(SourceError, match="XL7313"):
            dtensors._axes("w", tensor, ("data", "model"))
    else:
        assert dtensors._axes("w", tensor, ("data", "model")) == wanted
