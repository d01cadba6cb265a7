"""The spec whose compilations the tests keep, its weights, and the parts of its cache."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from xlac.support import dependencies

SPEC = """\
xlac: 1
model: small
dims: {n: {min: 1, max: 8, opt: 2}}
params: {scale: 3.0}
inputs: {x: 'f32[n, 4]'}
weights: {file: weights.safetensors}
graph:
  h: linear(x, units=5)
  y: h * $scale
outputs: [y]
"""
ROW = np.arange(8, dtype=np.float32).reshape(2, 4)


def weights(folder: Path, seed: int) -> None:
    from safetensors.numpy import save_file

    made = np.random.default_rng(seed)
    save_file(
        {
            "h.weight": made.standard_normal((5, 4)).astype(np.float32),
            "h.bias": np.zeros(5, np.float32),
        },
        folder / "weights.safetensors",
    )


def settle(spec: Path) -> None:
    """Lets the clock of the file system go on, so that a write changes a file's times."""
    while (
        time.time_ns() - (spec.parent / "weights.safetensors").stat().st_ctime_ns
        < dependencies.TICK
    ):
        time.sleep(0.01)


def cache_of(spec: Path) -> Any:
    from xlac.cache.store import Cache

    return Cache(spec.parent / "cache", 1 << 30)


def backend() -> Any:
    from xlac_sdk.host.registry import find

    return find("cpu")
