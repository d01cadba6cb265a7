"""Operations that a file defines: by their meaning, and by kernels for targets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from spec_models import codes, model, random, run

OP = """\
inputs: {x: "f32[2, 6]", w: "f32[6]"}
ops:
  gated:
    inputs: {a: "f32[*S, N]", b: "f32[N]"}
    outputs: {y: "f32[*S, ${N // 2}]"}
    params: {slope: 0.5}
    expr:
      half: a * b * $slope
      y: half[..., :${N // 2}]
"""


def test_custom_op_is_its_meaning(tmp_path: Path) -> None:
    found = model(
        tmp_path,
        OP
        + "graph: {y: 'gated(x, w, slope=2)', z: {op: gated, in: {b: w, a: x}}}\noutputs: [y, z]\n",
    )
    x, w = random(2, 6), random(6, seed=1)
    out = run(found, x=x, w=w)
    np.testing.assert_allclose(out["y"], (x * w * 2)[:, :3], rtol=1e-6)
    np.testing.assert_allclose(out["z"], (x * w * 0.5)[:, :3], rtol=1e-6)
    assert not any(n.op.mnemonic == "call" for n in found.graph.nodes())


def test_custom_op_with_kernels_stays_one_node(tmp_path: Path) -> None:
    (tmp_path / "gated.c").write_text("/* */")
    found = model(
        tmp_path, OP + "    kernels: {c: gated.c}\ngraph: {y: 'gated(x, w)'}\noutputs: [y]\n"
    )
    (call,) = [n for n in found.graph.nodes() if n.op.mnemonic == "custom_op"]
    assert call.name == "y" and found.kernels["gated"]["c"].name == "gated.c"
    x, w = random(2, 6), random(6, seed=1)
    np.testing.assert_allclose(run(found, x=x, w=w)["y"], (x * w * 0.5)[:, :3], rtol=1e-6)


def test_custom_op_types_must_agree(tmp_path: Path) -> None:
    text = OP.replace('w: "f32[6]"', 'w: "f32[5]"') + "graph: {y: 'gated(x, w)'}\noutputs: [y]\n"
    assert codes(tmp_path, text) == ["XL2009"]
