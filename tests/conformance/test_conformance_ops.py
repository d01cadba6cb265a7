"""Every operation, on every backend, over every dtype and shape of its samples, means what NumPy says."""

from __future__ import annotations

import pytest

from xlac.debug.conformance import check
from xlac.ops import OPS
from xlac_sdk.registry import find

TARGETS = ("cpu", "c", "reference")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mnemonic", sorted(m for m, op in OPS.items() if op.samples()))
def test_op_conforms(mnemonic: str, target: str) -> None:
    outcomes = check(OPS[mnemonic], find(target))
    failed = [f"{o.case}\n    {o.detail}" for o in outcomes if o.status != "passed"]
    assert outcomes and not failed, f"{len(failed)} of {len(outcomes)} cases:\n" + "\n".join(failed)
