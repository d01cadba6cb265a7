"""Fixtures of the tests of NVIDIA's libraries: the ones that stand in for them, or with --gpu those
of this machine.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cublaslt_harness import Asked, Library
from cuda_harness import STANDIN, Counts
from cudnn_harness import AskedDnn
from cudnn_harness import Library as Dnn

from xlac_cuda.backend import CudaBackend
from xlac_cuda.libraries import cublaslt, cudnn, cudnn_calls, products


@pytest.fixture
def library(counts: Counts, monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    """The stand-in as this machine's cuBLASLt; afterwards nothing that it gave may be held."""
    monkeypatch.setattr(cublaslt, "_files", lambda: iter([STANDIN.cublaslt]))
    monkeypatch.setattr(products, "_known", {})
    cublaslt.installed.cache_clear()
    found = Library()
    yield found
    cublaslt.installed.cache_clear()
    assert found("held") == 0


@pytest.fixture
def cublas(on_gpu: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `Asked` compiles for: the stand-in, or this machine's GPU and its cuBLASLt."""
    if not on_gpu:
        request.getfixturevalue("library")
        return
    if cublaslt.installed() is None:
        pytest.skip("cuBLASLt is not installed")
    monkeypatch.setattr(Asked, "backend", CudaBackend())
    monkeypatch.setattr(Asked, "arch", "")


@pytest.fixture
def dnn(counts: Counts, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dnn]:
    """The stand-in as this machine's cuDNN; afterwards nothing that it gave may be held."""
    monkeypatch.setattr(cudnn, "_files", lambda: iter([STANDIN.cudnn]))
    monkeypatch.setattr(cudnn_calls, "_known", {})
    cudnn.installed.cache_clear()
    found = Dnn()
    yield found
    cudnn.installed.cache_clear()
    assert found("held") == 0


@pytest.fixture
def cudnn_library(
    on_gpu: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `AskedDnn` compiles for: the stand-in, or this machine's GPU and its cuDNN."""
    if not on_gpu:
        request.getfixturevalue("dnn")
        return
    if cudnn.installed() is None:
        pytest.skip("cuDNN is not installed")
    monkeypatch.setattr(AskedDnn, "backend", CudaBackend())
    monkeypatch.setattr(AskedDnn, "arch", "")
