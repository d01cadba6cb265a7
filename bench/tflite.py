"""Models of TensorFlow Lite beside LiteRT with its default delegate (XNNPACK), one thread each, and
how long a file takes to read: `python bench/tflite.py MODEL.tflite…`. Needs ai-edge-litert in the
environment: `pip install 'xlac[test-tflite]'`.

`call` is our call with arrays, whose sizes it looks at where the file leaves them open, `fixed`
that of the program for these sizes. `invoke` is LiteRT's call alone, for sizes that were set,
`whole` with setting its inputs and taking its results. Ratios are to `invoke`.
"""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from bursts import best_bursts

import xlac
from xlac.frontends.loader import load

BURSTS, SECONDS = 7, 0.04


class Peer:
    """LiteRT's interpreter of a model, with drawn inputs."""

    def __init__(self, file: Path) -> None:
        from ai_edge_litert import interpreter

        self.model = interpreter.Interpreter(model_path=str(file), num_threads=1)
        self.model.allocate_tensors()
        random = np.random.default_rng(0)
        self.given: list[tuple[int, np.ndarray]] = []
        for info in self.model.get_input_details():
            drawn = random.standard_normal(info["shape"])
            whole = np.issubdtype(info["dtype"], np.integer)
            array = (drawn * 40 if whole else drawn).astype(info["dtype"])
            self.given.append((info["index"], array))
        self.results = [info["index"] for info in self.model.get_output_details()]

    def whole(self) -> list[np.ndarray]:
        """A call with arrays that gives arrays."""
        for index, array in self.given:
            self.model.set_tensor(index, array)
        self.model.invoke()
        return [self.model.get_tensor(index) for index in self.results]


def row(file: Path) -> tuple[list[float], str]:
    """How the times of `call` and `fixed` compare with the peer's, and the line of the table."""
    theirs = Peer(file)
    inputs = [array for _, array in theirs.given]
    program: Any = xlac.compile(file, threads=1)
    found = program(*inputs)
    fixed = program
    if hasattr(program, "specialize"):
        fixed = program.specialize(dict(zip(program.inputs, inputs, strict=True)))
    array = next(iter(found.values())) if isinstance(found, dict) else found
    wanted = theirs.whole()[0]
    far = float(np.abs(array.astype(np.float64) - wanted.astype(np.float64)).max())
    calls = [lambda: program(*inputs), lambda: fixed(*inputs), theirs.model.invoke, theirs.whole]
    times = best_bursts(calls, BURSTS, SECONDS)
    ratios = [times[0] / times[2], times[1] / times[2]]
    cells = [f"{time * 1e6:.2f}" for time in times] + [f"{ratio:.2f}" for ratio in ratios]
    return ratios, f"| {file.stem} | {' | '.join(cells)} | {far:.1e} |"


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
    names = "model | call us | fixed us | invoke us | whole us | call | fixed | apart"
    print(f"| {names} |\n|{'---|' * 8}")
    found: list[list[float]] = []
    for file in files:
        try:
            ratios, line = row(file)
        except Exception as error:  # of either engine
            line = f"| {file.stem} | {str(error).splitlines()[0][:80]} | | | | | | |"
        else:
            found.append(ratios)
        print(line, flush=True)
    means = [math.exp(sum(map(math.log, each)) / len(found)) for each in zip(*found, strict=True)]
    print(f"\ngeometric means {', '.join(f'{mean:.2f}' for mean in means)}\n")
    print("| file | MB | read as a model, ms | its bytes, ms |\n|---|---|---|---|")
    for file in files:
        print(reading(file), flush=True)


if __name__ == "__main__":
    main()
