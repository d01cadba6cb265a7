"""`xlac explain --mesh`: collectives with reason, bytes and time, and the memory of each rank."""

from __future__ import annotations

from pathlib import Path

import pytest
from shipped import FOLDER

from xlac.cli import status
from xlac.ir.graph import Node, apply
from xlac.ops import build
from xlac.spmd.cost import NetworkLink, seconds, sent
from xlac_sdk.dtypes import DType
from xlac_sdk.source import SourceError

SPEC = """\
xlac: 1
mesh: {model: null}
shard: {up.weight: [model, null], down.weight: [null, model]}
inputs: {x: "f32[4, 32]"}
weights: {init: {seed: 0}}
graph:
  up: {op: linear, in: x, units: 64}
  down: {op: linear, in: relu(up), units: 32}
outputs: [down]
"""


def test_each_collective_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(SPEC, "utf-8")
    assert status(["explain", str(path), "--mesh", "model=2", "--link", "1GB/s,3us"]) == 0
    out = capsys.readouterr().out
    assert "mesh model=2: 2 ranks; links of 1 GB/s, 3 us" in out
    assert (
        "divided weights: up.weight [model, null], up.bias [model], down.weight [null, mod" in out
    )
    assert (
        "all_reduce over model: f32[4, 32], 512 bytes, 3.5 us: dot 'down' combines its parts along "
        "model" in out
    )
    weights = 4 * (32 * 64 // 2 + 64 // 2 + 64 * 32 // 2 + 32)
    assert f"0 bytes of state, {weights:,} bytes of weights" in out


def test_a_training_step_reduces_each_gradient_once(capsys: pytest.CaptureFixture[str]) -> None:
    spec = str(FOLDER / "digits_train.yaml")
    options = ["--entry", "step", "--dim", "batch=32", "--mesh", "data=2"]
    assert status(["explain", spec, *options]) == 0
    out = capsys.readouterr().out
    reduced = [line for line in out.splitlines() if line.startswith("all_reduce over data")]
    for weight in ("f32[128, 64]", "f32[128]", "f32[10, 128]", "f32[10]"):
        assert sum(f" {weight}, " in line for line in reduced) == 1
    assert len(reduced) == 6  # the loss and the accuracy, too


def test_a_rank_with_a_gpu_that_is_not_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(SPEC, "utf-8")
    options = ["--mesh", "model=2", "--target", "cuda", "--arch", "sm_90a"]
    assert status(["explain", str(path), *options]) == 0
    assert "all_reduce over model" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--mesh", "model"], "'model' is no axis of a mesh with its size"),
        (["--mesh", "rows=2"], "the model's mesh has no axis 'rows'"),
        (["--mesh", "model=2", "--link", "fast"], "'fast' is no link"),
        (["--link", "1GB/s,1us"], "--link goes with --mesh"),
        (["--mesh", "model=2", "--triple", "aarch64-linux-gnu"], "cpu has no collectives"),
    ],
)
def test_mistakes(
    options: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(SPEC, "utf-8")
    assert status(["explain", str(path), *options]) in (2, 3)
    assert problem in capsys.readouterr().err


def test_a_mesh_axis_that_divides_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(SPEC.replace("{model: null}", "{model: null, rows: 1}"), "utf-8")
    assert status(["explain", str(path), "--mesh", "model=2,rows=2"]) == 2
    assert "nothing is divided along 'rows'" in capsys.readouterr().err


def collective(mnemonic: str, ranks: int) -> Node:
    x = build.param("x", DType.F32, (1024, 256))
    return apply(mnemonic, x, mesh=(("m", ranks),), axes=("m",))


def test_bytes_and_times() -> None:
    link, held = NetworkLink.parse("1GB/s, 2us"), 1 << 20
    assert sent(collective("all_reduce", 4)) == 2 * held * 3 // 4
    assert sent(collective("all_gather", 4)) == 3 * held
    assert (
        sent(collective("reduce_scatter", 4)) == sent(collective("all_to_all", 4)) == held * 3 // 4
    )
    assert seconds(collective("all_reduce", 4), link) == pytest.approx(6 * 2e-6 + 1.5 * held / 1e9)
    assert seconds(collective("all_reduce", 1), link) == 0
    slow = NetworkLink.parse("1000GB/s,50us")  # few messages of whole values
    assert seconds(collective("all_reduce", 8), slow) == pytest.approx(3 * (5e-5 + held / 1e12))
    for text in ("", "1GB/s", "0GB/s,1us", "1,1"):
        with pytest.raises(SourceError, match="is no link"):
            NetworkLink.parse(text)


LAYER = """\
xlac: 1
mesh: {data: null, model: null}
shard: {q.weight: [model, null], up.weight: [model, null]}
dims: {batch: {min: 1, max: 64, opt: 8}}
inputs: {x: "f32[batch, 16, 32]", wanted: "f32[batch, 16, 32]"}
weights: {init: {seed: 0}}
graph:
  n: layer_norm(x)
  q: {op: linear, in: n, units: 32}
  k: {op: linear, in: n, units: 32}
  v: {op: linear, in: n, units: 32}
  context: {op: attention, in: {q: q, k: k, v: v}, heads: 4}
  o: {op: linear, in: context, units: 32}
  h: x + o
  n2: layer_norm(h)
  up: {op: linear, in: n2, units: 64}
  down: {op: linear, in: gelu(up), units: 32}
  y: h + down
outputs: [y]
train:
  batch: batch
  loss: mean((y - wanted) * (y - wanted))
  optimizer: {adamw: {lr: 0.001}}
"""


def test_a_step_of_a_layer_has_the_fewest_collectives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Megatron's four sums of activations, the loss, and each of 16 gradients once. The number of
    elements of the mean needs no value gathered.
    """
    path = tmp_path / "layer.yaml"
    path.write_text(LAYER, "utf-8")
    command = ["explain", str(path), "--entry", "step", "--mesh", "data=2,model=2"]
    assert status(command) == 0
    lines = capsys.readouterr().out.splitlines()
    found = [line.split(":")[0] for line in lines if " over " in line and " bytes, " in line]
    assert found.count("all_reduce over model") == 4
    assert found.count("all_reduce over data") == 1 + 16
    assert len(found) == 4 + 1 + 16
