"""Models of TensorFlow Lite beside LiteRT with its default delegate (XNNPACK), one thread each, and
how long a file takes to read: `python bench/tflite.py MODEL.tflite…`. Needs ai-edge-litert in the
environment: `pip install 'xlac[test-tflite]'`.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bursts import best_bursts

import xlac
from xlac.frontends.loader import load

BURSTS, SECONDS = 9, 0.05


def peer(file: Path) -> tuple[Callable[[], Any], list[np.ndarray], Callable[[], np.ndarray]]:
    """A call of LiteRT's interpreter, its inputs, and its first result."""
    from ai_edge_litert import interpreter

    loaded = interpreter.Interpreter(model_path=str(file), num_threads=1)
    loaded.allocate_tensors()
    random = np.random.default_rng(0)
    inputs = []
    for info in loaded.get_input_details():
        drawn = random.standard_normal(info["shape"])
        whole = np.issubdtype(info["dtype"], np.integer)
        inputs.append((drawn * 40 if whole else drawn).astype(info["dtype"]))
        loaded.set_tensor(info["index"], inputs[-1])
    loaded.invoke()
    return loaded.invoke, inputs, lambda: loaded.get_tensor(loaded.get_output_details()[0]["index"])


def row(file: Path) -> tuple[float, str]:
    """How our time compares with the peer's, and the line of the table."""
    theirs, inputs, result = peer(file)
    program: Any = xlac.compile(file, threads=1)
    found = program(*inputs)
    array = next(iter(found.values())) if isinstance(found, dict) else found
    far = float(np.abs(array.astype(np.float64) - result().astype(np.float64)).max())
    ours, best = best_bursts([lambda: program(*inputs), theirs], BURSTS, SECONDS)
    ratio = ours / best
    return ratio, f"| {file.stem} | {ours * 1e3:.3f} | {best * 1e3:.3f} | {ratio:.2f} | {far:.1e} |"


def reading(file: Path) -> str:
    """The time to read a file as a model beside that of its bytes, the least of five."""
    whole, bytes_alone = [], []
    for _ in range(5):
        start = time.perf_counter()
        file.read_bytes()
        bytes_alone.append(time.perf_counter() - start)
        start = time.perf_counter()
        load(file)
        whole.append(time.perf_counter() - start)
    size = file.stat().st_size / 1e6
    return f"| {file.stem} | {size:.1f} | {min(whole) * 1e3:.1f} | {min(bytes_alone) * 1e3:.1f} |"


def main() -> None:
    """Prints both tables."""
    files = [Path(name) for name in sys.argv[1:]]
    print("| model | xlac ms | LiteRT ms | ratio | apart |\n|---|---|---|---|---|")
    ratios = []
    for file in files:
        try:
            ratio, line = row(file)
        except Exception as error:  # of either engine
            line = f"| {file.stem} | {str(error).splitlines()[0][:80]} | | | |"
        else:
            ratios.append(ratio)
        print(line, flush=True)
    print(f"\ngeometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}\n")
    print("| file | MB | read as a model, ms | its bytes, ms |\n|---|---|---|---|")
    for file in files:
        print(reading(file), flush=True)


if __name__ == "__main__":
    main()
