"""NCCL's stand-in, for tests of ranks with GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest
from cuda_harness import STANDIN
from nccl_harness import NcclStandin

from xlac_cuda.ranks import nccl


@pytest.fixture
def standin_nccl(counts: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NcclStandin:
    """NCCL is the stand-in, for up to four GPUs."""
    monkeypatch.setenv("STANDIN_DEVICES", "4")
    monkeypatch.setenv("STANDIN_NCCL_FOLDER", str(tmp_path))
    monkeypatch.setattr(nccl, "_files", lambda: [STANDIN.nccl])
    nccl.wanted.cache_clear()
    return NcclStandin()
