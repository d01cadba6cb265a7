"""Accuracy and speed of expanded functions as a backend compiles them: `python bench/math_functions.py [cpu|c]`.

Accuracy is the greatest distance from the exact value in ulps over bit patterns from end to end and dense runs;
speed is the time for 16 elements of an array in the first-level cache, on one thread.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "math"))

from math_harness import kernel_of, ulps
from test_math_functions import CASES, pairs, points

from xlac_sdk.dtypes import DType
from xlac_sdk.primitives import Primitive
from xlac_sdk.program import Argument, Launch, Program, Role, Slot
from xlac_sdk.registry import find
from xlac_sdk.target import Request

Array = NDArray[Any]
P = Primitive
wide = np.longdouble
LAUNCHES = 300  # in one call, so that the call itself does not count


def build(primitive: Primitive, dtypes: list[DType], count: int, backend: Any, folder: Path, launches: int = 1) -> Any:
    """An executable of inputs a, b and output y."""
    target = backend.target(Request())
    lanes = target.lanes(dtypes[0])
    kernel = kernel_of(primitive, dtypes, count, lanes=lanes)
    ins = [Slot("ab"[k], f"in{k}", d, (count,), Role.INPUT) for k, d in enumerate(dtypes)]
    out = Slot("y", "out", kernel.parameters[-1].dtype, (count,), Role.OUTPUT)
    step = Launch(kernel, tuple(map(Argument, (*ins, out))))
    program = Program("bench", tuple(ins), (out,), (*ins, out), (step,) * launches, {})
    return backend.load(backend.build(backend.emit(program, target), folder), program, target)


def run(executable: Any, arrays: list[Array]) -> Array:
    out = np.zeros(len(arrays[0]), arrays[0].dtype)
    executable.run(dict(zip("ab", arrays, strict=False)), {"y": out})
    return out


def main() -> None:
    backend = find(sys.argv[1] if len(sys.argv) > 1 else "cpu")
    cases: list[tuple[P, Any]] = [(c[0], c[1]) for c in CASES]
    cases += [(P.POW, np.power), (P.ATAN2, np.arctan2), (P.REM, np.fmod)]
    for primitive, exact in cases:
        row = f"{primitive.value:8}"
        for kind in (np.float32, np.float64):
            two = primitive in (P.POW, P.ATAN2, P.REM)
            data = list(pairs(kind)) if two else [points(kind)]
            data = [a[: len(a) // 16 * 16] for a in data]
            dtypes = [DType.of(a.dtype) for a in data]
            with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
                got = run(build(primitive, dtypes, len(data[0]), backend, Path(folder)), data)
                worst = float(ulps(got, np.asarray(exact(*(a.astype(wide) for a in data)))).max())
            rng = np.random.default_rng(0)
            short = [rng.uniform(0.1, 3.0, 2048).astype(kind) for _ in data]
            with tempfile.TemporaryDirectory() as folder:
                executable = build(primitive, dtypes, 2048, backend, Path(folder), LAUNCHES)
                inputs, out = dict(zip("ab", short, strict=False)), {"y": np.zeros(2048, kind)}
                best = 1e9
                for _ in range(30):
                    start = time.perf_counter()
                    executable.run(inputs, out)
                    best = min(best, (time.perf_counter() - start) / LAUNCHES)
            row += f" | {worst:6.2f} ulp {best / 2048 * 16 * 1e9:7.2f} ns/16"
        print(row, flush=True)


if __name__ == "__main__":
    main()
