"""The bound that is promised for f32, 2 ulp, as machine code keeps it: all floats from end to end,
more of them with --all.
"""

from __future__ import annotations

import pytest
from math_compiled import EXACT, worst
from processors import needs_processor

from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive
FUNCTIONS = (*EXACT, P.POW)
WITHOUT_FMA = {P.GELU: 2.1}
FEW, MANY = 1 << 14, 97  # every so manieth float


@pytest.mark.parametrize("primitive", FUNCTIONS, ids=lambda p: p.value)
@pytest.mark.sampled(2)
def test_functions_keep_two_ulp(primitive: P, request: pytest.FixtureRequest) -> None:
    most, at = worst(primitive, MANY if request.config.getoption("--all") else FEW)
    assert most <= 2.0, f"{most} at {at}"


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("primitive", FUNCTIONS, ids=lambda p: p.value)
@pytest.mark.sampled(26)
def test_on_older_processors_too(primitive: P, cpu: str, request: pytest.FixtureRequest) -> None:
    needs_processor(cpu)
    most, at = worst(primitive, MANY if request.config.getoption("--all") else FEW, cpu)
    assert most <= (WITHOUT_FMA.get(primitive, 2.0) if cpu == "x86-64-v2" else 2.0), (
        f"{most} at {at}"
    )
