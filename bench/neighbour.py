"""Two threads beside busy neighbours: `python bench/neighbour.py MODEL.onnx INPUTS.npz
[--neighbours 2]`.

The same program with one thread and with two takes turns in one process, first as the machine is,
then beside processes that never rest. A pool that waits for threads which the system does not run
would be many times slower with two.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np

import xlac

BURSTS, SECONDS = 20, 0.2


def times(model: Path, inputs: Path) -> dict[str, float]:
    """Median and worst tenth, in microseconds of wall time, of calls with one thread and with two,
    in turn.
    """
    with np.load(inputs) as arrays:
        given = {name: arrays[name] for name in arrays.files}
    programs = {threads: xlac.compile(model, threads=threads) for threads in (1, 2)}
    taken: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(BURSTS):
        for threads, program in programs.items():
            values = [given[name] for name in program.inputs]
            stop = time.perf_counter() + SECONDS
            while time.perf_counter() < stop:
                begin = time.perf_counter()
                program(*values)
                taken[threads].append(time.perf_counter() - begin)
    summary = {f"median {n}": 1e6 * median(list_) for n, list_ in taken.items()}
    return summary | {
        f"worst tenth {n}": 1e6 * sorted(list_)[int(0.9 * len(list_))] for n, list_ in taken.items()
    }


def main() -> None:
    """Prints the times of both programs, as the machine is and beside busy processes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("inputs", type=Path)
    parser.add_argument("--neighbours", type=int, default=2)
    asked = parser.parse_args()
    print("as it is:", json.dumps(times(asked.model, asked.inputs)))
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(asked.neighbours)
    ]
    try:
        print(f"beside {asked.neighbours}:", json.dumps(times(asked.model, asked.inputs)))
    finally:
        for process in busy:
            process.kill()


if __name__ == "__main__":
    main()
