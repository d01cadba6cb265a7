"""What only a GPU can show (`make test-gpu`): NVIDIA's own checkers over a sample, and the arrays
of other libraries.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from xlac.api import compile as compiled
from xlac_cuda.device.open import gpu
from xlac_cuda.run.conditions import BRANCHES, LOOPS
from xlac_cuda.run.graph import LaunchGraph

SPECS = Path(__file__).parents[2] / "specs"
SAMPLE = Path(__file__).parent / "gpu_sample.py"
FAULT = Path(__file__).parent / "gpu_fault.py"


@pytest.fixture(autouse=True)
def only_on_a_gpu(on_gpu: bool) -> None:
    if not on_gpu:
        pytest.skip("needs a GPU: make test-gpu")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_nvidias_checkers_find_nothing(tool: str) -> None:
    found = shutil.which("compute-sanitizer") or shutil.which(
        "/usr/local/cuda/bin/compute-sanitizer"
    )
    if found is None:
        pytest.skip(
            "compute-sanitizer is not installed (it is part of CUDA's toolkit): no kernel was "
            "checked for races"
        )
    done = subprocess.run(
        [found, "--tool", tool, "--error-exitcode", "9", sys.executable, str(SAMPLE)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "XLAC_CACHE": "off"},
    )
    told = done.stdout + done.stderr
    if "Device not supported" in told:
        pytest.skip(
            "compute-sanitizer cannot watch this machine's GPU: no kernel was checked for races"
        )
    assert done.returncode == 0, told[-6000:]


def test_the_gpu_decides_loops_and_branches() -> None:
    needed = {"loop_while": LOOPS, "branch_cond": BRANCHES}
    for name, version in needed.items():
        model = compiled(SPECS / f"{name}.yaml", target="cuda")
        x = np.linspace(0.5, 9, 64, dtype=np.float32)
        if name == "loop_while":
            assert np.allclose(model(x)["root"], np.sqrt(x), rtol=1e-5)
        else:
            for choice, want in enumerate((np.maximum(x, 0), np.tanh(x), -x)):
                found = model(x=x.reshape(8, 8), flag=np.bool_(True), choice=np.int32(choice))
                assert np.allclose(found["one"].reshape(-1), want, rtol=1e-5)
        (parts,) = model.executable._parts.values()
        assert all(isinstance(part, LaunchGraph) for part in parts) is (
            gpu().driver.version >= version
        ), "refused by the driver"


def test_a_kernel_that_fails_is_named(tmp_path: Path) -> None:
    """In a process of its own, as its context ends."""
    done = subprocess.run(
        [sys.executable, str(FAULT), str(SPECS)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def test_tensors_of_pytorch_without_a_copy() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch is not built for CUDA")
    model = compiled(SPECS / "softmax.yaml", target="cuda")
    x = torch.randn(1024, 1024, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        scaled = x * 2
        found = torch.from_dlpack(model(scaled))
        assert torch.allclose(found, torch.softmax(scaled, dim=-1), atol=1e-6)
    again = torch.from_dlpack(model(x))
    torch.cuda.synchronize()
    assert torch.allclose(again, torch.softmax(x, dim=-1), atol=1e-6)


def test_arrays_of_cupy_without_a_copy() -> None:
    cupy = pytest.importorskip("cupy")
    model = compiled(SPECS / "softmax.yaml", target="cuda")
    x = cupy.random.standard_normal((1024, 1024), dtype=cupy.float32)
    found = cupy.asarray(model(x))
    powers = cupy.exp(x - x.max(axis=-1, keepdims=True))
    assert cupy.allclose(found, powers / powers.sum(axis=-1, keepdims=True), atol=1e-6)
