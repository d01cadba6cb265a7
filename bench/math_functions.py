"""Accuracy and speed of expanded functions as a backend compiles them: `python
bench/math_functions.py [cpu|c] [--cpu x86-64-v3]`.

Accuracy is the greatest distance from the exact value in ulps over bit patterns from end to end and
dense runs; speed is the time for 16 elements of an array in the first-level cache, on one thread.
`--dense 61` tells instead the greatest distance over every 61st float (f32, the cpu backend).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "math"))

from function_cases import CASES, pairs, points
from math_compiled import EXACT, executable, run, worst
from math_harness import ulps

from xlac_sdk.backend import Backend
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.kernel_ir.primitives import Primitive

Array = NDArray[Any]
P = Primitive
wide = np.longdouble
LAUNCHES = 300  # in one call, so that the call itself does not count
ELEMENTS = 2048
TWO = {P.POW: np.power, P.ATAN2: np.arctan2, P.REM: np.fmod}


def distance(primitive: P, kind: Any, exact: Any, backend: Backend, cpu: str) -> float:
    """The greatest error, in ulps."""
    data = list(pairs(kind)) if primitive in TWO else [points(kind)]
    data = [a[: len(a) // 16 * 16] for a in data]
    function = executable(backend, primitive, [DType.of(a.dtype) for a in data], len(data[0]), cpu)
    with np.errstate(all="ignore"):
        return float(
            ulps(run(function, *data), np.asarray(exact(*(a.astype(wide) for a in data)))).max()
        )


def nanoseconds(primitive: P, kind: Any, backend: Backend, cpu: str) -> float:
    """The time for 16 elements: the best of many."""
    rng = np.random.default_rng(0)
    data = [rng.uniform(0.1, 3.0, ELEMENTS).astype(kind) for _ in range(1 + (primitive in TWO))]
    function = executable(
        backend, primitive, [DType.of(a.dtype) for a in data], ELEMENTS, cpu, LAUNCHES
    )
    inputs, out = dict(zip("ab", data, strict=False)), {"y": np.zeros(ELEMENTS, kind)}
    best = 1e9
    for _ in range(30):
        start = time.thread_time()
        function.run(inputs, out)
        best = min(best, (time.thread_time() - start) / LAUNCHES)
    return best / ELEMENTS * 16 * 1e9


def main() -> None:
    """Prints the accuracy and the speed of each function."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("backend", nargs="?", default="cpu")
    parser.add_argument("--cpu", default="")
    parser.add_argument("--dense", type=int, default=0, metavar="STEP")
    chosen = parser.parse_args()
    if chosen.dense:
        for primitive in (*EXACT, P.POW):
            most, at = worst(primitive, chosen.dense, chosen.cpu)
            print(
                f"{primitive.value:8} | {most:6.2f} ulp at {', '.join(map(repr, at))}", flush=True
            )
        return
    backend = find(chosen.backend)
    for primitive, exact in [*((c[0], c[1]) for c in CASES), *TWO.items()]:
        row = f"{primitive.value:8}"
        for kind in (np.float32, np.float64):
            row += f" | {distance(primitive, kind, exact, backend, chosen.cpu):6.2f} ulp"
            row += f" {nanoseconds(primitive, kind, backend, chosen.cpu):7.2f} ns/16"
        print(row, flush=True)


if __name__ == "__main__":
    main()
