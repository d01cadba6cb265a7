"""Schur forms and eigenvectors beside SciPy's (LAPACK), on one core: `python bench/spectra/schur.py
SIZE…`. Calls take turns; the least time of the thread counts. RESULTS.md has what it said.
"""

from __future__ import annotations

import os

os.environ |= {"XLAC_CACHE": "off", "OPENBLAS_NUM_THREADS": "1"}

import sys
import time
from collections.abc import Callable
from itertools import product

import numpy as np
import scipy.linalg

import xlac
from xlac.ir.graph import Graph
from xlac.ops import build
from xlac.ops.complex.linalg.eigenvectors import eig
from xlac.ops.complex.linalg.schur import schur
from xlac_sdk.dtypes import DType

ROUNDS = 5
FORMS = {"schur": (schur, scipy.linalg.schur), "eig": (eig, scipy.linalg.eig)}


def compiled(function: Callable, size: int, count: int) -> Callable:
    """A function of matrices of one or two parts."""
    params = tuple(build.param(f"x{n}", DType.F64, (size, size)) for n in range(count))
    found = [x if isinstance(x, tuple) else (x,) for x in function(params)]
    parts = [part for parts in found for part in parts]
    graph = Graph("spectrum", params, {f"y{n}": part for n, part in enumerate(parts)})
    return xlac.compile(xlac.Model(graph, {}), target="cpu")


def seconds(call: Callable, *values: np.ndarray) -> float:
    """The time of the thread that a call takes."""
    begun = time.thread_time()
    call(*values)
    return time.thread_time() - begun


def row(name: str, size: int, count: int) -> str:
    """A line of the table."""
    ours, peer = FORMS[name]
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(size, size)) for _ in range(count)]
    whole = parts[0] if count == 1 else parts[0] + 1j * parts[1]
    call = compiled(ours, size, count)
    pairs = [(seconds(call, *parts), seconds(peer, whole)) for _ in range(ROUNDS)]
    mine, theirs = (min(times) * 1e3 for times in zip(*pairs, strict=True))
    kind = ("f64", "c128")[count - 1]
    return f"| {name} | {kind} | {size} | {mine:.2f} | {theirs:.2f} | {theirs / mine:.2f} |"


if __name__ == "__main__":
    print("| | type | n | xlac, ms | SciPy, ms | speed |\n|---|---|---|---|---|---|")
    for size, name, count in product(map(int, sys.argv[1:]), FORMS, (1, 2)):
        print(row(name, size, count), flush=True)
