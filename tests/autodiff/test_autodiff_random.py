"""Random graphs: changes that are pushed forwards are the transpose of those that are pulled back.

There are 500 graphs, of which `make test` runs a tenth; `make fuzz` makes 2,000. All is computed in
float64, whatever the types.
"""

from __future__ import annotations

import os
from random import Random

import numpy as np
import pytest
from differences import evaluated
from graphs import Case, make

from xlac.autodiff.gradient import linearize
from xlac.ops import build

COUNT = int(os.environ.get("XLAC_FUZZ_GRAPHS", "500"))
BATCH = 10  # graphs of one test


def check(case: Case, seed: int) -> None:
    outputs = [n for n in case.graph.outputs.values() if n.type.dtype.is_float]
    wrt = [n for n in case.graph.inputs if n.type.dtype.is_float]
    if not outputs or not wrt:
        return
    found = linearize(outputs, wrt)
    weights = [build.param(f"w{n}", o.type.dtype, o.shape) for n, o in enumerate(outputs)]
    back = found.transposed(list(weights))
    rng = np.random.default_rng(seed)
    t = {
        f"t{n}": rng.integers(-2, 3, s.shape).astype(s.type.dtype.numpy) for n, s in enumerate(wrt)
    }  # type: ignore[arg-type]
    w = {
        f"w{n}": rng.integers(-2, 3, o.shape).astype(o.type.dtype.numpy)
        for n, o in enumerate(outputs)
    }  # type: ignore[arg-type]
    inputs = case.graph.inputs
    forwards = evaluated(
        [*inputs, *found.sources], found.tangents, {**case.inputs, **t}, case.weights, True
    )
    backwards = evaluated([*inputs, *weights], back, {**case.inputs, **w}, case.weights, True)
    if not all(np.all(np.isfinite(a)) for a in (*forwards, *backwards)):
        return
    pairs = (
        [*((f, w[f"w{n}"]) for n, f in enumerate(forwards))],
        [*((b, t[f"t{n}"]) for n, b in enumerate(backwards))],
    )
    left, right = (sum(float(np.sum(a * b.astype(np.float64))) for a, b in part) for part in pairs)
    scale = 1 + sum(
        float(np.sum(np.abs(a * b.astype(np.float64)))) for part in pairs for a, b in part
    )
    assert abs(left - right) <= 1e-9 * scale, f"forwards {left}, backwards {right}"


@pytest.mark.sampled(20)
@pytest.mark.parametrize("batch", range(-(-COUNT // BATCH)))
def test_random_graphs(batch: int) -> None:
    for number in range(batch * BATCH, (batch + 1) * BATCH):
        case = make(Random(f"derivatives {number}"))
        try:
            check(case, number)
        except AssertionError as error:
            raise AssertionError(f"graph {number}: {error}") from error
