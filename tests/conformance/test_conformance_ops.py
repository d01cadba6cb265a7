"""Every operation, over every dtype and shape of its samples, means what NumPy says.

Primitives on every backend; composites, which expand to them alike everywhere, on cpu. `make
conformance` has all of them on all backends, and so has `--all`.
"""

from __future__ import annotations

import pytest

from xlac.debug.conformance import check
from xlac.ir.composite import Composite
from xlac.ops import OPS
from xlac_sdk.host.registry import find

TARGETS = ("cpu", "c", "reference")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    every = metafunc.config.getoption("--all")
    names = sorted(m for m, op in OPS.items() if op.samples())
    cases = [
        (m, t)
        for m in names
        for t in TARGETS
        if every or t == "cpu" or not issubclass(OPS[m], Composite)
    ]
    metafunc.parametrize(("mnemonic", "target"), cases)


@pytest.mark.sampled(40)
def test_op_conforms(mnemonic: str, target: str) -> None:
    outcomes = check(OPS[mnemonic], find(target))
    failed = [f"{o.case}\n    {o.detail}" for o in outcomes if o.status != "passed"]
    assert outcomes and not failed, f"{len(failed)} of {len(outcomes)} cases:\n" + "\n".join(failed)
