"""What a model carries from batch to batch by itself, trained among ranks: as in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac_sdk.host.ranks.threads import ThreadRank, together

SPEC = """\
xlac: 1
model: carrier
mesh: {data: null, model: null}
weights: {init: {seed: 0}}
inputs: {x: "f64[4, 6]", y: "f64[4, 8]"}
shard: {a.weight: [model, null], x: [data, null], h: [data, null]}
state:
  h: {type: "f64[4, 8]", next: h1}
  seen: {type: "f64[6]", init: 0.5, next: "seen + sum(x, axis=0)"}
graph:
  a: {op: linear, in: x + seen, units: 8}
  c: {op: linear, in: h, units: 8}
  h1: tanh(a + c)
outputs: [h1]
train:
  loss: mean((h1 - y) ** 2.0)
  optimizer: {sgd: {lr: 0.1, momentum: 0.9}}
"""


@pytest.mark.parametrize("shard", ["", "optimizer", "weights"])
@pytest.mark.parametrize("mesh", ["data=2,model=1", "data=2,model=2"])
def test_as_in_one_process(mesh: str, shard: str, tmp_path: Path) -> None:
    spec = tmp_path / "carrier.yaml"
    spec.write_text(SPEC + (f"  shard: {shard}\n" if shard else ""), "utf-8")

    def steps(rank: ThreadRank | None) -> Any:
        trainer = xlac.trainer(spec, mesh=mesh if rank else None, target="reference")
        rng = np.random.default_rng(0)
        numbers = []
        for _ in range(3):
            given = {"x": rng.normal(size=(4, 6)), "y": rng.normal(size=(4, 8))}
            numbers += [trainer.step(**given)["loss"], trainer.evaluate(**given)["loss"]]
        state, last = trainer.state(), trainer(x=given["x"])
        trainer.restore(state)
        trainer.begin_sequence()
        return [*numbers, trainer.step(**given)["loss"]], state, last

    numbers, state, last = steps(None)
    ranks = 2 if mesh.endswith("1") else 4
    for got, own, outputs in together(ranks, steps):
        np.testing.assert_allclose(got, numbers, rtol=1e-12)
        np.testing.assert_allclose(outputs, last, rtol=1e-12)
        assert own.keys() == state.keys()
        for name, array in state.items():
            np.testing.assert_allclose(own[name], array, rtol=0, atol=1e-12, err_msg=name)
