"""Random graphs through the schedules for a GPU, fused and unfused, beside NumPy in float64;
XLAC_FUZZ_GRAPHS says how many.
"""

from __future__ import annotations

import os
from random import Random

import numpy as np
import pytest
from gpu_harness import LARGE, SMALL, InterpretedGpu
from graphs import make

from xlac.driver import executable, lower
from xlac.ir.interpret import interpret
from xlac.model import Model
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

COUNT = int(os.environ.get("XLAC_FUZZ_GRAPHS", "16"))
TOLERANCE = {DType.F64: 1e-9, DType.F32: 2e-4, DType.F16: 4e-2, DType.BF16: 2.5e-1}


@pytest.mark.parametrize("target", [SMALL, LARGE], ids=lambda t: t.name)
@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.sampled(8)
def test_random_graphs_agree(target: Target, fuse: bool, request: pytest.FixtureRequest) -> None:
    """Every graph on one of the targets, every other one unfused too; with --all each in all four
    ways.
    """
    every = request.config.getoption("--all")
    for seed in range(COUNT) if every else range(target is LARGE, COUNT, 2 if fuse else 4):
        case = make(Random(seed))
        wanted = interpret(case.graph, case.inputs, case.weights, float64=True)
        program = executable(
            lower(Model(case.graph, case.weights), target, fuse=fuse), InterpretedGpu(target)
        )
        result = program(**case.inputs)
        found = result if isinstance(result, dict) else {program.outputs[0]: result}
        floats = [t.dtype for n in case.graph.nodes() for t in n.results if t.dtype.is_float]
        # of the coarsest that the graph computes in
        tolerance = max((TOLERANCE[dtype] for dtype in floats), default=0.0)
        for name, want in wanted.items():
            exact = np.asarray(want, np.float64)
            scale = max(1.0, float(np.abs(exact).max(initial=0.0)))
            np.testing.assert_allclose(
                np.asarray(found[name], np.float64) / scale,
                exact / scale,
                rtol=0,
                atol=tolerance,
                err_msg=f"seed {seed}: {name}",
            )
