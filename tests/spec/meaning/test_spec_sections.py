"""The other sections of a file: what it includes, its state, its weights, how it trains, its
precision.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from spec_models import codes, model, random, run

from xlac.ops.tensor.leaf import Param
from xlac_sdk.source import UnsupportedError


def test_include_merges_by_name(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "base.yaml").write_text(
        "xlac: 1\ninclude: [more.yaml]\ninputs: {x: 'f32[3]'}\ngraph: {h: relu(x)}\n"
    )
    (tmp_path / "parts" / "more.yaml").write_text(
        "xlac: 1\ninclude: [base.yaml]\nparams: {k: 2}\ngraph: {y: h * $k}\noutputs: [y]\n"
    )
    found = model(tmp_path, "include: [parts/base.yaml]\noutputs: {h: h}\n")
    x = random(3)
    out = run(found, x=x)
    np.testing.assert_allclose(out["y"], np.maximum(x, 0) * 2)
    assert set(out) == {"h", "y"}


def test_state_is_kept_apart(tmp_path: Path) -> None:
    text = (
        "inputs: {x: 'f32[3]'}\nstate: {total: {type: 'f32[3]', next: y}, steps: {type: "
        "'i32[]', next: steps + 1}}\ngraph: {y: x + total}\noutputs: [y]\n"
    )
    found = model(tmp_path, text)
    assert found.state == {"total": "y", "steps": "steps.next"}
    kinds = {n.op.name: n.op.kind for n in found.graph.inputs if isinstance(n.op, Param)}
    assert kinds == {"x": "input", "total": "state", "steps": "state"}
    out = run(found, x=np.ones(3, np.float32), total=np.ones(3, np.float32), steps=np.int32(4))
    assert out["steps.next"] == 5 and out["y"][0] == 2


def test_weights_shared_given_and_alone(tmp_path: Path) -> None:
    text = """\
inputs: {x: "f32[2, 3]"}
weights: {init: {seed: 0}}
graph:
  table: {op: weight, type: "f32[3, 3]"}
  c: {op: constant, value: [[1, 2, 3]], dtype: f32}
  a: {op: linear, in: x, units: 3, weight: table}
  b: {op: linear, in: a, units: 3, weight: table, bias: "c[0]"}
  d: linear(b, units=3, weight=table, bias=a.0)
outputs: [b]
"""
    assert "XL2002" in codes(tmp_path, text)  # a.0 is no result
    found = model(tmp_path, re.sub(r"  d: .*\n", "", text))
    assert sorted(found.weights) == ["a.bias", "table"]
    x, w = random(2, 3), found.weights["table"]
    np.testing.assert_allclose(
        run(found, x=x)["b"], (x @ w.T) @ w.T + [1, 2, 3], rtol=1e-4, atol=1e-5
    )


def test_a_spec_that_trains_is_not_built_as_a_model(tmp_path: Path) -> None:
    text = """\
inputs: {x: "f32[B, 4]", label: "i32[B]"}
dims: {B: {max: 8}}
weights: {init: {seed: 0}}
graph: {logits: {op: linear, in: x, units: 3}}
outputs: [logits]
train:
  loss: mean(softmax_cross_entropy(logits, label))
  metrics: {accuracy: mean(argmax(logits, axis=-1) == label)}
  optimizer: {adamw: {lr: 1e-3, betas: [0.9, 0.999]}}
  wrt: ["logits.*"]
"""
    assert model(tmp_path, text, training=True).name == "model"
    with pytest.raises(UnsupportedError, match="XL5030"):  # whoever builds it means the model
        model(tmp_path, text)


def test_precision(tmp_path: Path) -> None:
    assert (
        model(
            tmp_path, "inputs: {x: 'f32[3]'}\ngraph: {y: x + 1}\noutputs: [y]\nprecision: fast\n"
        ).precision
        == "fast"
    )
