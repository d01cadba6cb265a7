"""Specs of operations with hand-written kernels, for these tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import xlac

SPEC = """\
xlac: 1
model: own
inputs: {x: "f32[4, 6]", w: "f32[6]"}
ops:
  gated:
    inputs: {a: "f32[*S, N]", b: "f32[N]"}
    outputs: {y: "f32[*S, N]"}
    params: {slope: 0.5}
    expr: {y: a * b * $slope}
    kernels: {TARGET: gated.c}
graph: {y: "gated(x + 1, w, slope=2) * 3"}
outputs: [y]
"""
GATED = """\
#include <stdint.h>
void gated(const float *a, const float *b, float *y, int64_t S, int64_t N, double slope)
{
    for (int64_t i = 0; i < S; ++i)
        for (int64_t j = 0; j < N; ++j)
            y[i * N + j] = a[i * N + j] * b[j] * (float)slope;
}
"""


def written(folder: Path, target: str, kernel: str = GATED, spec: str = SPEC) -> Path:
    """The spec, and the kernel beside it."""
    (folder / "gated.c").write_text(kernel)
    file = folder / "own.yaml"
    file.write_text(spec.replace("TARGET", target))
    return file


def random(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def run(file: Path, target: str, **options: Any) -> Any:
    """The spec's result on random numbers, and what it should be."""
    x, w = random(4, 6), random(6, seed=1)
    got = xlac.compile(file, target, **options)(x=x, w=w)
    return got, (x + 1) * w * 2 * 3
