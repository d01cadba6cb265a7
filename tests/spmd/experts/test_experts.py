"""Mixtures of experts among ranks: the layer of docs/DISTRIBUTED.md."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.driver import specialized
from xlac.ops.collective.group import Collective
from xlac.spec.load import load_training
from xlac.spmd.cost import sent
from xlac.spmd.model import collectives, mesh_of, of_rank, parsed
from xlac.training.program import graphs_of
from xlac_sdk.dtypes import Array
from xlac_sdk.host.ranks.threads import ThreadRank, together
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

DOCS = Path(__file__).parents[3] / "docs" / "DISTRIBUTED.md"
TARGET = find("reference").target(Request())
BOUND = 1e-12  # of f64, whose sums are in another order
PLACES = 4 * 2 * 6 * 16  # elements that a rank sends to experts, of two examples


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """The layer in f64."""
    written = DOCS.read_text("utf-8")
    (section,) = re.findall(r"### Experts\n.*?```yaml\n(.*?)```", written, re.DOTALL)
    text = section.replace("f32", "f64").replace("depth: $experts", "depth: $experts, dtype: f64")
    path = tmp_path / "experts.yaml"
    path.write_text(text.replace("depth: $capacity", "depth: $capacity, dtype: f64"), "utf-8")
    return path


def rows() -> dict[str, Array]:
    generator = np.random.default_rng(0)
    return {name: generator.standard_normal((8, 8, 16)) for name in ("x", "wanted")}


def exchanged(spec: Path, mesh: str, entry: str) -> Counter[tuple[str, tuple[str, ...], int]]:
    """The collectives of values larger than scalars: kind, axes and the bytes that a rank sends."""
    model, training = load_training(spec)
    asked = graphs_of(model, training).entry(entry)
    one = specialized(asked, {"batch": 8})
    _, plan = of_rank(one, mesh_of(model.ranks, parsed(mesh)), 0, TARGET)
    found: Counter[tuple[str, tuple[str, ...], int]] = Counter()
    for node, _ in collectives(plan):
        assert isinstance(node.op, Collective)
        if node.inputs[0].type.size > 1:
            found[node.op.kind, node.op.axes, sent(node)] += 1
    return found


def test_tokens_go_to_experts_and_back_by_all_to_all(spec: Path) -> None:
    """Two of four examples are here, half of whose places are those of the other rank's experts."""
    there = ("all_to_all", ("expert",), PLACES * 8 // 2)
    assert exchanged(spec, "data=2,expert=2", "run") == {there: 2}


def test_gradients_come_back_by_all_to_all_too(spec: Path) -> None:
    """No gradient of x is needed, so the first exchange has none; those of experts are summed over
    `data`, and that of the gate over all.
    """
    there = ("all_to_all", ("expert",), PLACES * 8 // 2)
    assert exchanged(spec, "data=2,expert=2", "step") == {
        there: 3,
        ("all_reduce", ("data",), 2 * 16 * 32 * 8): 2,
        ("all_reduce", ("data", "expert"), 2 * 4 * 16 * 8 * 3 // 4): 1,
    }


@pytest.mark.parametrize("mesh", ["data=1,expert=2", "data=2,expert=2"])
def test_training_equals_that_of_one_process(spec: Path, mesh: str) -> None:
    def steps(rank: ThreadRank | None) -> Any:
        trainer = xlac.trainer(spec, mesh=mesh if rank else None, target="reference")
        return [trainer.step(**rows())["loss"] for _ in range(2)], trainer.state()

    wanted, state = steps(None)
    for losses, own in together(2 if "data=1" in mesh else 4, steps):
        assert losses == pytest.approx(wanted, abs=BOUND)
        for name, array in state.items():
            np.testing.assert_allclose(own[name], array, rtol=0, atol=BOUND, err_msg=name)


def by_hand(x: Array, weights: dict[str, Array], capacity: int) -> tuple[Array, int]:
    """The layer token by token, and how many choices found no place."""
    y, dropped = x.copy(), 0
    for example, tokens in enumerate(x):
        scores = tokens @ weights["scores.weight"].T
        gates = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
        best = np.argsort(-gates, axis=-1)[:, :2]
        taken = Counter[int]()
        for choice in range(2):
            for token, expert in enumerate(best[:, choice]):
                taken[expert] += 1
                if taken[expert] > capacity:
                    dropped += 1
                    continue
                share = gates[token, expert] / gates[token, best[token]].sum()
                hidden = np.maximum(tokens[token] @ weights["up"][expert], 0)
                y[example, token] += share * (hidden @ weights["down"][expert])
    return y, dropped


def test_an_expert_drops_what_is_beyond_its_capacity(spec: Path) -> None:
    trainer = xlac.trainer(spec, target="reference", params={"capacity": 3})
    given = rows()
    wanted, dropped = by_hand(given["x"], trainer.weights(), 3)
    assert dropped > 0
    np.testing.assert_allclose(trainer(x=given["x"]), wanted, rtol=0, atol=BOUND)
