"""What only a GPU can show (`make test-gpu`): NVIDIA's own checkers over a sample, and the arrays of other libraries."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from xlac.compiler import compile as compiled

SPECS = Path(__file__).parents[2] / "specs"
SAMPLE = Path(__file__).parent / "gpu_sample.py"


@pytest.fixture(autouse=True)
def only_on_a_gpu(on_gpu: bool) -> None:
    if not on_gpu:
        pytest.skip("needs a GPU: make test-gpu")


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_nvidias_checkers_find_nothing(tool: str) -> None:
    found = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    assert found, "compute-sanitizer is part of CUDA's toolkit"
    done = subprocess.run(
        [found, "--tool", tool, "--error-exitcode", "9", sys.executable, str(SAMPLE)],
        capture_output=True, text=True, check=False, env={**os.environ, "XLAC_CACHE": "off"},
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]


def test_tensors_of_pytorch_without_a_copy() -> None:
    torch = pytest.importorskip("torch")
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
