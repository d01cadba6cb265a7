"""Decompositions beside SciPy's LAPACK, one matrix on one core.

    python bench/linalg/linear_algebra.py [OPERATION …] [--sizes 32,128]

Contenders take turns in bursts of 20 ms; the best of nine counts. RESULTS.md has the figures.
"""

from __future__ import annotations

import os

os.environ |= {"XLAC_CACHE": "off", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import scipy.linalg
from bursts import best_bursts
from scipy.linalg import blas, lapack

import xlac

Array = np.ndarray
Case = tuple[Callable[..., object], tuple[Array, ...], Callable[[], object]]


def cases(size: int, dtype: type) -> dict[str, Case]:
    """Our function, its arguments and the peer's call, by operation. LAPACK is given its own order
    of elements, so that neither side is charged for transposing.
    """
    rng, kind = np.random.default_rng(0), "s" if dtype is np.float32 else "d"
    a, b = rng.standard_normal((2, size, size)).astype(dtype)
    spd = (a @ a.T + size * np.eye(size)).astype(dtype)
    low = (np.tril(a) / size + np.eye(size)).astype(dtype)
    symmetric = (a + a.T) / 2
    turned = {id(x): np.asfortranarray(x) for x in (a, b, spd, low, symmetric)}

    def call(library: object, name: str, *arrays: Array, **given: object) -> Callable[[], object]:
        function = getattr(library, kind + name)
        return partial(function, *(turned.get(id(x), x) for x in arrays), **given)

    return {
        "lu": (lambda a: xlac.lu(a), (a,), call(lapack, "getrf", a)),
        "cholesky": (lambda a: xlac.cholesky(a), (spd,), call(lapack, "potrf", spd, lower=1)),
        "triangular_solve": (
            lambda a, b: xlac.triangular_solve(a, b), (low, b),
            partial(getattr(blas, kind + "trsm"), 1.0, turned[id(low)], turned[id(b)], lower=1),
        ),
        "solve": (lambda a, b: xlac.solve(a, b), (a, b), call(lapack, "gesv", a, b)),
        "qr": (
            lambda a: xlac.qr(a), (a,),
            partial(scipy.linalg.qr, a, mode="economic", check_finite=False),
        ),
        "eigh": (
            lambda a: xlac.eigh(a), (symmetric,),
            partial(scipy.linalg.eigh, symmetric, driver="evd", check_finite=False),
        ),
        "svd": (
            lambda a: xlac.svd(a, full_matrices=False), (a,),
            partial(scipy.linalg.svd, a, full_matrices=False, check_finite=False),
        ),
    }  # fmt: skip


def cell(case: Case) -> str:
    """Our time, the peer's, in microseconds, and how many times as fast as it we are; then the
    seconds of compiling.
    """
    function, arguments, peer = case
    began = time.perf_counter()
    ours = xlac.jit(function, threads=1)
    ours(*arguments)
    compiling = time.perf_counter() - began
    call = partial(ours, *arguments)
    mine, theirs = best_bursts((call, peer), clock=time.perf_counter)
    times = " / ".join(f"{s * 1e6:,.{int(s < 1e-5)}f}" for s in (mine, theirs))
    return f"{times}: {theirs / mine:.2f} ({compiling:.1f} s)"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("operations", nargs="*", default=list(cases(1, np.float32)))
    parser.add_argument("--sizes", default="8,16,32,48,64,128,256,512")
    options = parser.parse_args()
    print("| operation | n | f32 | f64 |\n|---|---|---|---|")
    for name in options.operations:
        for size in map(int, options.sizes.split(",")):
            cells = [cell(cases(size, dtype)[name]) for dtype in (np.float32, np.float64)]
            print(f"| {name} | {size} | {' | '.join(cells)} |", flush=True)
