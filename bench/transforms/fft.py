"""Fourier transforms beside SciPy's (pocketfft), on one core: `python bench/transforms/fft.py`,
for this processor or for another that it can do the work of: `… fft.py haswell`.
Contenders take turns in bursts of 20 ms; the best of nine counts. RESULTS.md has what it said.
"""

from __future__ import annotations

import os

os.environ |= {"XLAC_CACHE": "off", "OMP_NUM_THREADS": "1"}
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import sys
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import scipy.fft
from bursts import best_bursts

import xlac

SHAPES = (
    (1, 64), (512, 64), (1, 1000), (1, 1009), (1, 1024), (64, 1024), (1, 4096), (1, 16384),
    (16, 16384), (512, 100), (300, 729), (1, 99991), (1, 1 << 18), (1, 1 << 20),
)  # fmt: skip


def errors(values: np.ndarray, wanted: np.ndarray) -> float:
    """The largest error, relative to the largest element."""
    return float(np.abs(values - wanted).max() / np.abs(wanted).max())


def row(shape: tuple[int, int], **options: str) -> str:
    """A line of the table."""
    rng, size = np.random.default_rng(0), shape[1]
    x, y = (rng.standard_normal((2, *shape))).astype(np.float32)
    z, wide = x + 1j * y, x + 1j * y.astype(np.float64)
    half, full = z[:, : size // 2 + 1].copy(), wide[:, : size // 2 + 1].copy()
    parts = np.ascontiguousarray(half.real), np.ascontiguousarray(half.imag)
    cells = [f"{shape[0]} × {size:,}"]
    for function, arguments, peer, exact in (
        (lambda a, b: xlac.fft(a, b), (x, y), lambda: scipy.fft.fft(z), np.fft.fft(wide)),
        (lambda a: xlac.rfft(a), (x,), lambda: scipy.fft.rfft(x), np.fft.rfft(x.astype(float))),
        (
            lambda a, b: xlac.irfft(a, b, length=size),
            parts,
            lambda: scipy.fft.irfft(half, size),
            np.fft.irfft(full, size),
        ),
    ):
        ours = xlac.jit(function, threads=1, **options)
        result = ours(*arguments)
        result = result[0] + 1j * result[1] if isinstance(result, tuple) else result
        call = partial(ours, *arguments)
        mine, theirs = best_bursts((call, peer), clock=time.perf_counter)
        cells.append(
            f"{mine * 1e6:,.0f} / {theirs * 1e6:,.0f} = {mine / theirs:.2f} "
            f"({errors(result, exact):.1e} / {errors(peer(), exact):.1e})"
        )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print("| shape | fft | rfft | irfft |\n|---|---|---|---|")
    for one in SHAPES:
        print(row(one, **({"cpu": sys.argv[1]} if sys.argv[1:] else {})), flush=True)
