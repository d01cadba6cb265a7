"""Fixtures of the cuda backend's tests: the backend on the stand-in driver, or with --gpu on this
machine's GPU.
"""

from __future__ import annotations

import gc
import shutil
from collections.abc import Iterator

import pytest
from cuda_harness import Counts, OnStandin, standin

from xlac_cuda.backend import CudaBackend


@pytest.fixture
def on_gpu(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--gpu"))


@pytest.fixture
def counts(on_gpu: bool, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counts]:
    """The stand-in is the driver; afterwards nothing that it gave may be held."""
    if on_gpu:
        pytest.skip("the stand-in is not asked where there is a GPU")
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    with standin(monkeypatch) as found:
        before = found.held()
        yield found
        gc.collect()
        assert found.held() == before


@pytest.fixture
def backend(on_gpu: bool, request: pytest.FixtureRequest) -> CudaBackend:
    """The backend, where its programs can run."""
    if on_gpu:
        return CudaBackend()
    request.getfixturevalue("counts")
    return OnStandin()
