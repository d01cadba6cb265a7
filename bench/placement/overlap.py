"""Stages of two targets at once beside the same stages in turn.

    python bench/placement/overlap.py
    POCL_MAX_PTHREAD_COUNT=1 python bench/placement/overlap.py --far opencl

The towers of `towers.yaml`, one on `--far` and one on cpu, a thread each: the call in the order
that xlac finds, and with each stage waited for, in turn; the best burst of each. The bound is the
longer tower's time, and what joins them. Where opencl is a processor (pocl), it needs one of its
own, as above.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import xlac
from xlac.placement import predict
from xlac.placement.call_order import one_after_the_other
from xlac.placement.executable import StagedExecutable

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bursts import best_bursts

SPEC = Path(__file__).with_name("towers.yaml")
BURSTS = 40


def main() -> None:
    """Prints the least times, and what of the shorter tower is hidden."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--far", default="c", help="the target of the other tower")
    chosen = parser.parse_args()
    if chosen.far == "opencl":  # its facts have all processors, and the environment says one
        predict.processors = lambda: 64.0  # type: ignore[assignment]
    model: Any = xlac.compile(SPEC, place={"far*": chosen.far, "near*": "cpu", "y": "cpu"})
    generator = np.random.default_rng(0)
    given = {n: generator.standard_normal((256, 512), np.float32) for n in ("x", "w")}
    out = {"y": np.empty((256, 512), np.float32)}
    alone = StagedExecutable(model.whole, model.values, model.stages)
    assert alone.order == one_after_the_other(len(model.stages))
    stages = {
        f"stage {n} on {stage.target.name}": call
        for n, (stage, call) in enumerate(
            zip(model.stages, model.stage_calls(given), strict=True), 1
        )
    }
    calls: dict[str, Callable[[], object]] = {
        "in the order found": lambda: model.run(given, out=out),
        "one after the other": lambda: alone.run(given, out),
        **stages,
    }
    least = best_bursts(list(calls.values()), BURSTS, clock=time.perf_counter)
    for name, seconds in zip(calls, least, strict=True):
        print(f"{name:24}{seconds * 1e3:8.3f} ms")
    for thread in model._code.order.threads:
        print("thread:", *thread)
    found, turns, *parts = least
    print(f"hidden: {(turns - found) / sorted(parts)[-2]:.0%} of the shorter tower's time")


if __name__ == "__main__":
    main()
