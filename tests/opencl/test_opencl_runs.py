"""Programs on a device with OpenCL: the conformance kit and every operation with the facts of both
kinds, and models beside the cpu backend's results.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.debug.conformance import check as check_op
from xlac.frontends.loader import load
from xlac.ops import OPS
from xlac_opencl import BACKEND
from xlac_opencl.device import OpenCLDevice
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
@pytest.mark.sampled(32)
def test_it_conforms(device: object, arch: str, case: ConformanceCase) -> None:
    wrong = [
        f"{o.case}: {o.detail}" for o in check(case, BACKEND, target(arch)) if o.status != "passed"
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("mnemonic", sorted(m for m, op in OPS.items() if op.samples()))
@pytest.mark.parametrize("arch", KINDS)
@pytest.mark.sampled(120)
def test_an_operation_conforms(device: object, arch: str, mnemonic: str) -> None:
    outcomes = check_op(OPS[mnemonic], BACKEND, Request(arch=arch))
    wrong = [f"{o.case}\n    {o.detail}" for o in outcomes if o.status != "passed"]
    assert outcomes and not wrong, f"{len(wrong)} of {len(outcomes)} cases:\n" + "\n".join(wrong)


@pytest.mark.parametrize("arch", KINDS)
def test_digits_as_on_the_cpu(device: object, arch: str) -> None:
    spec = str(ROOT / "specs" / "digits.yaml")
    ours, theirs = xlac.compile(spec, "opencl", arch=arch), xlac.compile(spec, "cpu")
    images = np.random.default_rng(0).random((32, 64), np.float32)
    np.testing.assert_allclose(ours(images), theirs(images), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("arch", KINDS)
def test_large_arrays_lie_anywhere(device: object, arch: str, tmp_path: Path) -> None:
    """Memory that the device shares with the host is used in place only where vectors are aligned
    in it; a kernel's wide access elsewhere ends the process.
    """
    count = 1 << 18
    spec = f'xlac: 1\ninputs: {{x: "f32[{count}]"}}\noutputs: {{y: x + 1}}\n'
    (tmp_path / "sum.yaml").write_text(spec)
    model = xlac.compile(tmp_path / "sum.yaml", "opencl", arch=arch)
    room, made = np.arange(count + 32, dtype=np.float32), np.zeros(count + 32, np.float32)
    for start in range(5):
        x, y = room[start : start + count], made[start : start + count]
        model.run({"x": x}, out={"y": y})
        np.testing.assert_array_equal(y, x + 1)


@pytest.mark.parametrize("spec", ["digits", "lstm_3x60"])
def test_memory_that_the_host_sees_is_as_good(
    device: Any, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shared virtual memory, where the device has it, and memory objects give the same."""
    made = OpenCLDevice.__init__

    def plain(self: OpenCLDevice, text: Path, device: object) -> None:
        made(self, text, device)
        self.fine = False

    model = load(str(ROOT / "specs" / f"{spec}.yaml"))
    rng = np.random.default_rng(0)
    shapes = [tuple(n if isinstance(n, int) else 3 for n in x.shape) for x in model.graph.inputs]
    given = [rng.random(shape, np.float32) for shape in shapes]
    results = []
    for initial in (made, plain):
        monkeypatch.setattr(OpenCLDevice, "__init__", initial)
        results.append(xlac.compile(str(ROOT / "specs" / f"{spec}.yaml"), "opencl")(*given))
    np.testing.assert_equal(*results)
