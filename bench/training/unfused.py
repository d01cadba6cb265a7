"""A step beside the same one without fusion: every primitive is a kernel of its own, with the same
schedules of products and convolutions.

    python bench/training/unfused.py [ROW…] [--threads 1] [--bursts 7] [--seconds 0.5]

Two processes take turns, a burst each; a ratio is the median over turns of the time without fusion
over that with it. In both, composites that a schedule computes whole stay so.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from statistics import median
from typing import Any

from pair import step_bursts, turns
from step_rows import ROWS


def without_fusion() -> None:
    """Compiles whatever this process compiles from now on without fusion."""
    from xlac import driver

    fused = driver.partition

    def apart(*given: Any, **options: Any) -> Any:
        return fused(*given, **{**options, "fuse": False})

    driver.partition = apart  # type: ignore[assignment]


def stepping(row: str, fuse: bool, threads: int) -> None:
    """A contender."""
    if not fuse:
        without_fusion()
    step_bursts(row, time.perf_counter, threads=threads)


def compared(row: str, threads: int, bursts: int, seconds: float) -> tuple[float, float, float]:
    """Milliseconds of a step with fusion and without, and the median ratio of the second."""
    env = os.environ | {"OMP_NUM_THREADS": str(threads), "XLAC_CACHE": "off"}
    alone = ["taskset", "-c", str(max(os.sched_getaffinity(0)))] if threads == 1 else []
    whole = [*alone, sys.executable, __file__, row, "--threads", str(threads), "--contender"]
    commands = [[*whole, contender] for contender in ("fused", "unfused")]
    losses, figures = turns(commands, env, bursts, seconds)
    (fused, *_), (unfused, *_) = losses  # later ones part: steps amplify the last digits
    assert abs(fused - unfused) <= 1e-4 * abs(fused), losses
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
        fused, unfused, ratio = compared(row, asked.threads, asked.bursts, asked.seconds)
        print(f"| {row} | {fused:.2f} | {unfused:.2f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
