"""Random products of bytes are what NumPy says, to the bit, on several processors."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from graph_bytes import make
from processors import needs_processor

from xlac.driver import executable, lower
from xlac.ir.interpret import interpret
from xlac.model import Model
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

PROCESSORS = ("", "x86-64", "x86-64-v3")
BATCH = 6


@pytest.mark.parametrize("batch", range(40))
@pytest.mark.sampled(26)
def test_products_are_exact(batch: int) -> None:
    cpu = PROCESSORS[batch % len(PROCESSORS)]
    needs_processor(cpu)
    backend = find("cpu")
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        case = make(Random(seed))
        (want,) = interpret(case.graph, case.inputs, case.weights).values()
        lowered = lower(Model(case.graph, case.weights), backend.target(Request(cpu=cpu)))
        got = executable(lowered, backend)(**case.inputs)
        np.testing.assert_array_equal(np.asarray(got), want, err_msg=f"seed {seed}")
