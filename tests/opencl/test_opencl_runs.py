"""Programs on a device with OpenCL: the conformance kit with the facts of both kinds, and models
beside the cpu backend's results.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import xlac
from xlac_opencl import BACKEND
from xlac_sdk.conformance import ConformanceCase, cases, check
from xlac_sdk.target import Request, Target

ROOT = Path(__file__).parents[2]
KINDS = ("gpu", "cpu")


@cache
def target(arch: str) -> Target:
    """This machine's device with facts of that kind."""
    return BACKEND.target(Request(arch=arch))


CHOSEN = [
    (arch, case)
    for arch in KINDS
    for case in cases(BACKEND.target(Request(arch=f"generic-{arch}")))
]


@pytest.mark.parametrize(("arch", "case"), CHOSEN, ids=[f"{a}-{c.name}" for a, c in CHOSEN])
@pytest.mark.sampled(16)
def test_it_conforms(device: object, arch: str, case: ConformanceCase) -> None:
    wrong = [
        f"{o.case}: {o.detail}" for o in check(case, BACKEND, target(arch)) if o.status != "passed"
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("arch", KINDS)
def test_digits_as_on_the_cpu(device: object, arch: str) -> None:
    spec = str(ROOT / "specs" / "digits.yaml")
    ours, theirs = xlac.compile(spec, "opencl", arch=arch), xlac.compile(spec, "cpu")
    images = np.random.default_rng(0).random((32, 64), np.float32)
    np.testing.assert_allclose(ours(images), theirs(images), rtol=1e-5, atol=1e-6)
