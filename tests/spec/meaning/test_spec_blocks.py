"""Blocks that repeat: the names of their copies' weights, and how copies are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from spec_models import codes, model, random, run

BLOCK = """\
inputs: {x: "f32[2, 4]"}
weights: {init: {seed: 0}}
blocks:
  layer:
    params: {width: null, act: relu, extra: false}
    inputs: [a]
    graph:
      h: {op: linear, in: a, units: $width}
      t: {op: $act, in: h}
      u: {op: tanh, in: t, when: $extra, else: t}
    outputs: {out: u, raw: h}
graph:
"""


def test_repeat_first_last_and_addresses(tmp_path: Path) -> None:
    text = BLOCK + (
        "  s: {block: layer, in: x, with: {width: 5}, repeat: 3, first: {extra: true}, last: "
        "{width: 2, act: identity}}\n"
        "outputs: {y: s, a: s.0.raw, b: s.last.out, c: s.raw.0, d: s.1.h}\n"
    )
    found = model(tmp_path, text)
    x = random(2, 4)
    out, w = run(found, x=x), found.weights
    h = x @ w["s.0.h.weight"].T + w["s.0.h.bias"]
    np.testing.assert_allclose(out["a"], h, rtol=1e-5)
    np.testing.assert_allclose(out["c"], h, rtol=1e-5)
    h = np.tanh(np.maximum(h, 0)) @ w["s.1.h.weight"].T + w["s.1.h.bias"]
    np.testing.assert_allclose(out["d"], h, rtol=1e-5, atol=1e-6)
    h = np.maximum(h, 0) @ w["s.2.h.weight"].T + w["s.2.h.bias"]
    np.testing.assert_allclose(out["y"], h, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(out["b"], out["y"])
    assert sorted(w) == sorted(f"s.{i}.h.{n}" for i in range(3) for n in ("weight", "bias"))


def test_copies_are_stacked_where_one_tensor_is_wanted(tmp_path: Path) -> None:
    text = BLOCK + (
        "  s: {block: layer, in: x, with: {width: 4}, repeat: 3}\n  all: s.raw * 2\noutputs: "
        "{y: all, last: s.raw.last}\n"
    )
    out = run(model(tmp_path, text), x=random(2, 4))
    assert out["y"].shape == (3, 2, 4)
    np.testing.assert_allclose(out["y"][2], out["last"] * 2)
    text = text.replace("with: {width: 4}", "with: {width: 4}, first: {width: 4}").replace(
        "repeat: 3}", "repeat: 3, last: {width: 2}}"
    )
    assert codes(tmp_path, text) == ["XL2012"]


def test_index_and_chain(tmp_path: Path) -> None:
    text = """\
inputs: {x: "f32[4]", k: "f32[3, 4]"}
blocks:
  step: {params: {scale: 1}, inputs: [a, b, c],
         graph: {s: a * $scale + b, t: c - s}, outputs: {p: s, q: t}}
graph:
  l: {block: step, in: [x, k, x], with: {scale: "${index + 1}"}, repeat: 3,
      index: [b], chain: {a: q, c: p}}
outputs: {p: l.p.last, q: l.q.last}
"""
    x, k = random(4), random(3, 4, seed=1)
    a = c = x
    for i in range(3):
        s = a * (i + 1) + k[i]
        a, c = c - s, s
    out = run(model(tmp_path, text), x=x, k=k)
    np.testing.assert_allclose(out["p"], c, rtol=1e-5)
    np.testing.assert_allclose(out["q"], a, rtol=1e-5)


def test_blocks_multiply_only_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xlac.spec.elaborate.context.MAX_NODES", 2000)
    blocks = "".join(
        (
            f"  b{i}: {{inputs: [v], graph: {{w: {{block: b{i + 1}, in: v, repeat: 100}}}}, "
            "outputs: "
            "[w]}\n"
        )
        for i in range(5)
    )
    text = (
        f"inputs: {{x: 'f32[2]'}}\nblocks:\n{blocks}  b5: {{inputs: [v], graph: {{w: "
        "relu(v)}, outputs: [w]}\ngraph: {y: {block: b0, in: x}}\noutputs: [y]\n"
    )
    assert "XL4018" in codes(tmp_path, text)
