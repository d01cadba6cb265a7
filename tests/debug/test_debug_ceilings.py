"""The kernels that measure the machine do the work that they are counted for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from xlac.cli import root
from xlac.debug import ceilings
from xlac_sdk.host.registry import find
from xlac_sdk.interpreter.kernels import run_kernel
from xlac_sdk.kernel_ir.kernel import Access
from xlac_sdk.target import Request

SPECS = Path(__file__).parents[2] / "specs"


@pytest.mark.parametrize("kernel", ["_arithmetic", "_reading"])
def test_kernels_do_what_they_are_counted_for(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "ROUNDS", 3)
    monkeypatch.setattr(ceilings, "BYTES", 1 << 14)
    monkeypatch.setattr(ceilings, "CHUNKS", 4)
    target = find("cpu").target(Request())
    made = getattr(ceilings, kernel)(target)
    buffers = {
        b.name: np.arange(b.size, dtype=np.float32) * (b.access is Access.READ)
        for b in made.parameters
    }
    run_kernel(made, buffers)
    lanes = target.lanes(made.parameters[0].dtype)
    if kernel == "_reading":
        assert buffers["y"].sum() == buffers["x"].sum(), "every element is read once"
        assert made.work.bytes == buffers["x"].nbytes
    else:
        sums = np.arange(ceilings.CHAINS, dtype=np.float64)
        for _ in range(3):
            sums = sums * np.float32(0.999) + np.float32(0.999)
        np.testing.assert_allclose(buffers["y"], sums.sum(), rtol=1e-6)
        assert made.work.flops == 4 * 3 * ceilings.CHAINS * lanes * 2


def test_bench_tells_shares_of_the_ceilings() -> None:
    quick = ["bench", str(SPECS / "digits.yaml"), "--seconds", "0.02"]
    found = json.loads(CliRunner().invoke(root, [*quick, "--json"]).stdout)
    assert found["ceiling_gflops_per_second"] > 0 and found["ceiling_gbytes_per_second"] > 0
    assert found["bytes"] > 0 and abs(sum(found["shares"].values()) - 1) < 1e-6
    told = CliRunner().invoke(root, quick).output
    assert "that this machine does" in told and "that memory gives" in told and "dot_0" in told
