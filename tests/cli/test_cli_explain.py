"""`xlac explain`, `inspect` and `--trace`: which kernel computes an entry, and why."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xlac.cli import status

SPECS = Path(__file__).parents[2] / "specs"
DIGITS = str(SPECS / "digits.yaml")


def test_trace_names_rules_and_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        status(["build", str(SPECS / "bert_layer.yaml"), "--trace", "--until", "simplify-2"]) == 0
    )
    said = capsys.readouterr().err
    assert " at ln2" in said and "bert_layer.yaml:" in said


@pytest.mark.parametrize("stage", ["graph", "fused", "kernels", "memory", "source", "asm"])
def test_inspect_prints_every_stage(stage: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["inspect", str(SPECS / "softmax.yaml"), "--stage", stage]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 2


def test_explain_tells_the_kernel_of_a_node(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["explain", DIGITS, "--node", "h1"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "h1: linear -> f32[32, 128]\n    kernel dot_0 (dot, add), fused with a1 (max)"
    )
    assert (
        "writes a1 (max) to memory: dot reads its operands many times" in said and "flops" in said
    )
    assert status(["explain", DIGITS, "--node", "h2"]) == 2
    assert "it has h1, a1" in capsys.readouterr().err


def test_explain_tells_of_every_entry_that_a_user_wrote(capsys: pytest.CaptureFixture[str]) -> None:
    """Each entry, also one that no kernel computes; entries of bodies; and no bookkeeping such as
    'reshape ×3'.
    """
    import yaml

    for name in ("bert_layer", "lstm_3x60", "branch_cond"):
        spec = SPECS / f"{name}.yaml"
        assert status(["explain", str(spec)]) == 0
        said = capsys.readouterr().out
        for key in yaml.safe_load(spec.read_text("utf-8"))["graph"]:
            assert f"\n{key.split(',')[0]}" in f"\n{said}", key
        assert "×" not in said and "in all: " in said


FOLDED = """\
xlac: 1
model: folded
weights: {init: {seed: 0, scheme: kaiming}}
inputs: {x: "f32[1, 4, 8, 8]", flat: "f32[2, 4]"}
graph:
  c: {op: conv2d, in: x, filters: 6, kernel: 3, bias: false}
  n: {op: batch_norm, in: c}
  same: {op: identity, in: n}
  y: relu(same)
  ones: {op: full, shape: [4], value: 3.0}
  more: ones * 2
  z: flat + more
outputs: [y, z]
"""


def test_what_is_folded_or_simplified_is_told_with_its_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A convolution keeps its kernel when a batch norm is folded into its weights; a value that is
    gone is told with its neighbours, and one of constants alone as computed at compile time.
    """
    spec = tmp_path / "folded.yaml"
    spec.write_text(FOLDED)
    assert status(["explain", str(spec)]) == 0
    said = dict(re.findall(r"^(\w+): .*\n    (.*)$", capsys.readouterr().out, re.MULTILINE))
    assert said["c"].endswith("conv_1 (conv), fused with n (add), y (max)"), said["c"]
    assert said["n"].endswith("conv_1 (add), fused with c (conv), y (max)"), said["n"]
    gone = "no kernel of its own: simplified into its neighbours n (conv_1), y (conv_1)"
    assert said["same"] == gone
    assert said["more"] == "no kernel: computed at compile time, from weights and constants"


def test_explain_tells_of_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["explain", "XL6002"]) == 0
    assert len(capsys.readouterr().out) > 80
    assert status(["explain", "XL0000"]) == 2
