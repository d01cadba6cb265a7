"""Random products, convolutions and reductions are what float64 says, on several processors and
with two threads.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from graphs import tolerance
from processors import needs_processor
from random_sums import make

from xlac.driver import executable, lower
from xlac.ir.interpret import interpret
from xlac.model import Model
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

PROCESSORS = ("", "x86-64", "nehalem", "x86-64-v3")
BATCH = 4


@pytest.mark.parametrize("batch", range(400))
@pytest.mark.sampled(160)
def test_sums_agree_on_every_processor(batch: int) -> None:
    cpu, threads = PROCESSORS[batch % len(PROCESSORS)], 1 + batch // len(PROCESSORS) % 2
    needs_processor(cpu)
    backend = find("cpu")
    target = backend.target(Request(cpu=cpu, threads=threads))
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        case = make(Random(seed))
        expected = interpret(case.graph, case.inputs, case.weights, float64=True)
        program = executable(lower(Model(case.graph, case.weights), target), backend)
        what = f"seed {seed}, {cpu or 'this processor'}, {threads} threads"
        got, want = np.asarray(program(**case.inputs)), expected["y"]
        assert got.shape == want.shape, what
        used = {node.type.dtype for node in case.graph.nodes()}
        limit = max(map(tolerance, used)) * max(1.0, float(np.abs(want).max(initial=0)))
        a, b = got.astype(np.float64), want.astype(np.float64)
        np.testing.assert_allclose(a, b, rtol=0, atol=limit, err_msg=what)
