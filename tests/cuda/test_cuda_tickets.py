"""Sums that blocks share and the last of them ends: the same in any order of blocks, and at the
next call again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cuda_harness import ARCH, Counts, OnStandin

from xlac.driver import executable, lower
from xlac.ir.dims import symbol, symbols
from xlac.ir.graph import Graph, Node
from xlac.model import Model
from xlac.ops import build
from xlac_cuda.architectures import described
from xlac_sdk.dtypes import DType

FEW = replace(described(ARCH), processors=4)
"""A GPU on which a few thousand elements are worth several blocks."""


def model(y: Node, *inputs: Node) -> Model:
    open_sizes = {s.name: s for x in inputs for size in x.shape for s in symbols(size)}
    return Model(Graph("sum", inputs, {"y": y}), {}, dims=open_sizes)


@pytest.mark.parametrize("seed", ["", "3", "8"])
def test_the_last_block_adds_what_all_have_found(
    counts: Counts, monkeypatch: pytest.MonkeyPatch, seed: str
) -> None:
    if seed:
        monkeypatch.setenv("STANDIN_SEED", seed)
    x, y = (build.param(name, DType.F32, (20000,)) for name in "xy")
    lowered = lower(model(build.reduce(build.mul(x, y), "add"), x, y), FEW)
    (kernel,) = lowered.program.kernels
    assert kernel.work.bytes == 2 * 20000 * 4 + 4
    called = executable(lowered, OnStandin(watched=True))
    rng = np.random.default_rng(0)
    found = set()
    for _ in range(3):
        a, b = (rng.standard_normal(20000).astype(np.float32) for _ in range(2))
        result = called(x=a, y=b)
        np.testing.assert_allclose(result, np.dot(a.astype(np.float64), b), rtol=1e-4)
        found.add(float(called(x=a, y=b)) - float(result))
    assert found == {0.0}, counts.fault


def test_columns_and_open_sizes(counts: Counts) -> None:
    x = build.param("x", DType.F32, (symbol("n", 1, 40000, 20000), 3))
    lowered = lower(model(build.reduce(x, "max", 0), x), FEW)
    assert len(lowered.program.kernels) == 1
    called = executable(lowered, OnStandin(watched=True))
    for rows in (20000, 7, 33333):
        values = np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)
        np.testing.assert_array_equal(called(x=values), values.max(0), counts.fault)
