"""Every operation runs with an extent that the call chooses: at the usual size, twice that, and at
0, 1 and 2.
"""

from __future__ import annotations

import numpy as np
import pytest
from open_ops import difference, opened

from xlac.ir.composite import Composite
from xlac.ops import OPS
from xlac_sdk.host.registry import find

PRIMITIVES = sorted(m for m, op in OPS.items() if op.samples() and not issubclass(op, Composite))
IN_C = (
    "concat",
    "conv",
    "cumulative",
    "dot",
    "gather",
    "pad",
    "reduce",
    "reshape",
    "scatter",
    "slice",
    "sort",
    "window",
)


def agree(mnemonic: str, target: str, most: int) -> None:
    wrong = []
    for case in opened(OPS[mnemonic], most):
        usual = case.symbol.opt
        if case.expected(usual) is None:
            continue
        program = case.compiled(find(target))
        for size in (usual, 2 * usual, 1, 0, 2):
            expected = case.expected(size)
            if expected is None:
                continue
            got = program(**case.at(size))
            results = got if isinstance(got, dict) else {"y0": got}
            for name, want in expected.items():
                found = difference(np.asarray(results[name]), np.asarray(want))
                wrong += [f"{case.name} with n = {size}, {name}: {found}"] if found else []
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("mnemonic", PRIMITIVES)
@pytest.mark.sampled(6)
def test_an_extent_may_be_open(mnemonic: str) -> None:
    """The interpreter checks every access against the arrays of the call, and the arena is
    poisoned.
    """
    agree(mnemonic, "reference", 2)


@pytest.mark.parametrize("mnemonic", PRIMITIVES)
@pytest.mark.sampled(6)
def test_on_the_cpu(mnemonic: str) -> None:
    agree(mnemonic, "cpu", 1)


@pytest.mark.parametrize("mnemonic", IN_C)
@pytest.mark.sampled(6)
def test_in_c(mnemonic: str) -> None:
    agree(mnemonic, "c", 1)
