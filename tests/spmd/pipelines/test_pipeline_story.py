"""What `xlac explain --mesh` tells of stages, and what passes between them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from pipelined import LAYERS, plans_of

from xlac.cli import status
from xlac.pipelining.kept import most_kept
from xlac.pipelining.schedule import ordered

DOCS = Path(__file__).parents[3] / "docs" / "DISTRIBUTED.md"
CHAIN = LAYERS.replace("relu(l2) + a1", "relu(l2)")


def test_only_activations_and_their_gradients_pass(tmp_path: Path) -> None:
    """Between neighbours; masks of dropout and of relu stay where they are made. Numbers that
    training reports go to all.
    """
    plan = plans_of(CHAIN, tmp_path, 4, "accumulate")["accumulate"]
    passed = {
        (plan.phases[message.source].rank, message.rank): [
            plan.values[number].node.type.shape
            for number in message.values
            if plan.values[number].node.type.size > 1
        ]
        for message in plan.messages
    }
    large = {ranks: shapes for ranks, shapes in passed.items() if shapes}
    assert large == {ranks: [(8, 8)] for ranks in ((0, 1), (1, 2), (2, 3), (3, 2), (2, 1), (1, 0))}


def test_what_is_kept_is_that_of_micro_batches_under_way(tmp_path: Path) -> None:
    plan = plans_of(CHAIN, tmp_path, 4, "accumulate")["accumulate"]
    kept = {}
    for count in (4, 8):
        for schedule in ("1f1b", "gpipe"):
            order = ordered([plan] * count, schedule)
            kept[schedule, count] = [
                most_kept([plan] * count, tasks, rank) for rank, tasks in enumerate(order.ranks)
            ]
    numbers = 8 * (8 + 4)  # bytes of losses and accuracies, which stay to the end
    for rank in range(4):
        assert abs(kept["1f1b", 8][rank] - kept["1f1b", 4][rank]) < numbers
    assert kept["gpipe", 8][0] == pytest.approx(2 * kept["gpipe", 4][0], rel=0.1)


def test_explain_tells_of_the_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the model in the documentation."""
    (text,) = re.findall(r"### Pipelines\n.*?```yaml\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    spec = tmp_path / "layers.yaml"
    spec.write_text(text, "utf-8")
    given = [str(spec), "--mesh", "data=1,stage=2", "--link", "10GB/s,5us"]
    assert status(["explain", *given, "--entry", "step", "--dim", "batch=8"]) == 0
    told = capsys.readouterr().out
    sent = 5 + 8 * 32 * 4 / 10e3  # microseconds
    assert "stage 0 at stage=0: l1, a1" in told
    assert f"then to stage=1: a1 f32[8, 32], 1,024 bytes, {sent:.1f} us" in told
    assert re.search(r"8 micro-batches by 1f1b: a step takes [\d.]+ us, of which ranks wait", told)
    assert re.search(r"stage=0: computes for [\d.]+ us, keeps at most 2 micro-batches; mem", told)
    assert "---- phase 2, of stage 0" in told
    assert status(["explain", *given, "--entry", "run"]) == 0
    assert "1 micro-batch by 1f1b" in capsys.readouterr().out


def test_stages_pass_through_other_specs(tmp_path: Path) -> None:
    """`xlac expand` keeps the section."""
    spec = tmp_path / "layers.yaml"
    spec.write_text(CHAIN[: CHAIN.index("train:")], "utf-8")
    assert status(["expand", str(spec), "-o", str(tmp_path / "other.yaml")]) == 0
    other = (tmp_path / "other.yaml").read_text("utf-8")
    assert "pipeline:\n  axis: stage\n  stages:\n    - [l1, a1]\n    - [l2]\n" in other
    assert np.all([status(["check", str(path)]) == 0 for path in tmp_path.glob("*.yaml")])
