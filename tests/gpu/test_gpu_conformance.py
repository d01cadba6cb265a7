"""Every operation's own samples, through the schedules for a GPU, in the interpreter."""

from __future__ import annotations

import pytest
from gpu_harness import SMALL, InterpretedGpu

from xlac.debug.conformance import check
from xlac.ops import OPS

SLOW = ("conv", "attention", "dot", "einsum", "matmul", "linear", "lstm", "gru", "rnn")  # contractions: minutes, with --all


@pytest.mark.parametrize("mnemonic", sorted(OPS))
def test_an_operation_computes_what_numpy_does(mnemonic: str, request: pytest.FixtureRequest) -> None:
    if mnemonic.startswith(SLOW) and not request.config.getoption("--all"):
        pytest.skip("contractions take minutes: run with --all")
    outcomes = check(OPS[mnemonic], InterpretedGpu(SMALL))
    assert not [f"{o.case}: {o.detail}" for o in outcomes if o.status != "passed"]
