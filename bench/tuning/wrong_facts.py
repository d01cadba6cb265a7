"""What tuning recovers where the compiler knows a wrong machine: products of `bench/facts.py` by
facts of this processor, by facts that are wrong fourfold, and by the same wrong facts after tuning.

    python bench/tuning/wrong_facts.py --seconds 1 --search 20 --draws 4

All facts are quartered, then all multiplied by four, then each one or the other at random, DRAWS
times. A row is a product that takes at least LOST times as long by wrong facts; the others are
counted. A time is the least of interleaved bursts of this thread's seconds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from math import exp, log
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from facts import BACKEND, CONSTANT, OTHERS, SQUARES, least, product

from xlac.codegen.schedules.document import Asked, data_of, read
from xlac.codegen.schedules.tuned import TuningRecords, machine_of
from xlac.debug.tune.python_api import _Search
from xlac.driver import executable, lower
from xlac.model import Model
from xlac.options import CompileOptions
from xlac_sdk.machine_facts import LIMITS
from xlac_sdk.target import Request, Target

FACTS = (
    "l1_bytes", "l2_bytes", "l3_bytes", "fma_latency", "fmas", "loads", "issue", "l2_rate",
    "l3_rate", "memory_rate", "apart_penalty", "stride_penalty", "prefetch_tiles",
)  # fmt: skip
LOST = 1.2


def wrong(target: Target, times: Sequence[float]) -> Target:
    """The target with every fact multiplied by its number, where its bounds allow that."""
    facts: dict[str, Any] = {}
    for name, by in zip(FACTS, times, strict=True):
        value = getattr(target.hardware, name)
        scaled = type(value)(value * by)
        facts[name] = scaled if LIMITS[name].holds(scaled) else value
    return replace(target, hardware=replace(target.hardware, **facts))


def tuned(model: Model, target: Target, seconds: float) -> Asked:
    """What tuning by the facts of a target finds in some seconds."""
    search = _Search(model, target, BACKEND, CompileOptions(), {})
    return read(data_of(search.run(TuningRecords(machine_of(target)), seconds)))


def main() -> None:
    """Prints a row for each product that wrong facts slow down, and the geometric means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--search", type=float, default=20.0)
    parser.add_argument("--draws", type=int, default=4)
    given = parser.parse_args()
    right, rng = BACKEND.target(Request()), Random(0)
    drawn: list[Sequence[float]] = [[by] * len(FACTS) for by in (0.25, 4.0)]
    drawn += [[rng.choice((0.25, 4.0)) for _ in FACTS] for _ in range(given.draws)]
    cases = [(n, n, n, "input") for n in SQUARES] + [(*shape, "input") for shape in OTHERS]
    cases += [(*shape, "weight") for shape in CONSTANT]
    lost, recovered, alike = list[float](), list[float](), 0
    print("| facts | product | by wrong facts | tuned by them |\n|---|---|---|---|")
    for number, times in enumerate(drawn):
        facts = ("quartered", "times four")[number] if number < 2 else f"draw {number - 1}"
        other = wrong(right, times)
        for rows, depth, columns, kind in cases:
            model, arrays = product(rows, depth, columns, kind)
            functions = {
                name: executable(lower(model, target), BACKEND)
                for name, target in (("right", right), ("wrong", other))
            }
            flops = 2 * rows * depth * columns
            took = least(functions, arrays, flops, given.seconds)
            if took["wrong"] < LOST * took["right"]:
                alike += 1
                continue
            asked = tuned(model, other, given.search)
            functions["tuned"] = executable(lower(model, other, wanted=asked, every=False), BACKEND)
            took = least(functions, arrays, flops, given.seconds)
            lost.append(took["wrong"] / took["right"])
            recovered.append(took["right"] / took["tuned"])
            word = " constant" if kind == "weight" else ""
            cells = f"{rows}×{depth}×{columns}{word} | {lost[-1]:.2f} | {1 / recovered[-1]:.2f}"
            print(f"| {facts} | {cells} |", flush=True)
    for what, values in (("lost", lost), ("recovered", recovered)):
        mean = exp(sum(map(log, values)) / max(1, len(values)))
        print(f"{what}: {mean:.3f}, over {len(values)}; {alike} lose less than a fifth")


if __name__ == "__main__":
    main()
