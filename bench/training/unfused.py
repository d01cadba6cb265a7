"""A step beside the same one without fusion: every primitive is a kernel of its own, with the same
schedules of products and convolutions.

    python bench/training/unfused.py [ROW…] [--threads 1] [--bursts 7] [--seconds 0.5]

Two processes take turns, a burst each; a ratio is the median over turns of the time without fusion
over that with it. In both, composites that a schedule computes whole stay so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from step_rows import ROWS


def without_fusion() -> None:
    """Compiles whatever this process compiles from now on without fusion."""
    from xlac import driver

    fused = driver.partition

    def apart(*given: Any, **options: Any) -> Any:
        return fused(*given, **{**options, "fuse": False})

    driver.partition = apart  # type: ignore[assignment]


def stepping(row: str, fuse: bool, threads: int) -> None:
    """A contender: for each line of so many seconds, the least time of a step."""
    if not fuse:
        without_fusion()
    from xlac.training.trainer import Trainer

    asked = ROWS[row]
    file = Path(__file__).parent / "models" / f"{asked.network}.yaml"
    trainer = Trainer(file, params=asked.params, target="cpu", threads=threads)
    given = asked.arrays()
    print(json.dumps([trainer.step(**given)["loss"] for _ in range(3)]), flush=True)
    for line in sys.stdin:
        stop, best = time.perf_counter() + float(line), float("inf")
        while best == float("inf") or time.perf_counter() < stop:
            start = time.perf_counter()
            trainer.step(**given)
            best = min(best, time.perf_counter() - start)
        print(best, flush=True)


def turns(row: str, threads: int, bursts: int, seconds: float) -> tuple[float, float, float]:
    """Milliseconds of a step with fusion and without, and the median ratio of the second."""
    env = os.environ | {"OMP_NUM_THREADS": str(threads), "XLAC_CACHE": "off"}
    alone = ["taskset", "-c", str(max(os.sched_getaffinity(0)))] if threads == 1 else []
    running = []
    for one in ("fused", "unfused"):
        options = ["--contender", one, "--threads", str(threads)]
        command = [*alone, sys.executable, __file__, row, *options]
        running.append(
            subprocess.Popen(
                command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        )
    losses = [json.loads(process.stdout.readline()) for process in running if process.stdout]
    (fused, *_), (unfused, *_) = losses  # later ones part: steps amplify the last digits
    assert abs(fused - unfused) <= 1e-4 * abs(fused), losses
    figures = []
    for _ in range(bursts):
        pair = []
        for process in running:
            assert process.stdin and process.stdout
            process.stdin.write(f"{seconds}\n")
            process.stdin.flush()
            pair.append(float(process.stdout.readline()))
        figures.append(pair)
    for process in running:
        assert process.stdin
        process.stdin.close()
        process.wait()
    fused_best, unfused_best = (min(column) * 1e3 for column in zip(*figures, strict=True))
    return fused_best, unfused_best, median(unfused / fused for fused, unfused in figures)


def main() -> None:
    """Prints a row for each model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", default=list(ROWS), metavar="ROW")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bursts", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a burst, at least a step")
    parser.add_argument("--contender", choices=("fused", "unfused"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.contender is not None:
        return stepping(asked.rows[0], asked.contender == "fused", asked.threads)
    print("| row | fused, ms | a kernel for each primitive, ms | ratio |\n|---|---|---|---|")
    for row in asked.rows:
        fused, unfused, ratio = turns(row, asked.threads, asked.bursts, asked.seconds)
        print(f"| {row} | {fused:.2f} | {unfused:.2f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
