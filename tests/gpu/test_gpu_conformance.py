"""Operations' own samples, through the schedules for a GPU, in the interpreter.

Every fourth primitive and a few composites, for the stand-in (tests/cuda) runs every primitive, and
contractions and sorts take the interpreter long: there are tests of their schedules beside this
one. With --all, everything.
"""

from __future__ import annotations

import pytest
from gpu_harness import SMALL, InterpretedGpu

from xlac.debug.conformance import check
from xlac.ir.composite import Composite
from xlac.ops import OPS

SLOW = ("conv", "attention", "dot", "sort")
SAMPLED = (
    "softmax",
    "log_softmax",
    "layer_norm",
    "group_norm",
    "batch_norm",
    "argmax",
    "cumsum",
    "max_pool2d",
    "scatter_nd",
    "gelu",
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    names = sorted(OPS)
    if not metafunc.config.getoption("--all"):
        names = [m for m in names if m in SAMPLED] + [
            m for m in names if not m.startswith(SLOW) and not issubclass(OPS[m], Composite)
        ][::4]
    metafunc.parametrize("mnemonic", names)


@pytest.mark.sampled(12)
def test_an_operation_computes_what_numpy_does(mnemonic: str) -> None:
    outcomes = check(OPS[mnemonic], InterpretedGpu(SMALL))
    assert not [f"{o.case}: {o.detail}" for o in outcomes if o.status != "passed"]
