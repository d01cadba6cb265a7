"""Long sums keep their digits on GPUs: the schedules of two sets of facts, run by the interpreter,
within docs/SPEC.md's bounds.
"""

from __future__ import annotations

import numpy as np
import pytest
from gpu_harness import LARGE, SMALL, lowered, run
from long_sums import SMALL as CASES
from long_sums import off

from xlac_sdk.target import Target


def check(name: str, target: Target) -> None:
    node, feeds, exact, bound = CASES[name](100)
    (found,) = run(lowered(node, target=target).program, feeds).values()
    assert off(np.asarray(found), exact, np.maximum(np.abs(exact), 1e-30)) <= bound


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", CASES)
def test_sums_keep_their_digits(name: str) -> None:
    check(name, SMALL)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["all", "few columns", "running"])
def test_sums_of_many_blocks_keep_their_digits(name: str) -> None:
    check(name, LARGE)
