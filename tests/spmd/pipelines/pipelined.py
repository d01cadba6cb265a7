"""Specs in stages, and their steps of training as phases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from xlac.driver import specialized
from xlac.pipelining.plan import PhasePlan
from xlac.pipelining.schedule import PhaseTimes
from xlac.ranks.pipeline_plans import StepModels
from xlac.spec.load import load_training
from xlac.spmd.mesh import Mesh
from xlac.spmd.run_time import Rates
from xlac.training.micro_batches.accumulate import NUMBER
from xlac.training.program import graphs_of
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

TARGET = find("reference").target(Request())

LAYERS = """\
xlac: 1
model: layers
mesh: {data: null, stage: null}
pipeline: {axis: stage, stages: [[l1, a1], [l2], [l3, a3], [l4]]}
dims: {batch: {max: 32, opt: 8}}
weights: {init: {seed: 0}}
inputs: {x: "f64[batch, 6]", y: "i32[batch]"}
graph:
  l1: {op: linear, in: x, units: 8}
  a1: {op: dropout, in: relu(l1), p: 0.1}
  l2: {op: linear, in: a1, units: 8}
  l3: {op: linear, in: relu(l2) + a1, units: 8}
  a3: tanh(l3)
  l4: {op: linear, in: a3, units: 4}
outputs: [l4]
train:
  batch: batch
  accumulate: 4
  loss: mean(cross_entropy(l4, y))
  metrics: {accuracy: "mean(f32(argmax(l4, axis=-1) == y))"}
  optimizer: {adamw: {lr: 0.05}}
  clip: {norm: 1.0}
"""

TIED = """\
xlac: 1
model: tied
mesh: {data: null, stage: null}
pipeline: {axis: stage, stages: [[rows, a], [b, bn], [c, logits]]}
dims: {batch: {max: 32, opt: 8}}
weights: {init: {seed: 0}}
inputs: {x: "i32[batch, 6]", y: "i32[batch]"}
graph:
  table: {op: weight, type: "f64[20, 8]"}
  rows: sum(table[x], axis=1)
  a: {op: linear, in: rows, units: 8}
  b: {op: linear, in: relu(a), units: 8}
  bn: {op: batch_norm, in: b, axis: 1}
  c: {op: linear, in: relu(bn) + rows, units: 8}
  logits: matmul(c, transpose(table, [1, 0]))
outputs: [logits]
train:
  batch: batch
  accumulate: 4
  loss: mean(cross_entropy(logits, y))
  optimizer: {adamw: {lr: 0.05}}
  ema: {decay: 0.9}
"""


def plans_of(text: str, folder: Path, ranks: int, *kinds: str) -> dict[str, PhasePlan]:
    """Entries of training in phases, on ranks along `stage` alone."""
    path = folder / "spec.yaml"
    path.write_text(text, "utf-8")
    model, training = load_training(path)
    graphs = graphs_of(model, training)
    assert model.ranks is not None and model.ranks.pipeline is not None
    models = {kind: specialized(graphs.entry(kind), {"batch": 8}) for kind in kinds}
    kept = {tensor.name for tensor in graphs.state if not tensor.transient}
    step = StepModels(models, kinds, kept, [NUMBER])
    mesh = Mesh((("stage", ranks),))
    return step.plans(model.ranks.pipeline, mesh, 0, TARGET, Rates())[1]


def even_times(plan: PhasePlan) -> Mapping[PhasePlan, PhaseTimes]:
    """Forward passes of 1 second a stage and backward ones of 2, and messages that take no time;
    the last stage does both in one.
    """
    turns = [sum(other.stage == one.stage for other in plan.phases) for one in plan.phases]
    seconds = [
        3.0 if n == 1 else 2.0 if one.turn else 1.0
        for n, one in zip(turns, plan.phases, strict=True)
    ]
    none = {(one.source, one.rank): 0.0 for one in plan.messages}
    return {plan: PhaseTimes(tuple(seconds), none)}
