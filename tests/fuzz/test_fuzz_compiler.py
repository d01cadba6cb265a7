"""Random graphs: fused on the CPU, unfused on the CPU, and NumPy in float64 all say the same.

`make fuzz` runs 2,000 graphs; `make test` a few, others each time the count or the seed changes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from random import Random
from typing import Any

import numpy as np
import pytest
from graph_seams import seams
from graphs import Case, make

from xlac.driver import executable, lower
from xlac.ir.interpret import interpret
from xlac.model import Model
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

COUNT = int(os.environ.get("XLAC_FUZZ_GRAPHS", "60"))
BATCH = 10  # graphs of one test

RELATIVE = {DType.F64: 1e-9, DType.F32: 2e-4, DType.F16: 4e-2, DType.BF16: 2.5e-1}


def compiled(case: Case, target: str, fuse: bool) -> Mapping[str, Any]:
    backend = find(target)
    lowered = lower(Model(case.graph, case.weights), backend.target(Request()), fuse=fuse)
    program = executable(lowered, backend)
    found = program(**case.inputs)
    return found if isinstance(found, dict) else {program.outputs[0]: found}


def compare(found: Mapping[str, Any], expected: Mapping[str, Any], case: Case, what: str) -> None:
    """Outputs of halves are compared by the coarsest dtype that the graph computes in."""
    coarsest = max(
        (RELATIVE[t.dtype] for n in case.graph.nodes() for t in n.results if t.dtype.is_float),
        default=0.0,
    )
    for name, want in expected.items():
        got = np.asarray(found[name])
        assert got.shape == want.shape, f"{what}: {name}"
        if DType.of(got.dtype).is_float:
            scale = max(1.0, float(np.abs(want).max(initial=0.0)))
            np.testing.assert_allclose(
                got.astype(np.float64) / scale,
                want.astype(np.float64) / scale,
                rtol=0,
                atol=coarsest,
                err_msg=f"{what}: {name}",
            )
        else:
            np.testing.assert_array_equal(got, want, err_msg=f"{what}: {name}")


@pytest.mark.parametrize("batch", range(-(-COUNT // BATCH)))
@pytest.mark.sampled(2)
def test_random_graphs_agree(batch: int) -> None:
    for seed in range(batch * BATCH, min((batch + 1) * BATCH, COUNT)):
        case = make(Random(seed), more=(seams,) * 3)
        expected = interpret(case.graph, case.inputs, case.weights, float64=True)
        for fuse in (True, False):
            compare(
                compiled(case, "cpu", fuse),
                expected,
                case,
                f"seed {seed}, {'fused' if fuse else 'unfused'}",
            )
