"""`xlac` with a stand-in GPU and a stand-in NCCL: `python cuda_ranks.py run SPEC --target cuda`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "cuda"))

from cuda_harness import STANDIN, OnStandin, standin

import xlac_cuda
from xlac.cli import main
from xlac_cuda.ranks import nccl

if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch, standin(patch):
        patch.setattr(xlac_cuda, "BACKEND", OnStandin())
        patch.setattr(nccl, "_files", lambda: [STANDIN.nccl])
        main()
