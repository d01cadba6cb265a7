"""Derivatives and batches of operations with hand-written kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from custom_ops import GATED, SPEC, random, written

from xlac.autodiff.gradient import linearize
from xlac.batching.along import Along
from xlac.batching.walk import Batch
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ops.control.custom_op import CustomOp
from xlac.ops.tensor.leaf import Param, param
from xlac.ops.walks import fresh
from xlac.spec.load import load


def own(graph: Graph) -> list[CustomOp]:
    return [n.op for n in graph.nodes() if isinstance(n.op, CustomOp)]


@pytest.mark.parametrize("batch", ["", "    batch: S\n"])
def test_a_batch_is_one_call_where_the_operation_says_so(tmp_path: Path, batch: str) -> None:
    spec = SPEC.replace("    kernels", f"{batch}    kernels")
    spec = spec.replace('b: "f32[N]"', 'b: "f32[*S, N]"').replace('w: "f32[6]"', 'w: "f32[4, 6]"')
    graph = load(written(tmp_path, "c", GATED, spec)).graph
    given = {
        i: Node.of(Param(param(i).name, i.type.with_shape((3, *i.shape)))) for i in graph.inputs
    }
    found = Batch({i: Along(n, True) for i, n in given.items()}, 3).run(graph.outputs.values())
    batched = Graph("batched", tuple(given.values()), {"y": found[0].node})
    ops = own(batched)
    assert len(ops) == bool(batch)
    if ops:
        assert dict(ops[0].sizes)["S"] == 12
    x, w = random(3, 4, 6), random(3, 4, 6, seed=1)
    np.testing.assert_allclose(
        interpret(batched, {"x": x, "w": w}, {})["y"], (x + 1) * w * 6, rtol=1e-5
    )


def test_the_kernel_stays_beside_its_derivative(tmp_path: Path) -> None:
    """The results are the kernel's, what is differentiated is the meaning."""
    graph = load(written(tmp_path, "c")).graph
    (y,) = graph.outputs.values()
    found = linearize([y], list(graph.inputs))
    (ct,) = fresh([y.type], "ct")
    back = found.transposed([ct])
    outputs = {"y": found.values[0], "dx": back[0], "dw": back[1]}
    both = Graph("both", (*graph.inputs, ct), outputs)
    assert len(own(both)) == 1
    x, w, given = random(4, 6), random(6, seed=1), random(4, 6, seed=2)
    got = interpret(both, {"x": x, "w": w, param(ct).name: given}, {})
    np.testing.assert_allclose(got["y"], (x + 1) * w * 6, rtol=1e-5)
    np.testing.assert_allclose(got["dx"], given * w * 6, rtol=1e-5)
    np.testing.assert_allclose(got["dw"], (given * (x + 1) * 6).sum(0), rtol=1e-4, atol=1e-4)
