"""Loops and branches: what they capture, how long they run, and which branch is taken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from spec_models import model, random, run


def test_scan_captures_weights_and_values(tmp_path: Path) -> None:
    text = """\
inputs: {x: "f32[5, 2, 4]", bias: "f32[4]"}
weights: {init: {seed: 3}}
graph:
  start: zeros([2, 4])
  loop:
    scan: {row: x}
    reverse: true
    carry: {h: start}
    body:
      mixed: {op: linear, in: row + h, units: 4, bias: false}
      n: tanh(mixed + bias)
    next: {h: n}
    stack: {y: n, twice: n * 2}
outputs: {h: loop.h, y: loop.y, twice: loop.twice}
"""
    found = model(tmp_path, text)
    assert list(found.weights) == ["loop.mixed.weight"]
    x, bias = random(5, 2, 4), random(4, seed=1)
    out = run(found, x=x, bias=bias)
    h, w = np.zeros((2, 4)), found.weights["loop.mixed.weight"]
    for t in reversed(range(5)):
        h = np.tanh((x[t] + h) @ w.T + bias)
        np.testing.assert_allclose(out["y"][t], h, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(out["h"], h, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(out["twice"], out["y"] * 2)


def test_scan_of_a_length(tmp_path: Path) -> None:
    text = (
        "inputs: {x: 'f32[3]'}\ngraph:\n  l: {scan: {}, length: 4, carry: {h: x}, next: {h: h "
        "* 2}}\noutputs: {y: l.h}\n"
    )
    x = random(3)
    np.testing.assert_allclose(run(model(tmp_path, text), x=x)["y"], x * 16)


def test_loops_inside_loops(tmp_path: Path) -> None:
    text = """\
inputs: {x: "f32[3, 4]", k: "f32[]"}
graph:
  outer:
    scan: {row: x}
    carry: {total: 0.0}
    body:
      inner:
        while: count < 3
        carry: {count: 0, v: row}
        next: {count: count + 1, v: v * k}
      part: sum(inner.v)
    next: {total: total + part}
outputs: {y: outer.total}
"""
    x = random(3, 4)
    np.testing.assert_allclose(
        run(model(tmp_path, text), x=x, k=np.float32(1.5))["y"], (x * 1.5**3).sum(), rtol=1e-5
    )


@pytest.mark.parametrize(("on", "expected"), [(0, 1), (1, 2), (2, 3), (7, 3), (-1, 3)])
def test_cond_by_number(on: int, expected: int, tmp_path: Path) -> None:
    text = (
        "inputs: {x: 'f32[2]', i: 'i64[]'}\ngraph:\n  y: {cond: i, branches: [x * 1, x * 2, x "
        "* 3]}\noutputs: [y]\n"
    )
    x = random(2)
    np.testing.assert_allclose(run(model(tmp_path, text), x=x, i=np.int64(on))["y"], x * expected)


@pytest.mark.parametrize("flag", [True, False])
def test_cond_by_flag_with_graphs(flag: bool, tmp_path: Path) -> None:
    text = """\
inputs: {x: "f32[2]", flag: "bool[]"}
graph:
  c:
    cond: flag
    then: {body: {a: x + 1, b: a * 2}, outputs: {p: a, q: b}}
    else: {outputs: {p: x, q: -x}}
outputs: {p: c.p, q: c.q}
"""
    x = random(2)
    out = run(model(tmp_path, text), x=x, flag=np.bool_(flag))
    np.testing.assert_allclose(out["p"], x + 1 if flag else x)
    np.testing.assert_allclose(out["q"], (x + 1) * 2 if flag else -x)
