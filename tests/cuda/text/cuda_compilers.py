"""Whether a compiler for GPUs is installed, and the text of specs for it."""

from __future__ import annotations

import shutil
from functools import cache

import pytest
from shipped import FOLDER

from xlac.driver import lower, specialized
from xlac.frontends.loader import load
from xlac_cuda import BACKEND
from xlac_cuda.build import nvrtc
from xlac_sdk.target import Request

compiles = pytest.mark.skipif(
    nvrtc.installed() is None and shutil.which("nvcc") is None,
    reason="neither NVRTC nor nvcc is installed",
)


@cache
def text_of(spec: str, arch: str = "sm_90a") -> str:
    target = BACKEND.target(Request(arch=arch))
    (text,) = BACKEND.emit(
        lower(specialized(load(FOLDER / f"{spec}.yaml")), target).program, target
    ).values()
    return text
